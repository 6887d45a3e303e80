// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/prng.h"
#include "sched/prediction/predicted_queues.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using testing_support::make_request;
using Stop = Scheduler::Stop;

std::unique_ptr<Scheduler> make_scheduler(Scheduler::Options options = {}) {
  auto scheduler = Scheduler::create(std::move(options));
  EXPECT_TRUE(scheduler);
  return std::move(*scheduler);
}

std::vector<RequestId> ids_of(const Scheduler::Dispatched& batch) {
  std::vector<RequestId> ids;
  for (const Request& request : batch.requests) ids.push_back(request.id);
  return ids;
}

TEST(Scheduler, BadRequestsAreRefusedAndItGoesOn) {
  auto scheduler = make_scheduler();
  Request request = make_request(1);
  request.length = 0_B;
  EXPECT_EQ(scheduler->add(request).error().code, ErrorCode::kInvalid);
  request.length = Bytes((std::uint64_t{1} << 63) + 1);
  EXPECT_EQ(scheduler->add(request).error().code, ErrorCode::kInvalid);
  request.length = 2_B;
  request.offset = (std::uint64_t{1} << 63) - 1;
  EXPECT_EQ(scheduler->add(request).error().code, ErrorCode::kInvalid);
  request.length = 1_B;
  EXPECT_TRUE(scheduler->add(request)) << "exactly up to 2^63";
  EXPECT_EQ(scheduler->add(request).error().code, ErrorCode::kDuplicate);
  Scheduler::Dispatched batch;
  ASSERT_TRUE(scheduler->next(batch));
  EXPECT_EQ(scheduler->add(request).error().code, ErrorCode::kDuplicate) << "in flight";
  scheduler->complete(batch);
  EXPECT_TRUE(scheduler->add(request)) << "done: the id is free again";
}

