// SPDX-License-Identifier: Apache-2.0
// mlf and aioli: the rules of AGIOS, section III.
#include <gmock/gmock.h>

#include "sched/service_profile.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace literals;
using namespace testing_support;
using namespace std::chrono_literals;
using testing::ElementsAre;
using Batches = std::vector<std::vector<RequestId>>;

Request piece(RequestId id, FileId file, Bytes offset, Bytes length, Direction direction = Direction::kRead) {
  Request request = make_request(id);
  request.file = file;
  request.offset = offset.count();
  request.length = length;
  request.direction = direction;
  return request;
}

// A device without latency that moves a mebibyte per second: a request of 64 KiB takes as long as one quantum, one of
// k times that takes k of them.
const PolicyOptions kPlain = {{"latency", "0"}, {"bandwidth", "1MiB"}, {"quantum", "64KiB"}, {"wait", "0"}};

class Feedback : public testing::TestWithParam<std::string> {
 protected:
  // Waits 2 ms where an adjoining request is expected. It has served request 1, and 2 has come at 1 ms, which follows
  // on it.
  static auto make_expectant() {
    PolicyOptions options = kPlain;
    options["wait"] = "2ms";
    auto policy = make(GetParam(), options);
    policy->add(piece(1, 1, 0_B, 4_KiB), at_ms(0));
    EXPECT_THAT(next_ids(*policy, at_ms(0)), ElementsAre(1)) << "nothing is known yet: no wait";
    policy->add(piece(2, 1, 4_KiB, 4_KiB), at_ms(1));
    return policy;
  }
};

TEST_P(Feedback, ALargeRequestGoesOnceItWasPassedOverOftenEnough) {
  auto policy = make(GetParam(), kPlain);
  policy->add(piece(1, 1, 0_B, 256_KiB), at_ms(0));  // needs four quanta
  for (RequestId id = 11; id <= 20; ++id) policy->add(piece(id, 2, Bytes(id << 20), 64_KiB), at_ms(1));  // one each
  const std::vector<RequestId> order = drain(*policy);
  const auto position = std::find(order.begin(), order.end(), 1u) - order.begin();
  EXPECT_EQ(position, 3) << "after it was passed over three times and aged a fourth";
}

TEST_P(Feedback, NothingStarvesHoweverLarge) {
  auto policy = make(GetParam(), kPlain);
  policy->add(piece(1, 1, 0_B, 4_GiB), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(1));
}

TEST_P(Feedback, AdjoiningRequestsBecomeOneInWhateverOrderTheyCome) {
  auto policy = make(GetParam(), kPlain);
  for (const RequestId id : {3, 1, 4, 2}) policy->add(piece(id, 1, Bytes(id * 4096), 4_KiB), at_ms(0));
  EXPECT_EQ(drain_batches(*policy), (Batches{{1, 2, 3, 4}}));
}

TEST_P(Feedback, InsideAQueueOffsetsAscend) {
  auto policy = make(GetParam(), kPlain);
  for (const RequestId id : {9, 2, 7, 4}) policy->add(piece(id, 1, Bytes(id << 20), 64_KiB), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(2, 4, 7, 9));
}

TEST_P(Feedback, ReadsAndWritesOfAFileAreTwoQueues) {
  auto policy = make(GetParam(), kPlain);
  policy->add(piece(1, 1, 0_B, 64_KiB), at_ms(0));
  policy->add(piece(2, 1, 64_KiB, 64_KiB, Direction::kWrite), at_ms(1));
  EXPECT_EQ(drain_batches(*policy), (Batches{{1}, {2}}));
}

// With latency, a merged run needs less time than its parts, but has the sum of their quanta: it is ready sooner.
TEST_P(Feedback, MergedRequestsAddTheirQuanta) {
  PolicyOptions options = kPlain;
  options["latency"] = "500ms";  // 64 KiB take 562.5 ms: the gain per round
  auto policy = make(GetParam(), options);
  policy->add(piece(1, 1, 0_B, 1_MiB), at_ms(0));  // 1500 ms: three rounds
  for (RequestId id = 2; id <= 9; ++id) policy->add(piece(id, 2, Bytes((id - 2) << 17), 128_KiB), at_ms(1));
  // The run of eight 128 KiB requests takes 1500 ms as well, but gains eight times as fast: one round.
  EXPECT_THAT(drain_batches(*policy).front(), testing::SizeIs(8));
}

