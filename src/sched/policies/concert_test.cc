// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>

#include "base/prng.h"
#include "sched/testing.h"

namespace tutti {
namespace {

using namespace literals;
using namespace testing_support;
using testing::ElementsAre;

struct Job {
  ApplicationId application;
  Bytes total;
  Bytes attained{};
  Bytes bottleneck = 64_KiB;
};

Request of(RequestId id, const Job& job) {
  Request request = make_request(id);
  request.stamp.application = job.application;
  request.stamp.phase_total = job.total;
  request.stamp.attained = job.attained;
  request.stamp.bottleneck = job.bottleneck;
  return request;
}

TEST(Concert, TwoServersFedInDifferentOrdersDispatchInTheSameOrder) {
  Prng prng(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Request> requests;
    for (RequestId id = 1; id <= 100; ++id) {
      Request request =
          of(id, {static_cast<ApplicationId>(prng.below(10)), Bytes(prng.below(2) ? 0 : prng.below(1 << 22)),
                  Bytes(prng.below(8) * 65536), Bytes(65536 * (1 + prng.below(4)))});
      request.stamp.phase = static_cast<PhaseNumber>(prng.below(2));
      request.stamp.phase_start = at_ms(request.stamp.application * 3 + request.stamp.phase);
      request.file = request.stamp.application;
      request.offset = id * 65536;
      requests.push_back(request);
    }
    auto first = make("concert"), second = make("concert");
    for (const Request& request : requests) first->add(request, at_ms(1));
    for (std::size_t i = requests.size(); i > 1; --i) std::swap(requests[i - 1], requests[prng.below(i)]);
    for (const Request& request : requests) second->add(request, at_ms(1));
    ASSERT_EQ(drain(*first, at_ms(1)), drain(*second, at_ms(1)));
  }
}

TEST(Concert, TheSmallestRemainingPhaseGoesFirst) {
  auto policy = make("concert");
  policy->add(of(1, {.application = 1, .total = 100_MiB}), at_ms(0));
  policy->add(of(2, {.application = 2, .total = 10_MiB}), at_ms(0));
  policy->add(of(3, {.application = 3, .total = 200_MiB, .attained = 195_MiB}), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(3, 2, 1));
}

TEST(Concert, AnUnknownPhaseCountsAsLargeAsTheLevelItHasShown) {
  auto policy = make("concert", {{"first_level", "1MiB"}, {"growth", "10"}});
  policy->add(of(1, {.application = 1, .total = 0_B, .attained = 50_MiB}), at_ms(0));  // level 100 MiB
  policy->add(of(2, {.application = 2, .total = 60_MiB}), at_ms(0));
  policy->add(of(3, {.application = 3, .total = 0_B}), at_ms(0));  // level 1 MiB
  policy->add(of(4, {.application = 4, .total = 500_KiB}), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(4, 3, 2, 1));
}

TEST(Concert, UnknownPhasesOfOneLevelTakeTurnsInTheOrderTheyAsked) {
  auto policy = make("concert");
  Request late = of(1, {.application = 1, .total = 0_B}),
          early = of(2, {.application = 2, .total = 0_B, .attained = 100_KiB});
  late.stamp.phase_start = at_ms(10);
  late.stamp.issued = at_ms(30);
  early.stamp.phase_start = at_ms(20);
  early.stamp.issued = at_ms(25);
  policy->add(late, at_ms(30));
  policy->add(early, at_ms(30));
  EXPECT_THAT(drain(*policy, at_ms(30)), ElementsAre(2, 1));
}

TEST(Concert, UnknownPhasesBeyondTheLastLevelTakeTurns) {
  auto policy = make("concert", {{"first_level", "1MiB"}, {"growth", "4"}, {"levels", "3"}});
  Request huge = of(1, {.application = 1, .total = 0_B, .attained = 500_MiB}),
          large = of(2, {.application = 2, .total = 0_B, .attained = 5_MiB});
  huge.stamp.issued = at_ms(1);
  large.stamp.issued = at_ms(2);
  policy->add(large, at_ms(3));
  policy->add(huge, at_ms(3));
  EXPECT_THAT(drain(*policy, at_ms(3)), ElementsAre(1, 2));
}

TEST(Concert, AnOperationOfUnknownPhaseIsAtLeastAsLargeAsItsBottleneck) {
  auto policy = make("concert");
  policy->add(of(1, {.application = 1, .total = 0_B, .attained = 0_B, .bottleneck = 1_GiB}), at_ms(0));
  policy->add(of(2, {.application = 2, .total = 0_B, .attained = 0_B, .bottleneck = 1_MiB}), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(2, 1));
}

TEST(Concert, APhaseThatOutgrewItsAnnouncedSizeCountsAsUnknown) {
  auto policy = make("concert");
  policy->add(of(1, {.application = 1, .total = 1_MiB, .attained = 600_MiB}), at_ms(0));
  policy->add(of(2, {.application = 2, .total = 30_MiB}), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(2, 1));
}

TEST(Concert, AnOperationGoesOnForARunAndNoLonger) {
  auto policy = make("concert", {{"run", "128KiB"}});
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = of(id, {.application = 1, .total = 100_MiB});
    request.offset = id * 65536;
    request.length = 64_KiB;
    policy->add(request, at_ms(0));
  }
  EXPECT_THAT(next_ids(*policy, at_ms(0)), ElementsAre(1));
  Request small = of(9, {.application = 2, .total = 1_MiB});
  small.stamp.operation = 7;
  policy->add(small, at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(2, 9, 3, 4));
}

TEST(Concert, AFirstPhaseSaidToBeAsLargeAsTheLastLevelTakesTurns) {
  auto policy = make("concert", {{"first_level", "1MiB"}, {"growth", "2"}, {"levels", "3"}});
  Request huge = of(1, {.application = 1, .total = 100_MiB}), large = of(2, {.application = 2, .total = 4_MiB}),
          unknown = of(3, {.application = 3, .total = 0_B, .attained = 50_MiB});
  huge.stamp.issued = at_ms(1);
  unknown.stamp.issued = at_ms(2);
  large.stamp.issued = at_ms(3);
  for (const Request& request : {unknown, large, huge, of(4, {.application = 4, .total = 3_MiB})})
    policy->add(request, at_ms(4));
  EXPECT_THAT(drain(*policy, at_ms(4)), ElementsAre(4, 1, 3, 2));
  huge.stamp.phase = large.stamp.phase = 2;  // what was said of the first was right
  for (const Request& request : {unknown, large, huge}) policy->add(request, at_ms(5));
  EXPECT_THAT(drain(*policy, at_ms(5)), ElementsAre(2, 3, 1));
}

TEST(Concert, WhatHasBeenAskedForIsNoPromise) {
  auto policy = make("concert", {{"first_level", "1MiB"}, {"growth", "2"}, {"levels", "3"}});
  Request huge = of(1, {.application = 1, .total = 100_MiB, .attained = 0_B, .bottleneck = 100_MiB}),
          large = of(2, {.application = 2, .total = 20_MiB, .attained = 0_B, .bottleneck = 20_MiB});
  huge.stamp.issued = at_ms(1);
  large.stamp.issued = at_ms(2);
  policy->add(huge, at_ms(3));
  policy->add(large, at_ms(3));
  EXPECT_THAT(drain(*policy, at_ms(3)), ElementsAre(2, 1));
}

TEST(Concert, AfterACancelAPhaseStandsWhereItsNextRequestStands) {
  auto policy = make("concert");
  Request early = of(1, {.application = 1, .total = 0_B}), late = of(2, {.application = 1, .total = 0_B}),
          between = of(3, {.application = 2, .total = 0_B});
  early.stamp.issued = at_ms(1);
  between.stamp.issued = at_ms(2);
  late.stamp.issued = at_ms(3);
  late.offset = early.end();
  for (const Request& request : {early, between, late}) policy->add(request, at_ms(4));
  ASSERT_TRUE(policy->cancel(1));
  EXPECT_THAT(drain(*policy, at_ms(4)), ElementsAre(3, 2));
}

TEST(Concert, OfPhasesAlikeTheOneThatBeganFirstGoesOn) {
  auto policy = make("concert");
  Request first = of(1, {.application = 1, .total = 12_MiB}), second = of(2, {.application = 2, .total = 9_MiB});
  second.stamp.phase_start = at_ms(5);
  policy->add(second, at_ms(5));
  policy->add(first, at_ms(5));
  EXPECT_THAT(drain(*policy, at_ms(5)), ElementsAre(1, 2));
}

TEST(Concert, WithinAPhaseOffsetsAscend) {
  auto policy = make("concert");
  for (const std::uint64_t offset : {5, 1, 4, 2, 3}) {
    Request request = of(offset, {.application = 1, .total = 1_MiB});
    request.file = 7;
    request.offset = offset * 65536;
    policy->add(request, at_ms(0));
  }
  EXPECT_THAT(drain(*policy), ElementsAre(1, 2, 3, 4, 5));
}

TEST(Concert, ARequestOlderThanTheBoundGoesFirst) {
  auto policy = make("concert", {{"patience", "100ms"}});
  policy->add(of(1, {.application = 1, .total = 1_GiB}), at_ms(0));
  policy->add(of(2, {.application = 2, .total = 1_MiB}), at_ms(50));
  EXPECT_THAT(next_ids(*policy, at_ms(101)), ElementsAre(1));
}

}  // namespace
}  // namespace tutti
