// SPDX-License-Identifier: Apache-2.0
// Waiting for predicted requests, around every policy that merges.
#include <gmock/gmock.h>

#include "sched/prediction/predicted_queues.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using namespace literals;
using testing::ElementsAre;
using testing_support::make;
using testing_support::next_ids;

Request block_request(RequestId id, std::uint64_t block, FileId file = 1) {
  return {.id = id, .file = file, .offset = block * 8192, .length = 8_KiB, .direction = Direction::kWrite};
}

// Blocks 0 to 3 of file 1 come 20 us after each other; block 9 alone.
std::shared_ptr<const PredictedQueues> predictions() {
  Trace trace{.files = {unnamed_pattern(1)}, .requests = {}};
  for (const std::uint64_t block : {0u, 1u, 2u, 3u, 9u})
    trace.requests.push_back({.time = static_cast<std::int64_t>(trace.requests.size()) * 20us,
                              .offset = block * 8192,
                              .length = 8_KiB,
                              .direction = Direction::kWrite});
  return PredictedQueues::combine(std::span(&trace, 1));
}

class Predicting : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Policy> make_predicting(PolicyOptions options = {}) {
    options["prediction"] = "traces";
    return std::move(*make_policy(GetParam(), options, {}, predictions()));
  }
  TimePoint start_{1h};
};

TEST_P(Predicting, WaitsForTheAggregationAndGoesWhenItIsComplete) {
  auto policy = make_predicting();
  policy->add(block_request(1, 0), start_);
  const Decision wait = policy->next(start_);
  ASSERT_TRUE(std::holds_alternative<WaitUntil>(wait));
  EXPECT_EQ(std::get<WaitUntil>(wait).at, start_ + 60us) << "last minus first expected arrival";
  policy->add(block_request(3, 2), start_ + 10us);  // in any order
  policy->add(block_request(2, 1), start_ + 20us);
  EXPECT_THAT(next_ids(*policy, start_ + 20us), ElementsAre());
  EXPECT_EQ(policy->waiting(), 3u);
  policy->add(block_request(4, 3), start_ + 30us);
  EXPECT_THAT(next_ids(*policy, start_ + 30us), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(policy->waiting(), 0u);
}

TEST_P(Predicting, TimeThatHasBeenWaitedIsSubtracted) {
  auto policy = make_predicting();
  policy->add(block_request(1, 0), start_);
  const Decision wait = policy->next(start_ + 50us);
  ASSERT_TRUE(std::holds_alternative<WaitUntil>(wait));
  EXPECT_EQ(std::get<WaitUntil>(wait).at, start_ + 60us);
  auto late = make_predicting();
  late->add(block_request(1, 0), start_);
  EXPECT_THAT(next_ids(*late, start_ + 60us), ElementsAre(1));
}

TEST_P(Predicting, WaitsOnceAndServesWhatHasCome) {
  auto policy = make_predicting();
  policy->add(block_request(1, 0), start_);
  EXPECT_THAT(next_ids(*policy, start_), ElementsAre());
  policy->add(block_request(3, 2), start_ + 10us);
  EXPECT_THAT(next_ids(*policy, start_ + 60us), ElementsAre(1)) << "what does not adjoin goes by itself";
  EXPECT_THAT(next_ids(*policy, start_ + 60us), ElementsAre(3));
  policy->add(block_request(4, 3), start_ + 70us);
  EXPECT_THAT(next_ids(*policy, start_ + 70us), ElementsAre(4)) << "the rest of the aggregation does not wait again";
}

TEST_P(Predicting, OthersAreServedMeanwhile) {
  auto policy = make_predicting();
  policy->add(block_request(1, 0), start_);
  EXPECT_THAT(next_ids(*policy, start_), ElementsAre());
  policy->add(block_request(20, 0, 5), start_ + 1us);
  policy->add(block_request(21, 9), start_ + 1us);
  std::vector<RequestId> served;
  for (int i = 0; i < 2; ++i)
    for (const RequestId id : next_ids(*policy, start_ + 2us)) served.push_back(id);
  EXPECT_THAT(served, testing::UnorderedElementsAre(20, 21)) << "not expected, or expected alone: no wait";
}

TEST_P(Predicting, AHeldRequestCanBeCancelledAndIsNotTakenTwice) {
  auto policy = make_predicting();
  policy->add(block_request(1, 0), start_);
  policy->add(block_request(2, 1), start_);
  EXPECT_THAT(next_ids(*policy, start_), ElementsAre());
  EXPECT_FALSE(policy->add(block_request(2, 7), start_));
  EXPECT_TRUE(policy->waits(2));
  ASSERT_TRUE(policy->cancel(2));
  EXPECT_FALSE(policy->waits(2));
  EXPECT_FALSE(policy->cancel(2));
  const auto rest = policy->take_all();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].request.id, 1u);
  EXPECT_EQ(rest[0].arrived, start_);
  EXPECT_EQ(policy->waiting(), 0u);
  EXPECT_TRUE(std::holds_alternative<Idle>(policy->next(start_)));
}