TEST_P(Feedback, ACancelledMiddleSplitsItsRun) {
  auto policy = make(GetParam(), kPlain);
  for (RequestId id = 1; id <= 5; ++id) policy->add(piece(id, 1, Bytes(id * 4096), 4_KiB), at_ms(0));
  EXPECT_TRUE(policy->cancel(3));
  EXPECT_EQ(drain_batches(*policy), (Batches{{1, 2}, {4, 5}}));
}

TEST_P(Feedback, AShortWaitWhereAnAdjoiningRequestIsExpected) {
  auto policy = make_expectant();
  const Decision decision = policy->next(at_ms(1));
  ASSERT_TRUE(std::holds_alternative<WaitUntil>(decision));
  EXPECT_EQ(std::get<WaitUntil>(decision).at, at_ms(3));
  policy->add(piece(3, 1, 8_KiB, 4_KiB), at_ms(2));
  EXPECT_THAT(next_ids(*policy, at_ms(3)), ElementsAre(2, 3)) << "one wait per batch, and it paid";
}

TEST_P(Feedback, AWaitInVainIsNotRepeated) {
  auto policy = make_expectant();
  EXPECT_TRUE(next_ids(*policy, at_ms(1)).empty());
  EXPECT_THAT(next_ids(*policy, at_ms(3)), ElementsAre(2));
  policy->add(piece(3, 1, 1_MiB, 4_KiB), at_ms(4));
  EXPECT_THAT(next_ids(*policy, at_ms(4)), ElementsAre(3)) << "nothing followed last time";
}

TEST_P(Feedback, WhileAQueueWaitsOthersAreServed) {
  auto policy = make_expectant();
  policy->add(piece(3, 2, 0_B, 4_KiB), at_ms(1));
  EXPECT_THAT(next_ids(*policy, at_ms(1)), ElementsAre(3));
}

INSTANTIATE_TEST_SUITE_P(Both, Feedback, testing::Values("mlf", "aioli"), [](const auto& name) { return name.param; });

TEST(MultilevelFeedback, FilesTakeTurns) {
  auto policy = make("mlf", kPlain);
  for (RequestId id = 1; id <= 3; ++id) policy->add(piece(id, 1, Bytes(id << 20), 64_KiB), at_ms(0));
  for (RequestId id = 11; id <= 13; ++id) policy->add(piece(id, 2, Bytes(id << 20), 64_KiB), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(1, 11, 2, 12, 3, 13));
}

TEST(Aioli, BetweenFilesTheCandidateThatArrivedFirstGoes) {
  auto policy = make("aioli", kPlain);
  policy->add(piece(11, 2, 11_MiB, 64_KiB), at_ms(0));
  policy->add(piece(1, 1, 1_MiB, 64_KiB), at_ms(1));
  policy->add(piece(12, 2, 12_MiB, 64_KiB), at_ms(2));
  policy->add(piece(2, 1, 2_MiB, 64_KiB), at_ms(3));
  EXPECT_THAT(drain(*policy, at_ms(3)), ElementsAre(11, 1, 12, 2));
}

TEST(ServiceProfile, LearnsLatencyAndBandwidthFromCompletions) {
  ServiceProfile profile({1ms, 1e6});
  EXPECT_EQ(profile.estimate(Bytes(1'000'000)), 1001ms);
  for (int i = 0; i < 400; ++i) {
    const auto size = static_cast<std::uint64_t>(4096 * (1 + i % 64));
    profile.learn(Bytes(size), 5ms + Duration(size * 10));  // 5 ms and 100 MB/s
  }
  EXPECT_NEAR(static_cast<double>(profile.figures().latency.count()), 5e6, 1e5);
  EXPECT_NEAR(profile.figures().bytes_per_second, 1e8, 1e6);
}

TEST(ServiceProfile, SizesAllAlikeStillGiveTheRightTime) {
  ServiceProfile profile({1ms, 1e9});
  for (int i = 0; i < 200; ++i) profile.learn(64_KiB, 7ms);
  EXPECT_NEAR(static_cast<double>(profile.estimate(64_KiB).count()), 7e6, 1e5);
}

}  // namespace
}  // namespace tutti
