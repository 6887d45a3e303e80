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

// Of an application that has been right about its phases before.
Request known(RequestId id, const Job& job) {
  Request request = of(id, job);
  request.stamp.phase = 2;
  return request;
}

Request issued_at(Request request, int milliseconds) {
  request.stamp.issued = at_ms(milliseconds);
  return request;
}

TEST(Concert, TwoServersFedInDifferentOrdersDispatchInTheSameOrder) {
  Prng prng(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Request> requests;
    std::array<Bytes, 10> totals;  // what an application states does not change in a phase
    for (Bytes& total : totals) total = Bytes(prng.below(2) ? 0 : prng.below(1 << 22));
    for (RequestId id = 1; id <= 100; ++id) {
      const std::uint64_t application = prng.below(10);
      Request request = of(id, {static_cast<ApplicationId>(application), totals[application],
                                Bytes(prng.below(8) * 65536), Bytes(65536 * (1 + prng.below(4)))});
      request.stamp.phase = 2;
      request.stamp.phase_start = at_ms(request.stamp.application * 3 + request.stamp.phase);
      request.stamp.issued = at_ms(static_cast<int>(40 + prng.below(5)));
      request.file = request.stamp.application;
      request.offset = id * 65536;
      requests.push_back(request);
    }
    const PolicyOptions options = {{"slack", "100ms"}};
    auto first = make("concert", options), second = make("concert", options);
    for (const Request& request : requests) first->add(request, at_ms(50));
    for (std::size_t i = requests.size(); i > 1; --i) std::swap(requests[i - 1], requests[prng.below(i)]);
    for (const Request& request : requests) second->add(request, at_ms(50));
    ASSERT_EQ(drain(*first, at_ms(50)), drain(*second, at_ms(50)));
  }
}

TEST(Concert, TheSmallestRemainingPhaseGoesFirst) {
  auto policy = make("concert");
  policy->add(of(1, {.application = 1, .total = 100_MiB}), at_ms(0));
  policy->add(of(2, {.application = 2, .total = 10_MiB}), at_ms(0));
  policy->add(of(3, {.application = 3, .total = 200_MiB, .attained = 195_MiB}), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(3, 2, 1));
}

// A user that states the number of another user's job cannot change what is known about its phase.
TEST(Concert, TheSameNumberOfTwoUsersIsTwoPhases) {
  auto policy = make("concert");
  Request first = known(1, {7, 1_MiB}), second = known(2, {8, 2_MiB}), foreign = known(3, {7, 64_MiB, 8_MiB});
  first.stamp.user = second.stamp.user = 1000;
  foreign.stamp.user = 1001;
  for (const Request& request : {first, second, foreign}) policy->add(request, at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(1, 2, 3));
}

TEST(Concert, SweepsOverAPhaseIfAskedTo) {
  auto policy = make("concert", {{"order", "offset"}});
  const auto placed = [](RequestId id, std::uint64_t offset) {
    Request request = known(id, {.application = 1, .total = 100_MiB});
    request.file = 1;
    request.offset = offset;
    return request;
  };
  for (const auto& [id, offset] : {std::pair{1, 30}, {2, 10}, {3, 20}})
    policy->add(placed(static_cast<RequestId>(id), static_cast<std::uint64_t>(offset)), at_ms(0));
  EXPECT_THAT(next_ids(*policy), ElementsAre(2));
  EXPECT_THAT(next_ids(*policy), ElementsAre(3));
  policy->add(placed(4, 15), at_ms(0));  // behind what was served last: it waits for the next round
  policy->add(placed(5, 25), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(5, 1, 4));
}

TEST(Concert, UnknownPhasesGoInTheOrderOfIssue) {
  auto policy = make("concert");
  const std::vector<Request> requests = {issued_at(of(1, {.application = 1, .total = 0_B, .attained = 1_GiB}), 1),
                                         issued_at(of(2, {.application = 2, .total = 0_B}), 2),
                                         issued_at(of(3, {.application = 1, .total = 0_B, .attained = 2_GiB}), 3),
                                         issued_at(of(4, {.application = 3, .total = 1_MiB, .attained = 5_MiB}), 4)};
  for (const int i : {3, 1, 0, 2}) policy->add(requests[static_cast<std::size_t>(i)], at_ms(5));
  EXPECT_THAT(drain(*policy, at_ms(5)), ElementsAre(1, 2, 3, 4));  // the last has outgrown what it was said to be
}

