// SPDX-License-Identifier: Apache-2.0
// The C API in callback mode.
#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>

#include "capi/c_api_testing.h"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CApiCallbacks, ServeInOrderAndCompleteOnReturn) {
  Server server;
  auto scheduler = server.start();
  for (std::uint64_t id = 1; id <= 5; ++id) {
    const tutti_request one = request(id);
    ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
  }
  ASSERT_EQ(tutti_stop(scheduler.get(), TUTTI_DRAIN), TUTTI_OK);
  EXPECT_THAT(server.processed(), ElementsAre(1, 2, 3, 4, 5)) << "stop waits for the last callback";
  EXPECT_EQ(statistics(scheduler).completed, 5U);
  tutti_batch batch{};
  EXPECT_EQ(tutti_next(scheduler.get(), 0, &batch), TUTTI_INVALID);
  EXPECT_THAT(tutti_last_error(), HasSubstr("pull mode"));
}

TEST(CApiCallbacks, DropAnswersEveryRequest) {
  Server server;
  Barrier barrier;
  server.then = [&](auto*, auto) { barrier.wait(); };
  auto scheduler = server.start();
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const tutti_request one = request(id);
    ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
  }
  server.wait_for(1);
  std::thread stopper([&] { EXPECT_EQ(tutti_stop(scheduler.get(), TUTTI_DROP), TUTTI_OK); });
  for (;;) {  // until the scheduler is stopping; requests accepted before that are cancelled
    const tutti_request late = request(9);
    if (tutti_add(scheduler.get(), &late) == TUTTI_STOPPED) break;
    tutti_cancel(scheduler.get(), 9);
  }
  barrier.open();
  stopper.join();
  EXPECT_THAT(server.processed(), ElementsAre(1));
  Ids dropped = server.dropped();
  std::erase(dropped, 9U);  // stopped between the two calls above
  EXPECT_THAT(dropped, ElementsAre(2, 3, 4));
}

TEST(CApiCallbacks, DestroyDropsWhatWaits) {
  Server server;
  Barrier barrier;
  server.then = [&](auto*, auto) { barrier.wait(); };
  auto scheduler = server.start();
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const tutti_request one = request(id);
    ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
  }
  server.wait_for(1);
  std::thread opener([&] { barrier.open(); });
  scheduler.reset();
  opener.join();
  Ids all = server.processed();
  for (const auto id : server.dropped()) all.push_back(id);
  EXPECT_THAT(all, ElementsAre(1, 2, 3)) << "each was answered, one way or the other";
}

TEST(CApiCallbacks, ExplicitCompletionByAnotherThread) {
  tutti_config config = fifo();
  config.policy = "to";
  config.max_in_flight = 1;
  Server server(/*explicit_completion=*/true);
  std::mutex mutex;
  std::vector<std::pair<const tutti_request*, size_t>> held;
  server.then = [&](const tutti_request* requests, size_t count) {
    std::lock_guard guard(mutex);
    held.emplace_back(requests, count);
  };
  auto scheduler = server.start(config);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const tutti_request one = request(id);
    ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
  }
  for (std::size_t done = 1; done <= 3; ++done) {
    server.wait_for(done);
    for (bool completed = false; !completed;) {
      std::lock_guard guard(mutex);
      if (held.empty()) continue;
      EXPECT_EQ(statistics(scheduler).dispatched, done) << "one in batch at most: the next waits for our completion";
      EXPECT_EQ(tutti_complete(scheduler.get(), held[0].first, held[0].second), TUTTI_OK);
      held.clear();
      completed = true;
    }
  }
  EXPECT_EQ(tutti_stop(scheduler.get(), TUTTI_DRAIN), TUTTI_OK);
  EXPECT_EQ(statistics(scheduler).completed, 3U);
}

