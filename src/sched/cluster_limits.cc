// SPDX-License-Identifier: Apache-2.0
#include "sched/cluster_limits.h"

#include <algorithm>
#include <cassert>

namespace tutti {
namespace {

std::uint64_t amount_during(std::uint64_t rate, Duration time) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  const double amount = static_cast<double>(rate) * std::chrono::duration<double>(time).count();
  return amount >= static_cast<double>(kMost) ? kMost : static_cast<std::uint64_t>(amount);
}

// Calls `each` with the parts of all amounts that a limit has.
template <typename Each>
void for_each_resource(const RateLimit& limit, Each each) {
  if (limit.bytes > 0) each(&LimitAmount::bytes);
  if (limit.requests > 0) each(&LimitAmount::requests);
}

}  // namespace

// FNV-1a.
LimitKey LimitKey::name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return {Kind::kName, hash};
}

LimitAmount RateLimit::during(Duration time) const {
  return {amount_during(bytes, time), amount_during(requests, time)};
}

void ClusterLimits::enforce_by_grants(std::size_t servers, std::function<void()> starved) {
  Lock lock(mutex_);
  servers_ = std::max<std::size_t>(1, servers);
  starved_ = std::move(starved);
  by_grants_ = true;
}

Duration ClusterLimits::burst() const {
  Lock lock(mutex_);
  return burst_;
}

bool ClusterLimits::starving() const {
  Lock lock(mutex_);
  return told_;
}

void ClusterLimits::attach(const void* owner, Duration burst) {
  std::function<void()> call;
  {
    Lock lock(mutex_);
    owner_ = owner;
    burst_ = burst;
    allowances_.clear();
    told_ = true;
    call = starved_;
  }
  if (call) call();
}

void ClusterLimits::detach(const void* owner) {
  Lock lock(mutex_);
  if (owner_ != owner) return;
  owner_ = nullptr;
  allowances_.clear();
}

ClusterLimits::AllowancePointer ClusterLimits::open(const LimitKey& key, const RateLimit& limit) {
  Lock lock(mutex_);
  AllowancePointer& allowance = allowances_[key];
  if (!allowance) allowance = std::make_shared<Allowance>(Allowance{.key = key, .limit = limit});
  return allowance;
}

void ClusterLimits::arrived(Allowance& allowance, Bytes length) {
  Lock lock(mutex_);
  allowance.waiting.bytes += length.count();
  ++allowance.waiting.requests;
}

void ClusterLimits::left(Allowance& allowance, Bytes length) {
  Lock lock(mutex_);
  assert(allowance.waiting.bytes >= length.count() && allowance.waiting.requests > 0);
  allowance.waiting.bytes -= length.count();
  --allowance.waiting.requests;
}

bool ClusterLimits::take(std::span<const AllowancePointer> allowances, Bytes length) {
  const LimitAmount cost{length.count(), 1};
  std::function<void()> call;
  bool enough = true;
  {
    Lock lock(mutex_);
    std::vector<Allowance*> lacking;
    for (const AllowancePointer& allowance : allowances)
      for_each_resource(allowance->limit, [&](auto part) {
        const std::uint64_t needed = std::max(cost.*part, allowance->reserved.*part);
        allowance->next.*part = std::max(allowance->next.*part, needed);
        if (allowance->left.*part >= needed) return;
        if (lacking.empty() || lacking.back() != allowance.get()) lacking.push_back(allowance.get());
      });
    enough = lacking.empty();
    if (lacking.size() == 1)
      for_each_resource(lacking[0]->limit, [&](auto part) {
        lacking[0]->reserved.*part = std::max(lacking[0]->reserved.*part, cost.*part);
      });
    for (const AllowancePointer& allowance : allowances) {
      if (!enough) break;
      for_each_resource(allowance->limit, [&](auto part) { allowance->left.*part -= cost.*part; });
      allowance->used.bytes += cost.bytes;
      ++allowance->used.requests;
      allowance->waiting.bytes -= cost.bytes;
      --allowance->waiting.requests;
      allowance->next = allowance->reserved = {};
    }
    if (!enough && !std::exchange(told_, true)) call = starved_;
  }
  if (call) call();
  return enough;
}

// What waits, up to a burst, and for requests that arrive before the next grant twice of what was used since the last
// one. All servers together keep at most a burst for later requests, and for those that another limit delays, or one
// request each if that is more.
LimitDemand ClusterLimits::demand_of(Allowance& allowance) const {
  LimitDemand demand{.key = allowance.key, .limit = allowance.limit, .waiting = allowance.waiting};
  const LimitAmount burst = allowance.limit.during(burst_);
  const std::size_t servers = servers_;
  for_each_resource(allowance.limit, [&](auto part) {
    const std::uint64_t next = allowance.waiting.requests > 0 ? allowance.next.*part : 0;
    std::uint64_t& left = allowance.left.*part;
    const bool delayed = next <= left && allowance.used.*part == 0;  // by another limit, or by the device
    const std::uint64_t soon =
        std::min(allowance.waiting.*part, delayed ? std::min(left, burst.*part / servers) : burst.*part);
    const std::uint64_t later = std::min(2 * (allowance.used.*part), burst.*part / servers);
    const std::uint64_t useful = std::max({soon, next, later});
    if (left > useful) demand.returned.*part = std::exchange(left, useful) - useful;
    demand.wanted.*part = useful - left;
    demand.next.*part = next > left ? next - left : 0;
  });
  if (allowance.waiting.requests == 0) allowance.next = allowance.reserved = {};
  allowance.used = {};
  return demand;
}

std::vector<LimitDemand> ClusterLimits::demands(std::size_t most) {
  Lock lock(mutex_);
  told_ = false;
  std::vector<LimitDemand> list;
  auto next = allowances_.upper_bound(last_);
  for (std::size_t looked = 0, all = allowances_.size(); looked < all && list.size() < most; ++looked) {
    if (next == allowances_.end()) next = allowances_.begin();
    const LimitDemand demand = demand_of(*next->second);
    last_ = demand.key;
    if (demand.wanted != LimitAmount{} || demand.returned != LimitAmount{}) list.push_back(demand);
    const bool unused = next->second.use_count() == 1 && demand.wanted == LimitAmount{};
    next = unused ? allowances_.erase(next) : std::next(next);
  }
  return list;
}

void ClusterLimits::grant(std::span<const LimitGrant> grants) {
  if (grants.empty()) return;
  Lock lock(mutex_);
  for (const LimitGrant& grant : grants) {
    const auto found = allowances_.find(grant.key);
    if (found == allowances_.end()) continue;
    found->second->left.bytes += grant.amount.bytes;
    found->second->left.requests += grant.amount.requests;
  }
  ++version_;
}

void ClusterLimits::name_job(ApplicationId application, UserId user, const std::string& name) {
  Lock lock(mutex_);
  JobName& job = names_[{application, user}];
  job.name = name;
  ++job.sessions;
}

void ClusterLimits::forget_job(ApplicationId application, UserId user) {
  Lock lock(mutex_);
  const auto found = names_.find({application, user});
  if (found != names_.end() && --found->second.sessions == 0) names_.erase(found);
}

std::string ClusterLimits::name_of(ApplicationId application, UserId user) const {
  Lock lock(mutex_);
  const auto found = names_.find({application, user});
  return found == names_.end() ? std::string() : found->second.name;
}

}  // namespace tutti
