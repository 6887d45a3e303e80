// SPDX-License-Identifier: Apache-2.0
#include "node/limit_distributor.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace tutti::node {
namespace {

using namespace std::chrono_literals;

constexpr LimitKey kKey = {LimitKey::Kind::kJob, 7};

LimitDemand bytes(std::uint64_t rate, std::uint64_t waiting, std::uint64_t next) {
  return {.key = kKey, .limit = {rate, 0}, .waiting = {waiting, 1}, .wanted = {waiting, 0}, .next = {next, 0}};
}

std::uint64_t ask(LimitDistributor& distributor, std::size_t node, const LimitDemand& demand, TimePoint now,
                  std::size_t shares = 4) {
  const auto grants = distributor.ask(node, std::span(&demand, 1), 50ms, {.counted = shares, .nodes = 4}, now);
  return grants.empty() ? 0 : grants.front().amount.bytes;
}

// Any demands of any nodes, at any times.
TEST(LimitDistributor, NeverGrantsMoreThanTheStatedBound) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Prng prng(seed);
    LimitDistributor distributor;
    constexpr std::uint64_t kRate = 1'000'000, kLargest = 100'000;
    TimePoint now{5s};
    std::vector<std::pair<TimePoint, std::uint64_t>> granted;
    for (int i = 0; i < 2000; ++i) {
      now += Duration(static_cast<std::int64_t>(prng.below(5'000'000)));
      const std::uint64_t next = prng.below(kLargest) + 1;
      const std::uint64_t waiting = next + prng.below(1'000'000);
      granted.emplace_back(now, ask(distributor, prng.below(seed), bytes(kRate, waiting, next), now));
    }
    for (std::size_t first = 0; first < granted.size(); first += 29) {
      double sum = 0;
      for (std::size_t i = first; i < granted.size(); ++i) {
        sum += static_cast<double>(granted[i].second);
        const double seconds = std::chrono::duration<double>(granted[i].first - granted[first].first).count();
        ASSERT_LE(sum, kRate * (seconds + 0.05) + kLargest + 1) << "seed " << seed;
      }
    }
  }
}

TEST(LimitDistributor, DividesInProportionToWhatWaits) {
  LimitDistributor distributor;
  std::uint64_t granted[2] = {};
  for (TimePoint now{1s}; now < TimePoint{5s}; now += 10ms) {
    granted[0] += ask(distributor, 0, bytes(1'000'000, 300'000, 1000), now);
    granted[1] += ask(distributor, 1, bytes(1'000'000, 100'000, 1000), now);
  }
  EXPECT_NEAR(static_cast<double>(granted[0] + granted[1]), 4e6, 0.1e6);
  EXPECT_NEAR(static_cast<double>(granted[0]) / static_cast<double>(granted[1]), 3, 0.2);
}

// Each request is larger than the burst. The node that asks first after each grant does not get all of them.
TEST(LimitDistributor, EveryNodeGetsLargeRequestsInTurn) {
  LimitDistributor distributor;
  std::uint64_t granted[2] = {};
  for (TimePoint now{1s}; now < TimePoint{11s}; now += 10ms)
    for (std::size_t node : {0, 1}) granted[node] += ask(distributor, node, bytes(1'000'000, 500'000, 200'000), now);
  EXPECT_NEAR(static_cast<double>(granted[0]), 5e6, 0.4e6);
  EXPECT_NEAR(static_cast<double>(granted[1]), 5e6, 0.4e6);
}

TEST(LimitDistributor, AShareIsWorthItsPartOfTheLimit) {
  LimitDistributor distributor;
  std::uint64_t granted = 0;
  for (TimePoint now{1s}; now < TimePoint{5s}; now += 10ms)
    granted += ask(distributor, 0, bytes(1'000'000, 300'000, 1000), now, 1);
  EXPECT_NEAR(static_cast<double>(granted), 1e6, 0.05e6);
  EXPECT_EQ(ask(distributor, 0, bytes(1'000'000, 300'000, 1000), TimePoint{6s}, 0), 0);
}

// One node has a request's worth of requests and waits for bytes, another one has bytes and waits for a request. What a
// node does not want, it must not be entitled to.
TEST(LimitDistributor, ANodeThatWantsNothingIsEntitledToNothing) {
  LimitDistributor distributor;
  std::uint64_t bytes_granted = 0, requests_granted = 0;
  for (TimePoint now{1s}; now < TimePoint{5s}; now += 10ms) {
    LimitDemand demand{.key = kKey, .limit = {10'000, 10}, .waiting = {100'000, 100}};  // a burst is half a request
    demand.wanted.bytes = demand.next.bytes = 1000;
    for (const LimitGrant& grant : distributor.ask(0, std::span(&demand, 1), 50ms, {.counted = 4, .nodes = 4}, now))
      bytes_granted += grant.amount.bytes;
    demand.wanted = demand.next = {.bytes = 0, .requests = 1};
    for (const LimitGrant& grant : distributor.ask(1, std::span(&demand, 1), 50ms, {.counted = 4, .nodes = 4}, now))
      requests_granted += grant.amount.requests;
  }
  EXPECT_NEAR(static_cast<double>(bytes_granted), 40'000, 2000);
  EXPECT_NEAR(static_cast<double>(requests_granted), 40, 2);
}

// One node distributes, then another one, then the first one again: what each of them could have saved was granted by
// the other.
TEST(LimitDistributor, StartsEmptyWhenItHasSharesAgain) {
  LimitDistributor distributors[2];
  constexpr std::uint64_t kRate = 1'000'000;
  std::uint64_t granted = 0;
  TimePoint now{1s};
  for (int i = 0; i < 10; ++i) {
    for (const TimePoint end = now + 100ms; now < end; now += 10ms)
      granted += ask(distributors[i % 2], 0, bytes(kRate, 300'000, 1000), now);
    distributors[i % 2].pause();
  }
  EXPECT_LE(granted, kRate + kRate / 20 + 1000);
  EXPECT_GE(granted, kRate * 8 / 10);
}

// Nodes that were granted all that waited there, and do not ask again, are entitled to nothing more.
TEST(LimitDistributor, WhatANodeDoesNotNeedIsGrantedToOthers) {
  LimitDistributor distributor;
  ask(distributor, 1, bytes(1'000'000, 10'000, 10'000), TimePoint{1s});
  TimePoint now{1050ms};
  for (const std::size_t node : {0, 2, 3}) EXPECT_EQ(ask(distributor, node, bytes(1'000'000, 1000, 1000), now), 1000);
  std::uint64_t granted = 0;
  for (const TimePoint end = now + 90ms; now < end; now += 10ms)
    granted += ask(distributor, 1, bytes(1'000'000, 100'000, 10'000), now);
  EXPECT_GE(granted, 110'000u);  // 80,000 flow in, and 37,000 were left
}

TEST(LimitDistributor, GivesOnWhatIsReturned) {
  LimitDistributor distributor;
  EXPECT_EQ(ask(distributor, 0, bytes(1'000'000, 200'000, 200'000), TimePoint{1s}), 200'000);
  EXPECT_EQ(ask(distributor, 1, bytes(1'000'000, 100'000, 100'000), TimePoint{1s}), 0);
  LimitDemand returning{.key = kKey, .limit = {1'000'000, 0}, .returned = {200'000, 0}};
  EXPECT_EQ(ask(distributor, 0, returning, TimePoint{1s}), 0);
  EXPECT_EQ(ask(distributor, 1, bytes(1'000'000, 100'000, 100'000), TimePoint{1s}), 100'000);
}

}  // namespace
}  // namespace tutti::node