TEST(Scheduler, UnknownPoliciesAndOptionsAreErrors) {
  EXPECT_EQ(Scheduler::create({.policy = "nonsense"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Scheduler::create({.policy = "window", .policy_options = {{"depth", "1"}}}).error().code,
            ErrorCode::kInvalid);
  auto scheduler = make_scheduler({.policy = "fifo"});
  EXPECT_FALSE(scheduler->switch_policy("window", {{"width", "-1s"}}));
  EXPECT_EQ(scheduler->statistics().policy, "fifo") << "nothing changed";
}

TEST(Scheduler, BoundsOnRequestsAndBytes) {
  auto scheduler = make_scheduler({.policy = "fifo", .max_requests = 2, .max_bytes = 10_B});
  Request request = make_request(1);
  request.length = 8_B;
  EXPECT_TRUE(scheduler->add(request));
  request.id = 2;
  EXPECT_EQ(scheduler->add(request).error().code, ErrorCode::kFull) << "bytes";
  request.length = 1_B;
  EXPECT_TRUE(scheduler->add(request));
  request.id = 3;
  EXPECT_EQ(scheduler->add(request).error().code, ErrorCode::kFull) << "requests";
  EXPECT_TRUE(scheduler->cancel(1));
  EXPECT_TRUE(scheduler->add(request)) << "room again";
}

TEST(Scheduler, CancelTakesOnlyWhatWaits) {
  auto scheduler = make_scheduler({.policy = "fifo"});
  ASSERT_TRUE(scheduler->add(make_request(1)));
  ASSERT_TRUE(scheduler->add(make_request(2)));
  Scheduler::Dispatched batch;
  ASSERT_TRUE(scheduler->next(batch));
  EXPECT_FALSE(scheduler->cancel(1)) << "dispatched";
  EXPECT_TRUE(scheduler->cancel(2));
  EXPECT_FALSE(scheduler->cancel(2));
  EXPECT_FALSE(scheduler->cancel(77));
  scheduler->complete(batch);
  EXPECT_EQ(scheduler->statistics().waiting, 0u);
}

TEST(Scheduler, DepthBoundsWhatIsInFlight) {
  auto scheduler = make_scheduler({.policy = "fifo", .max_in_flight = 2});
  for (RequestId id = 1; id <= 5; ++id) ASSERT_TRUE(scheduler->add(make_request(id)));
  std::vector<Scheduler::Dispatched> batches(8);
  EXPECT_EQ(scheduler->next(batches), 2u);
  std::vector<Scheduler::Dispatched> more(8);
  EXPECT_EQ(scheduler->try_next(more), 0u);
  scheduler->complete(batches[0]);
  EXPECT_EQ(scheduler->try_next(more), 1u);
  EXPECT_EQ(ids_of(more[0]), std::vector<RequestId>{3});
  EXPECT_EQ(scheduler->statistics().in_flight, 2u);
}

TEST(Scheduler, DrainServesTheRestThenEnds) {
  auto scheduler = make_scheduler({.policy = "fifo"});
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(scheduler->add(make_request(id)));
  scheduler->stop(Stop::kDrain);
  EXPECT_EQ(scheduler->add(make_request(9)).error().code, ErrorCode::kStopped);
  Scheduler::Dispatched batch;
  for (RequestId id = 1; id <= 3; ++id) {
    ASSERT_TRUE(scheduler->next(batch));
    EXPECT_FALSE(batch.dropped);
    EXPECT_EQ(ids_of(batch), std::vector<RequestId>{id});
    scheduler->complete(batch);
  }
  EXPECT_FALSE(scheduler->next(batch));
}

TEST(Scheduler, DropAnswersEveryRequest) {
  auto scheduler = make_scheduler({.policy = "concert"});
  for (RequestId id = 1; id <= 100; ++id) ASSERT_TRUE(scheduler->add(make_request(id)));
  Scheduler::Dispatched served;
  ASSERT_TRUE(scheduler->next(served));
  scheduler->stop(Stop::kDrop);
  std::set<RequestId> dropped;
  Scheduler::Dispatched batch;
  while (scheduler->next(batch)) {
    EXPECT_TRUE(batch.dropped);
    for (const RequestId id : ids_of(batch)) EXPECT_TRUE(dropped.insert(id).second);
    scheduler->complete(batch);
  }
  scheduler->complete(served);
  EXPECT_EQ(dropped.size(), 99u);
  const Scheduler::Statistics statistics = scheduler->statistics();
  EXPECT_EQ(statistics.all.dropped, 99u);
  EXPECT_EQ(statistics.all.completed, 100u);
  EXPECT_EQ(statistics.in_flight, 0u);
}

TEST(Scheduler, ADispatcherWakesWhenTheTimeToWaitIsOver) {
  ManualClock clock(TimePoint(1h));
  auto scheduler = make_scheduler({.policy = "twins",
                                   .policy_options = {{"width", "10ms"}, {"targets", "2"}, {"mode", "strict"}},
                                   .clock = &clock});
  Request request = make_request(1);
  request.target = 1;  // its window is the next one
  ASSERT_TRUE(scheduler->add(request));
  std::atomic<bool> dispatched{false};
  Scheduler::Dispatched batch;
  std::thread dispatcher([&] {
    ASSERT_TRUE(scheduler->next(batch));
    dispatched = true;
  });
  clock.advance(9ms);
  EXPECT_FALSE(dispatched);
  clock.advance(1ms);
  dispatcher.join();
  EXPECT_TRUE(dispatched);
  EXPECT_EQ(batch.arrived, TimePoint(1h));
  EXPECT_EQ(batch.dispatched, TimePoint(1h + 10ms));
  EXPECT_LE(batch.held, 10ms);
  scheduler->complete(batch);
}

TEST(Scheduler, StatisticsPerApplicationAndInAll) {
  ManualClock clock(TimePoint(1h));
  auto scheduler = make_scheduler({.policy = "to", .clock = &clock});
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = make_request(id);
    request.file = 1;
    request.offset = id;
    request.stamp.application = id <= 3 ? 7 : 8;
    ASSERT_TRUE(scheduler->add(request));
  }
  clock.advance(80ms);
  Scheduler::Dispatched batch;
  ASSERT_TRUE(scheduler->next(batch));
  scheduler->complete(batch);
  const Scheduler::Statistics statistics = scheduler->statistics();
  EXPECT_EQ(statistics.all.added, 4u);
  EXPECT_EQ(statistics.all.completed, 4u);
  EXPECT_EQ(statistics.batches, 1u);
  EXPECT_EQ(statistics.mean_batch, 4);
  EXPECT_EQ(statistics.largest_batch, 4u);
  EXPECT_EQ(statistics.applications.at(7).dispatched, 3u);
  EXPECT_EQ(statistics.applications.at(8).dispatched_bytes, 1_B);
  EXPECT_NEAR(static_cast<double>(statistics.all.waiting.p50.count()), 80e6, 80e6 * 0.13);
  EXPECT_EQ(statistics.all.waiting.max, 80ms);
}

// Producers, dispatchers, cancels and switches of policy all at once: every accepted request comes out exactly once.
TEST(Scheduler, UnderLoadNothingIsLostOrDoubled) {
  constexpr RequestId kEach = 4000;
  constexpr int kProducers = 3, kDispatchers = 2;
  auto scheduler = make_scheduler({.policy = "fifo", .max_requests = 500, .max_in_flight = 64});
  std::mutex mutex;
  std::map<RequestId, int> answered;
  std::atomic<std::uint64_t> cancelled{0};

  std::vector<std::thread> dispatchers, producers;
  for (int d = 0; d < kDispatchers; ++d) {
    dispatchers.emplace_back([&] {
      std::vector<Scheduler::Dispatched> batches(7);
      while (const std::size_t count = scheduler->next(batches)) {
        std::lock_guard guard(mutex);
        for (const auto& batch : std::span(batches).first(count))
          for (const RequestId id : ids_of(batch)) ++answered[id];
        scheduler->complete(std::span<const Scheduler::Dispatched>(batches).first(count));
      }
    });
  }
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      Prng prng(static_cast<std::uint64_t>(p) + 1);
      for (RequestId i = 0; i < kEach; ++i) {
        Request request = make_request(static_cast<RequestId>(p) * kEach + i);
        request.file = prng.below(5);
        request.offset = i;
        request.target = static_cast<TargetId>(prng.below(4));
        request.stamp.application = static_cast<ApplicationId>(prng.below(9));
        while (!scheduler->add(request)) std::this_thread::yield();  // full: try again
        if (prng.chance(0.05) && scheduler->cancel(request.id)) {
          ++cancelled;
          std::lock_guard guard(mutex);
          ++answered[request.id];
        }
      }
    });
  }
  std::thread switcher([&] {
    for (int round = 0; round < 5; ++round)
      for (const PolicyInfo& policy : policies()) {
        EXPECT_TRUE(scheduler->switch_policy(policy.name, {}));
        std::this_thread::yield();
      }
  });
  for (auto& thread : producers) thread.join();
  switcher.join();
  scheduler->stop(Stop::kDrain);
  for (auto& thread : dispatchers) thread.join();
  EXPECT_EQ(answered.size(), kEach * kProducers);
  EXPECT_TRUE(std::all_of(answered.begin(), answered.end(), [](const auto& item) { return item.second == 1; }));
  const Scheduler::Statistics statistics = scheduler->statistics();
  EXPECT_EQ(statistics.all.cancelled, cancelled);
  EXPECT_EQ(statistics.all.added, statistics.all.completed + statistics.all.cancelled);
  EXPECT_EQ(statistics.waiting, 0u);
}