TEST(CApiCallbacks, AnExceptionIsCountedAndTheSchedulerContinues) {
  for (const bool explicit_completion : {false, true}) {
    tutti_config config = fifo();
    config.max_in_flight = 1;
    Server server(explicit_completion), other;
    tutti_scheduler* self = nullptr;
    server.then = [&](const tutti_request* requests, size_t count) {
      if (requests[0].id % 2 == 1) throw std::runtime_error("a bug in the server");
      EXPECT_TRUE(!explicit_completion || tutti_complete(self, requests, count) == TUTTI_OK);
    };
    auto scheduler = server.start(config);
    self = scheduler.get();
    auto bystander = other.start();
    for (std::uint64_t id = 1; id <= 6; ++id) {
      const tutti_request one = request(id);
      ASSERT_EQ(tutti_add(scheduler.get(), &one), TUTTI_OK);
      ASSERT_EQ(tutti_add(bystander.get(), &one), TUTTI_OK);
    }
    EXPECT_EQ(tutti_stop(scheduler.get(), TUTTI_DRAIN), TUTTI_OK);
    EXPECT_EQ(tutti_stop(bystander.get(), TUTTI_DRAIN), TUTTI_OK);
    EXPECT_THAT(server.processed(), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_EQ(statistics(scheduler).callback_failures, 3U);
    EXPECT_EQ(statistics(scheduler).completed, 6U);
    EXPECT_EQ(statistics(bystander).callback_failures, 0U);
  }
}

TEST(CApiCallbacks, ASlowCallbackDelaysNoOtherScheduler) {
  Server slow, fast;
  Barrier barrier;
  slow.then = [&](auto*, auto) { barrier.wait(); };
  auto first = slow.start();
  auto second = fast.start();
  const tutti_request one = request(1);
  ASSERT_EQ(tutti_add(first.get(), &one), TUTTI_OK);
  slow.wait_for(1);
  for (std::uint64_t id = 1; id <= 100; ++id) {
    const tutti_request more = request(id);
    ASSERT_EQ(tutti_add(second.get(), &more), TUTTI_OK);
  }
  EXPECT_EQ(tutti_stop(second.get(), TUTTI_DRAIN), TUTTI_OK);
  EXPECT_EQ(fast.processed().size(), 100U);
  barrier.open();
}

TEST(CApiCallbacks, EveryCallWorksInsideACallback) {
  Server server;
  tutti_scheduler* self = nullptr;
  std::vector<int> codes;
  server.then = [&](const tutti_request* requests, size_t) {
    if (requests[0].id != 1) return;
    const tutti_request more = request(2), unwanted = request(3);
    codes = {tutti_add(self, &more), tutti_add(self, &unwanted),
             tutti_cancel(self, 3),  tutti_switch_policy(self, "sjf", nullptr, 0),
             tutti_destroy(self),    tutti_stop(self, TUTTI_DRAIN)};
  };
  auto scheduler = server.start();
  self = scheduler.get();
  const tutti_request first = request(1);
  ASSERT_EQ(tutti_add(self, &first), TUTTI_OK);
  server.wait_for(2);
  EXPECT_EQ(tutti_stop(self, TUTTI_DRAIN), TUTTI_OK);
  EXPECT_THAT(codes, ElementsAre(TUTTI_OK, TUTTI_OK, TUTTI_OK, TUTTI_OK, TUTTI_INVALID, TUTTI_OK));
  EXPECT_THAT(server.processed(), ElementsAre(1, 2));
}

// Producers, cancels, switches and explicit completions by other threads at once: every request is answered once.
TEST(CApiCallbacks, NothingIsLostUnderLoad) {
  constexpr std::uint64_t kProducers = 3, kEach = 2000;
  Server server(/*explicit_completion=*/true);
  tutti_scheduler* self = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<tutti_request> handed;
  bool last = false;
  server.then = [&](const tutti_request* requests, size_t count) {
    std::lock_guard guard(mutex);
    handed.insert(handed.end(), requests, requests + count);
    changed.notify_one();
  };
  auto scheduler = server.start();
  self = scheduler.get();
  std::atomic<std::uint64_t> cancelled = 0;
  std::thread completer([&] {
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [&] { return last || !handed.empty(); });
      if (handed.empty()) return;
      const auto batch = std::exchange(handed, {});
      lock.unlock();
      EXPECT_EQ(tutti_complete(self, batch.data(), batch.size()), TUTTI_OK);
      lock.lock();
    }
  });
  std::vector<std::thread> producers;
  for (std::uint64_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        tutti_request one = request(p * kEach + i, i * 4096);
        one.file = p;
        EXPECT_EQ(tutti_add(self, &one), TUTTI_OK);
        if (i % 5 == 0 && tutti_cancel(self, one.id) == TUTTI_OK) ++cancelled;
        EXPECT_TRUE(i % 500 != 0 || tutti_switch_policy(self, i % 1000 == 0 ? "to" : "hbrr", nullptr, 0) == TUTTI_OK);
      }
    });
  }
  for (auto& producer : producers) producer.join();
  EXPECT_EQ(tutti_stop(self, TUTTI_DRAIN), TUTTI_OK);
  {
    std::lock_guard guard(mutex);
    last = true;
    changed.notify_one();
  }
  completer.join();
  const Ids processed = server.processed();
  const std::set<std::uint64_t> unique(processed.begin(), processed.end());
  EXPECT_EQ(unique.size(), processed.size());
  EXPECT_EQ(processed.size() + cancelled, kProducers * kEach);
  EXPECT_EQ(statistics(scheduler).completed, processed.size());
}

}  // namespace
}  // namespace tutti::testing