TEST(Concert, KnownPhasesExchangeTheirTurnsAndUnknownOnesKeepTheirs) {
  auto policy = make("concert", {{"ahead", "0B"}, {"slack", "100ms"}});
  policy->add(issued_at(known(1, {.application = 1, .total = 90_MiB}), 1), at_ms(9));
  policy->add(issued_at(of(2, {.application = 2, .total = 0_B, .attained = 1_GiB}), 2), at_ms(9));
  policy->add(issued_at(known(3, {.application = 3, .total = 9_MiB}), 3), at_ms(9));
  policy->add(issued_at(of(4, {.application = 4, .total = 0_B, .attained = 1_GiB}), 4), at_ms(9));
  policy->add(issued_at(known(5, {.application = 5, .total = 2_MiB}), 5), at_ms(9));
  EXPECT_THAT(drain(*policy, at_ms(9)), ElementsAre(5, 2, 3, 4, 1));
}

TEST(Concert, TurnsAreExchangedByTheByte) {
  auto policy = make("concert", {{"ahead", "0B"}, {"slack", "100ms"}});
  Request large = issued_at(known(1, {.application = 1, .total = 90_MiB}), 1),
          unknown = issued_at(of(2, {.application = 2, .total = 0_B, .attained = 1_GiB}), 2);
  large.length = 256_KiB;
  policy->add(large, at_ms(9));
  policy->add(unknown, at_ms(9));
  for (RequestId id = 3; id <= 8; ++id) {
    Request small = issued_at(known(id, {.application = 3, .total = 9_MiB}), 3);
    small.length = 64_KiB;
    small.offset = id * 65536;
    policy->add(small, at_ms(9));
  }
  EXPECT_THAT(drain(*policy, at_ms(9)), ElementsAre(3, 4, 5, 6, 2, 7, 8, 1));
}

TEST(Concert, AKnownPhasePassesAnUnknownOneThatHasShownMore) {
  auto policy = make("concert", {{"slack", "100ms"}});
  policy->add(issued_at(of(1, {.application = 1, .total = 0_B, .attained = 7_MiB}), 1), at_ms(9));
  policy->add(issued_at(known(2, {.application = 2, .total = 8_MiB}), 2), at_ms(9));
  policy->add(issued_at(known(3, {.application = 3, .total = 7_MiB, .attained = 4_MiB}), 3), at_ms(9));
  EXPECT_THAT(drain(*policy, at_ms(9)), ElementsAre(3, 1, 2));
}

TEST(Concert, KnownPhasesAreNotFurtherAheadThanTheBound) {
  auto policy = make("concert", {{"ahead", "128KiB"}, {"slack", "100ms"}});
  const auto small = [](RequestId id) {
    Request request = issued_at(known(id, {.application = 2, .total = 8_MiB}), static_cast<int>(id));
    request.length = 64_KiB;
    return request;
  };
  std::vector<RequestId> order;
  for (RequestId id = 1; id <= 3; ++id)
    policy->add(issued_at(of(id, {.application = 1, .total = 0_B, .attained = 1_GiB}), static_cast<int>(id)),
                at_ms(50));
  for (RequestId id = 10; id < 16; ++id) {  // comes back as soon as it is served
    policy->add(small(id), at_ms(50));
    for (const RequestId served : next_ids(*policy, at_ms(50))) order.push_back(served);
  }
  EXPECT_THAT(order, ElementsAre(10, 11, 1, 2, 3, 12));
}

TEST(Concert, AnOperationIsAtLeastAsLargeAsItsBottleneck) {
  auto policy = make("concert");
  policy->add(of(1, {.application = 1, .total = 1_MiB, .attained = 0_B, .bottleneck = 1_GiB}), at_ms(0));
  policy->add(of(2, {.application = 2, .total = 8_MiB}), at_ms(0));
  EXPECT_THAT(drain(*policy), ElementsAre(2, 1));
}