TEST_P(Predicting, AClockThatGoesBackEndsTheWait) {
  auto policy = make_predicting();
  policy->add(block_request(1, 0), start_);
  EXPECT_THAT(next_ids(*policy, start_), ElementsAre());
  EXPECT_THAT(next_ids(*policy, start_ - 1h), ElementsAre(1));
}

TEST_P(Predicting, WhatIsHeldTooLongGoesInOrderOfArrival) {
  auto policy = make_predicting({{"patience", "100us"}});
  policy->add(block_request(1, 0), start_);
  EXPECT_THAT(next_ids(*policy, start_), ElementsAre());
  policy->add(block_request(2, 1), start_ + 5us);
  policy->add(block_request(3, 50, 9), start_ + 6us);
  const TimePoint late = start_ + 1s;
  EXPECT_THAT(next_ids(*policy, late), ElementsAre(1)) << "alone: it is overdue";
  EXPECT_THAT(next_ids(*policy, late), ElementsAre(2));
  EXPECT_THAT(next_ids(*policy, late), ElementsAre(3));
}

// The prediction never comes true: after a few waits it is not followed any more.
TEST_P(Predicting, APredictionThatDoesNotPayIsDropped) {
  auto policy = make_predicting();
  TimePoint now = start_;
  int waits = 0;
  for (int i = 0; i < 200; ++i, now += 300ms) {
    policy->add(block_request(static_cast<RequestId>(i), 0), now);
    Decision decision = policy->next(now);
    TimePoint dispatched = now;
    if (const auto* wait = std::get_if<WaitUntil>(&decision)) {
      ++waits;
      dispatched = wait->at;
      decision = policy->next(dispatched);
    }
    ASSERT_TRUE(std::holds_alternative<Dispatch>(decision));
    const Batch& batch = std::get<Dispatch>(decision).batch;
    const std::vector<Request> requests(batch.requests.begin(), batch.requests.end());
    policy->completed(Batch{requests}, dispatched, dispatched + 10us);
  }
  EXPECT_GT(waits, 0);
  EXPECT_LT(waits, 100) << "0.25% of the time is spent on trying again";
}

INSTANTIATE_TEST_SUITE_P(Merging, Predicting, testing::Values("to", "sjf", "hbrr", "mlf", "aioli"),
                         [](const auto& name) { return name.param; });

TEST(PredictionOption, OffMeansNoWaits) {
  auto policy = std::move(*make_policy("mlf", {}, {}, predictions()));
  policy->add(block_request(1, 0), TimePoint{1h});
  EXPECT_THAT(next_ids(*policy, TimePoint{1h}), ElementsAre(1));
  EXPECT_FALSE(make_policy("mlf", {{"prediction", "perhaps"}}));
  EXPECT_FALSE(make_policy("fifo", {{"prediction", "traces"}})) << "fifo does not merge";
}

}  // namespace
}  // namespace tutti
