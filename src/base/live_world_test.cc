// SPDX-License-Identifier: Apache-2.0
#include "base/live_world.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(LiveTimerDeathTest, AProcessWithoutDescriptorsLeftSaysSo) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer itself needs descriptors to look at memory";
#endif
  const auto start_timer = [] {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    live_world().make_timer([] {})->set(live_world().clock().steady());
  };
  EXPECT_DEATH(start_timer(), "cannot make a kernel timer: Too many open files");
}

TEST(LiveWorkers, TasksOfAStrandRunInOrder) {
  std::vector<int> order;
  std::atomic<int> others = 0;
  {
    const auto workers = make_live_workers(4);
    const auto strand = workers->make_strand(Workers::kProcess);
    for (int i = 0; i < 1000; ++i) {
      workers->post(strand, [&order, i] { order.push_back(i); });
      workers->post(Workers::kProcess, [&others] { ++others; });
    }
  }
  ASSERT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(others, 1000);
}

TEST(LiveWorkers, TasksPostedWhileStoppingAndLaterRun) {
  const auto workers = make_live_workers(2);
  const auto strand = workers->make_strand(Workers::kProcess);
  std::atomic<int> done = 0;
  Task task = [&] {
    if (++done < 100) workers->post(strand, task);
  };
  workers->post(strand, task);
  workers->stop();
  EXPECT_EQ(done, 100);
  workers->post(strand, task);
  EXPECT_EQ(done, 101);
}

TEST(LiveWorkers, CallsThatDoNotReturnDelayOnlyTheirOwner) {
  const auto workers = make_live_workers(2);
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::atomic<int> blocked = 0, late = 0;
  for (Workers::Owner owner = 1; owner <= 20; ++owner)
    for (int i = 0; i < 3; ++i)
      workers->post(owner, [&, i] {
        if (i < 2) ++blocked;
        if (i < 2) ended.wait();
        ++late;
      });
  for (Workers::Owner owner : {Workers::Owner{0}, Workers::Owner{21}, Workers::kProcess}) {
    std::promise<void> ran;
    workers->post(owner, [&] { ran.set_value(); });
    ASSERT_EQ(ran.get_future().wait_for(30s), std::future_status::ready) << owner;
  }
  for (int i = 0; i < 3000 && blocked < 40; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(blocked, 40);
  EXPECT_EQ(late, 0) << "more than two calls of one owner ran at a time";
  end.set_value();
  workers->stop();
  EXPECT_EQ(late, 60);
}

TEST(LiveTimer, RunsOncePerTimeThatWasSet) {
  World& world = live_world();
  std::atomic<int> runs = 0;
  std::promise<TimePoint> first;
  const auto timer = world.make_timer([&] {
    if (++runs == 1) first.set_value(world.clock().steady());
  });
  const TimePoint when = world.clock().steady() + 20ms;
  timer->set(when + 1h);
  timer->set(when);
  EXPECT_GE(first.get_future().get(), when);
  EXPECT_EQ(runs, 1);
}

TEST(LiveTimer, RunsInAForkedChildToo) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not allow threads in a forked child";
#endif
  const auto parents = live_world().make_timer([] {});
  parents->set(live_world().clock().steady() + 1h);  // starts the parent's thread
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::promise<void> done;
    const auto timer = live_world().make_timer([&] { done.set_value(); });
    timer->set(live_world().clock().steady() + 5ms);
    done.get_future().get();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(LiveTimer, CanSetItselfAgainAndAnEarlierOneGoesFirst) {
  World& world = live_world();
  std::promise<void> done;
  std::vector<int> order;  // both tasks run on the one thread of the timers
  std::unique_ptr<Timer> second;
  const auto late = world.make_timer([&] {
    order.push_back(2);
    done.set_value();
  });
  const TimePoint start = world.clock().steady();
  int runs = 0;
  second = world.make_timer([&] {
    order.push_back(1);
    if (++runs < 3) second->set(start + runs * 5ms);
  });
  late->set(start + 40ms);
  second->set(TimePoint{});  // long past: at once
  done.get_future().get();
  EXPECT_EQ(order, (std::vector{1, 1, 1, 2}));
}

TEST(LiveTimer, DestructionWaitsForItsTask) {
  World& world = live_world();
  std::promise<void> running;
  std::atomic<bool> ended = false;
  auto timer = world.make_timer([&] {
    running.set_value();
    std::this_thread::sleep_for(20ms);
    ended = true;
  });
  timer->set(TimePoint{});
  running.get_future().get();
  timer.reset();
  EXPECT_TRUE(ended);
}

TEST(LiveTimer, CanBeDestroyedByItsOwnTask) {
  World& world = live_world();
  std::promise<void> done;
  auto timer = std::make_unique<std::unique_ptr<Timer>>();
  *timer = world.make_timer([&] {
    timer->reset();
    done.set_value();
  });
  (*timer)->set(TimePoint{});
  done.get_future().get();
  // Timers still work.
  std::promise<void> again;
  const auto other = world.make_timer([&] { again.set_value(); });
  other->set(TimePoint{});
  again.get_future().get();
}

}  // namespace
}  // namespace tutti