// Two writes that adjoin arrived 20 us apart in an earlier run. A file is recognised by its name, also after a switch.
TEST(Scheduler, PredictionsBelongToTheNamesOfFiles) {
  Trace trace{.files = {"out.#"}, .requests = {}};
  for (std::uint64_t i = 0; i < 2; ++i)
    trace.requests.push_back({.time = 20us * i, .offset = 4096 * i, .length = 4_KiB, .direction = Direction::kWrite});
  ManualClock clock;
  const PolicyOptions options{{"prediction", "traces"}};
  auto scheduler = make_scheduler({.policy = "mlf",
                                   .policy_options = options,
                                   .clock = &clock,
                                   .predictions = PredictedQueues::combine(std::span(&trace, 1))});
  RequestId next_id = 1;
  const auto is_held = [&](FileId file) {
    Request request = make_request(next_id++);
    request.file = file;
    request.offset = 0;
    request.length = 4_KiB;
    request.target = 0;
    request.direction = Direction::kWrite;
    EXPECT_TRUE(scheduler->add(request));
    Scheduler::Dispatched batch;
    const bool held = scheduler->try_next(std::span(&batch, 1)) == 0;
    clock.advance(1s);
    EXPECT_TRUE(!held || scheduler->try_next(std::span(&batch, 1)) == 1);
    scheduler->complete(batch);
    return held;
  };
  scheduler->name_file(1, "out.17");
  scheduler->name_file(2, "other.17");
  scheduler->name_file(3, "out.18");
  EXPECT_TRUE(is_held(1));
  EXPECT_FALSE(is_held(2));
  ASSERT_TRUE(scheduler->switch_policy("mlf", options));
  EXPECT_TRUE(is_held(3));
  EXPECT_FALSE(is_held(4)) << "it has no name";
}

TEST(Scheduler, SeveralInOneProcessAreIndependent) {
  auto first = make_scheduler({.policy = "fifo"}), second = make_scheduler({.policy = "window"});
  ASSERT_TRUE(first->add(make_request(1)));
  ASSERT_TRUE(second->add(make_request(1)));
  first->stop(Stop::kDrop);
  EXPECT_TRUE(second->add(make_request(2)));
}

}  // namespace
}  // namespace tutti
