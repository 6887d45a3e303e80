// SPDX-License-Identifier: Apache-2.0
#include "sched/cluster_limits.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kLength(1000);
constexpr RateLimit kLimit{.bytes = 1'000'000};  // a burst of 50 ms is 50,000

class TwoLimits : public testing::Test {
 protected:
  void SetUp() override {
    limits_.enforce_by_grants(5, [] {});
    limits_.attach(this, 50ms);
    both_ = {limits_.open(LimitKey::job(7, 1), kLimit), limits_.open(LimitKey::user(1), kLimit)};
    for (int i = 0; i < 100; ++i)
      for (const auto& allowance : both_) limits_.arrived(*allowance, kLength);
  }
  LimitDemand demand_of_job() {
    for (const LimitDemand& demand : limits_.demands(10))
      if (demand.key.kind == LimitKey::Kind::kJob) return demand;
    return {};
  }
  void grant(std::size_t limit, std::uint64_t bytes) {
    const LimitGrant grant{.key = both_[limit]->key, .amount = {.bytes = bytes}};
    limits_.grant(std::span(&grant, 1));
  }

  ClusterLimits limits_;
  std::vector<ClusterLimits::AllowancePointer> both_;  // of the job, of its user
};

TEST_F(TwoLimits, ABurstIsAskedForWhileRequestsAreServed) {
  EXPECT_FALSE(limits_.take(both_, kLength));
  const LimitDemand first = demand_of_job();
  EXPECT_EQ(first.wanted.bytes, 50'000u);
  EXPECT_EQ(first.next.bytes, 1000u);
  grant(0, 50'000);
  grant(1, 50'000);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(limits_.take(both_, kLength));
  EXPECT_EQ(demand_of_job().wanted.bytes, 20'000u);
}

// The servers of a cluster could otherwise hold a burst each, and use all of it in the same second.
TEST_F(TwoLimits, GrantsThatAnotherLimitDelaysAreReturned) {
  EXPECT_FALSE(limits_.take(both_, kLength));
  (void)demand_of_job();
  grant(0, 50'000);
  EXPECT_FALSE(limits_.take(both_, kLength)) << "the limit of the user has no grant";
  const LimitDemand later = demand_of_job();
  EXPECT_EQ(later.wanted.bytes, 0u);
  EXPECT_EQ(later.returned.bytes, 40'000u) << "a fifth of a burst stays";
  grant(1, 50'000);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limits_.take(both_, kLength));
  EXPECT_FALSE(limits_.take(both_, kLength));
}

// Otherwise it is too small when the other limit allows the request, is asked for again, and so on.
TEST_F(TwoLimits, TheGrantOfARequestThatAnotherLimitDelaysStays) {
  constexpr Bytes kLarge(16'000);  // more than a fifth of a burst
  for (const auto& allowance : both_) limits_.arrived(*allowance, kLarge);
  EXPECT_FALSE(limits_.take(both_, kLarge));
  (void)demand_of_job();
  grant(0, 50'000);
  EXPECT_FALSE(limits_.take(both_, kLarge)) << "the limit of the user has no grant";
  EXPECT_EQ(demand_of_job().returned.bytes, 34'000u);
  grant(1, 16'000);
  EXPECT_TRUE(limits_.take(both_, kLarge));
}

// A job with large requests and one with small ones share the limit of their user. Each grant is used up by small
// requests before it is enough for a large one.
TEST_F(TwoLimits, SmallRequestsDoNotStarveALargeOne) {
  const std::vector<ClusterLimits::AllowancePointer> small = {both_[1]};
  constexpr Bytes kLarge(16'000);
  for (const auto& allowance : both_) limits_.arrived(*allowance, kLarge);
  grant(0, 50'000);
  int served = 0;
  bool large_served = false;
  for (int round = 0; round < 20 && !large_served; ++round) {
    grant(1, 3000);
    large_served = limits_.take(both_, kLarge);  // the policy tries it first
    while (!large_served && limits_.take(small, kLength)) ++served;
  }
  EXPECT_TRUE(large_served);
  EXPECT_EQ(served, 0);
  grant(1, 3000);
  EXPECT_TRUE(limits_.take(small, kLength));
}

// It waits for its own limit, too: other jobs of the user go on.
TEST_F(TwoLimits, ARequestThatTwoLimitsDelayReservesNothing) {
  const std::vector<ClusterLimits::AllowancePointer> small = {both_[1]};
  constexpr Bytes kLarge(16'000);
  for (const auto& allowance : both_) limits_.arrived(*allowance, kLarge);
  grant(1, 3000);
  EXPECT_FALSE(limits_.take(both_, kLarge));
  EXPECT_TRUE(limits_.take(small, kLength));
}

}  // namespace
}  // namespace tutti