TEST(Concert, AClockThatIsOffGainsNoMoreThanTheSlack) {
  auto policy = make("concert", {{"slack", "10ms"}});
  policy->add(issued_at(of(1, {.application = 1, .total = 0_B}), 100), at_ms(100));
  policy->add(issued_at(of(2, {.application = 2, .total = 0_B}), 0), at_ms(105));
  policy->add(issued_at(of(3, {.application = 3, .total = 0_B}), 0), at_ms(115));
  policy->add(issued_at(of(4, {.application = 4, .total = 0_B}), 900), at_ms(115));
  policy->add(issued_at(of(5, {.application = 5, .total = 0_B}), 120), at_ms(120));
  EXPECT_THAT(drain(*policy, at_ms(120)), ElementsAre(2, 1, 3, 4, 5));
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

// Breaks the announcement: said to be 1 MiB, it goes on.
void break_word(Policy& policy, ApplicationId application) {
  for (const Bytes attained : {0_MiB, 2_MiB}) {
    policy.add(of(1000, {.application = application, .total = 1_MiB, .attained = attained}), at_ms(0));
    drain(policy);
  }
}

TEST(Concert, WhereWordsAreBrokenFirstPhasesKeepTheirTurns) {
  auto policy = make("concert");
  Request huge = issued_at(of(1, {.application = 1, .total = 100_MiB}), 1),
          large = issued_at(of(2, {.application = 2, .total = 20_MiB}), 2);
  const auto order = [&] {
    for (Request* request : {&huge, &large}) policy->add(*request, at_ms(3));
    return drain(*policy, at_ms(3));
  };
  EXPECT_THAT(order(), ElementsAre(2, 1));
  break_word(*policy, 9);
  EXPECT_THAT(order(), ElementsAre(1, 2));
  huge.stamp.bottleneck = huge.stamp.phase_total;  // all of it has been asked for: no promise
  large.stamp.bottleneck = large.stamp.phase_total;
  EXPECT_THAT(order(), ElementsAre(2, 1));
  huge.stamp.bottleneck = large.stamp.bottleneck = 64_KiB;
  huge.stamp.phase = large.stamp.phase = 2;  // what was said of the first was right
  EXPECT_THAT(order(), ElementsAre(2, 1));
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
  Request first = of(1, {.application = 1, .total = 11_MiB}), second = of(2, {.application = 2, .total = 9_MiB});
  second.stamp.phase_start = at_ms(5);
  policy->add(second, at_ms(5));
  policy->add(first, at_ms(5));
  EXPECT_THAT(drain(*policy, at_ms(5)), ElementsAre(1, 2));
}

TEST(Concert, WithinAPhaseTheOldestGoFirstThenOffsetsAscend) {
  auto policy = make("concert");
  for (const std::uint64_t offset : {5, 1, 4, 2, 3}) {
    Request request = issued_at(of(offset, {.application = 1, .total = 1_MiB}), offset == 1 ? 9 : 5);
    request.file = 7;
    request.offset = offset * 65536;
    policy->add(request, at_ms(10));
  }
  EXPECT_THAT(drain(*policy, at_ms(10)), ElementsAre(2, 3, 4, 5, 1));
}

// Each byte of the large phase is due after `stretch` bytes, however many small phases follow.
TEST(Concert, ALargePhaseIsServedAtItsPaceBesideAnEndlessStreamOfSmallOnes) {
  auto policy = make("concert", {{"stretch", "4"}, {"run", "0"}});
  const std::uint64_t length = of(1, {.application = 1, .total = 1_GiB}).length.count();
  for (RequestId id = 1; id <= 10; ++id) policy->add(of(id, {.application = 1, .total = 1_GiB}), at_ms(0));
  std::uint64_t large = 0, small = 0;
  for (RequestId id = 11; large < 10; ++id) {
    ASSERT_LT(id, 100u);
    policy->add(of(id, {.application = static_cast<ApplicationId>(id), .total = Bytes(length)}), at_ms(1));
    next_ids(*policy, at_ms(1)).front() <= 10 ? ++large : ++small;
  }
  EXPECT_GE(small, 27u);  // three small ones between two requests of the large one
  EXPECT_LE(small, 31u);
}

// Sizes that no device has must not overflow anything.
TEST(Concert, AbsurdSizesAreServedInSomeOrder) {
  auto policy = make("concert", {{"stretch", "1000"}});
  for (RequestId id = 1; id <= 200; ++id) {
    Request request = of(id, {.application = static_cast<ApplicationId>(id % 20), .total = Bytes(UINT64_MAX - id)});
    if (id % 3 == 0) request.stamp.bottleneck = Bytes(UINT64_MAX);
    if (id % 5 == 0) request.length = Bytes(std::uint64_t{1} << 62);
    policy->add(request, at_ms(static_cast<int>(id)));
  }
  EXPECT_EQ(drain(*policy, at_ms(300)).size(), 200u);
}

// An application that cuts its phase into small ones, each announced correctly, is served as the large one it is.
TEST(Concert, WhatAnApplicationHadLatelyCountsForItsNextPhase) {
  auto policy = make("concert", {{"run", "0"}, {"stretch", "1000"}});
  Request honest = known(1, {.application = 1, .total = 64_MiB});
  honest.length = 1_MiB;
  policy->add(honest, at_ms(0));
  int cuts = 0;
  for (RequestId id = 2;; ++id, ++cuts) {
    Request cut = known(id, {.application = 2, .total = 4_MiB, .attained = {}, .bottleneck = 4_MiB});
    cut.length = 4_MiB;
    cut.stamp.phase = static_cast<PhaseNumber>(id);
    policy->add(cut, at_ms(1));
    if (next_ids(*policy, at_ms(1)).front() == 1) break;
    ASSERT_LT(id, 100u);
  }
  EXPECT_GE(cuts, 14);  // sizes are compared with a precision of two digits, and a fifth of each cut is forgiven
  EXPECT_LE(cuts, 20);
}

// Each operation is stated to be the last one: after the first, the size is not believed.
TEST(Concert, ASizeThatGrowsIsNotBelieved) {
  auto policy = make("concert", {{"slack", "100ms"}});
  policy->add(issued_at(known(1, {.application = 1, .total = 1_MiB, .attained = {}, .bottleneck = 1_MiB}), 1),
              at_ms(9));
  EXPECT_THAT(drain(*policy, at_ms(9)), ElementsAre(1));
  policy->add(issued_at(of(2, {.application = 2, .total = 0_B, .attained = 1_GiB}), 2), at_ms(9));
  policy->add(issued_at(known(3, {.application = 1, .total = 2_MiB, .attained = 1_MiB, .bottleneck = 1_MiB}), 3),
              at_ms(9));
  EXPECT_THAT(drain(*policy, at_ms(9)), ElementsAre(2, 3));
}

TEST(Concert, ManyIdsOfAUserHaveOneAccountUnlessTheyAreProven) {
  const auto first_served = [](const PolicyOptions& account, bool proven) {
    PolicyOptions options = {{"run", "0"}, {"stretch", "1000"}};
    options.insert(account.begin(), account.end());
    auto policy = make("concert", options);
    for (RequestId id = 1; id <= 32; ++id) {
      Request request = known(id, {.application = static_cast<ApplicationId>(id), .total = 4_MiB});
      request.length = 4_MiB;
      request.stamp.user = 1000;
      request.job_proven = proven;
      policy->add(request, at_ms(0));
      drain(*policy, at_ms(0));
    }
    Request next = known(40, {.application = 40, .total = 4_MiB}),
            honest = known(41, {.application = 41, .total = 8_MiB});
    next.job_proven = honest.job_proven = proven;
    next.stamp.user = 1000;
    honest.stamp.user = 1001;
    policy->add(next, at_ms(0));
    policy->add(honest, at_ms(0));
    return next_ids(*policy, at_ms(0)).front();
  };
  EXPECT_EQ(first_served({}, true), 40u);
  EXPECT_EQ(first_served({}, false), 41u);
  EXPECT_EQ(first_served({{"account", "job"}}, false), 40u);
  EXPECT_EQ(first_served({{"account", "user"}}, true), 41u);
}

// Ranks that write files of their own issue their operations in the same nanosecond: those of one job are not served
// between those of another, whose offsets are the same.
TEST(Concert, JobsWithTheSameIssueTimesAreNotInterleaved) {
  for (const Bytes total : {0_B, 8_MiB}) {
    auto policy = make("concert", {{"run", "0"}});
    RequestId id = 0;
    for (int stripe = 0; stripe < 4; ++stripe)
      for (const ApplicationId application : {1, 2, 3})
        for (std::uint64_t rank = 0; rank < 3; ++rank) {
          Request request = known(++id, {.application = application, .total = total});
          request.file = application * 10 + rank;
          request.offset = static_cast<std::uint64_t>(stripe) * 65536;
          request.stamp.operation = application * 10 + rank;
          policy->add(request, at_ms(0));
        }
    std::vector<std::uint64_t> jobs;
    for (const RequestId served : drain(*policy, at_ms(0))) {
      const std::uint64_t job = (served - 1) % 9 / 3;
      if (jobs.empty() || jobs.back() != job) jobs.push_back(job);
    }
    EXPECT_THAT(jobs, ElementsAre(0, 1, 2)) << (total > Bytes{} ? "known sizes" : "unknown sizes");
  }
}

}  // namespace
}  // namespace tutti
