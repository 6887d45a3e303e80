// SPDX-License-Identifier: Apache-2.0
#include "node/limit_distributor.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tutti::node {

void LimitDistributor::Bucket::fill(const Flow& flow, TimePoint now) {
  const double seconds = std::chrono::duration<double>(std::max(Duration{}, now - filled)).count();
  unassigned += std::min(rate, flow.rate) * seconds;  // since when the rate has changed is not known
  rate = flow.rate;
  filled = now;
  for (auto asker = askers.begin(); asker != askers.end();) {
    const bool lapsed = asker->second.asked + kAsksWithin < now;
    double& entitled = asker->second.entitled;
    const double useful = lapsed ? 0 : asker->second.waiting;
    // What a node does not need is for others. It keeps its own debts until it lapses.
    if (lapsed || entitled > useful) unassigned += std::exchange(entitled, useful) - useful;
    asker = useful == 0 && entitled == 0 ? askers.erase(asker) : std::next(asker);
  }
  if (const double all = sum(); all > flow.burst) unassigned -= all - flow.burst;
  assign();
}

// In proportion to what waits, but to no node more than that: the surplus of a round is for the other nodes.
void LimitDistributor::Bucket::assign() {
  constexpr int kRounds = 4;  // a surplus after the last one is assigned with the next request
  for (int round = 0; round < kRounds; ++round) {
    double waiting = 0;
    for (const auto& [node, asker] : askers)
      if (unassigned < 0 || asker.entitled < asker.waiting) waiting += asker.waiting;
    if (waiting == 0 || unassigned == 0) return;
    const double assigned = std::exchange(unassigned, 0);
    for (auto& [node, asker] : askers) {
      if (assigned > 0 && asker.entitled >= asker.waiting) continue;
      asker.entitled += assigned * asker.waiting / waiting;
      if (assigned < 0 || asker.entitled <= asker.waiting) continue;
      unassigned += std::exchange(asker.entitled, asker.waiting) - asker.waiting;
    }
  }
}

double LimitDistributor::Bucket::sum() const {
  double all = unassigned;
  for (const auto& [node, asker] : askers) all += asker.entitled;
  return all;
}

std::uint64_t LimitDistributor::Bucket::grant(std::size_t node, std::uint64_t wanted, std::uint64_t next) {
  Asker& own = askers[node];
  double most = own.entitled;
  for (const auto& [other, asker] : askers) most = std::max(most, asker.entitled);
  const double all = sum();
  const auto paid = static_cast<std::uint64_t>(std::clamp(std::floor(std::min(own.entitled, all)), 0.0, 0x1p62));
  std::uint64_t granted = std::min(wanted, paid);
  if (granted < next && all >= 0 && own.entitled >= most) granted = next;
  own.entitled -= static_cast<double>(granted);
  own.waiting = std::max(0.0, own.waiting - static_cast<double>(granted));
  return granted;
}

// Debts stay.
void LimitDistributor::Bucket::start_empty(TimePoint now) {
  for (const auto& [node, asker] : askers) unassigned += asker.entitled;
  askers.clear();
  unassigned = std::min(unassigned, 0.0);
  filled = now;
}

bool LimitDistributor::Bucket::overdrawn(TimePoint now) const {
  return sum() + rate * std::chrono::duration<double>(now - filled).count() < 0;
}

std::vector<LimitGrant> LimitDistributor::ask(std::size_t node, std::span<const LimitDemand> demands, Duration burst,
                                              Shares shares, TimePoint now) {
  const double part = static_cast<double>(shares.counted) / static_cast<double>(shares.nodes);
  const double burst_seconds = std::chrono::duration<double>(burst).count();
  std::vector<LimitGrant> grants;
  if (shares.counted > 0) resume(now);
  for (const LimitDemand& demand : demands) {
    Limit& limit = limits_[demand.key];
    if (limit.used == TimePoint{}) limit.bytes.filled = limit.requests.filled = now;
    limit.used = now;
    LimitGrant grant{.key = demand.key};
    const auto distribute = [&](Bucket& bucket, std::uint64_t RateLimit::*rate, std::uint64_t LimitAmount::*amount) {
      if (demand.limit.*rate == 0) return;
      bucket.unassigned += static_cast<double>(demand.returned.*amount);
      Asker& asker = bucket.askers[node];
      asker.asked = now;
      // A node that wants nothing has what it can use, and waits for something else.
      const std::uint64_t waiting = std::max(demand.waiting.*amount, demand.wanted.*amount);
      asker.waiting = demand.wanted.*amount > 0 ? static_cast<double>(waiting) : 0;
      const double flow = static_cast<double>(demand.limit.*rate) * part;
      bucket.fill({.rate = flow, .burst = flow * burst_seconds}, now);
      if (demand.wanted.*amount > 0 && shares.counted > 0)
        grant.amount.*amount = bucket.grant(node, demand.wanted.*amount, demand.next.*amount);
    };
    distribute(limit.bytes, &RateLimit::bytes, &LimitAmount::bytes);
    distribute(limit.requests, &RateLimit::requests, &LimitAmount::requests);
    if (grant.amount != LimitAmount{}) grants.push_back(grant);
  }
  forget_unused(now);
  return grants;
}

void LimitDistributor::resume(TimePoint now) {
  if (!std::exchange(paused_, false)) return;
  for (auto& [key, limit] : limits_) {
    limit.bytes.start_empty(now);
    limit.requests.start_empty(now);
  }
}

void LimitDistributor::forget_unused(TimePoint now) {
  if (limits_.size() < tidy_at_) return;
  std::erase_if(limits_, [&](const auto& entry) {
    const Limit& limit = entry.second;
    return limit.used + kKept < now && !limit.bytes.overdrawn(now) && !limit.requests.overdrawn(now);
  });
  tidy_at_ = 2 * limits_.size() + 4096;
}

}  // namespace tutti::node
