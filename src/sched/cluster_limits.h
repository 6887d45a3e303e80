// SPDX-License-Identifier: Apache-2.0
// Limits that hold for a cluster: what this server may use of them.
//
// A server alone enforces a limit with its own clock. The servers of a cluster share each limit: one of them
// distributes it (node/limit_exchange.h), and every server has an allowance per limit, in bytes and requests. A policy
// serves a request only if its cost is in the allowances of all limits that apply to it. This class holds the
// allowances, counts what waits, and says what the server needs.
#pragma once

#include <tutti/sched.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tutti {

// What a limit applies to.
struct LimitKey {
  enum class Kind : std::uint8_t { kJob, kUser, kName };
  Kind kind = Kind::kJob;
  std::uint64_t id = 0;  // kJob: user and application; kUser: the user; kName: a hash of the job's name

  static LimitKey job(ApplicationId application, UserId user) {
    return {Kind::kJob, std::uint64_t{user} << 32 | application};
  }
  static LimitKey user(UserId user) { return {Kind::kUser, user}; }
  static LimitKey name(std::string_view name);  // the same on every server

  auto operator<=>(const LimitKey&) const = default;
};

struct LimitAmount {
  std::uint64_t bytes = 0;
  std::uint64_t requests = 0;
  bool operator==(const LimitAmount&) const = default;
};

// Per second; 0: no limit.
struct RateLimit {
  std::uint64_t bytes = 0;
  std::uint64_t requests = 0;
  bool any() const { return bytes > 0 || requests > 0; }
  bool operator==(const RateLimit&) const = default;
  // What is served in this time.
  LimitAmount during(Duration time) const;
};

// What one server needs of one limit.
struct LimitDemand {
  LimitKey key{};
  RateLimit limit{};
  LimitAmount waiting{};   // of all requests that wait here
  LimitAmount wanted{};    // the grant that it can use now
  LimitAmount next{};      // the smallest grant of any use, at most `wanted`
  LimitAmount returned{};  // granted earlier and not needed
};

struct LimitGrant {
  LimitKey key{};
  LimitAmount amount{};
};

// Thread-safe. Its lock is held only inside its own functions, except that `starved` is called without it.
class ClusterLimits {
 public:
  // A limit that applies to waiting requests here.
  struct Allowance {
    LimitKey key{};
    RateLimit limit{};
    LimitAmount waiting{};
    LimitAmount left{};  // granted and not used
    LimitAmount used{};  // since the last demands()
    LimitAmount next{};  // the cost of the largest request that was refused, by any limit, since one was served
    // The cost of a request that only this limit delays. Smaller requests of other jobs must not use it up.
    LimitAmount reserved{};
  };
  using AllowancePointer = std::shared_ptr<Allowance>;

  // ---- for the server ----

  // From now on limits are enforced with grants; without this call, the policy uses its own clock. `servers` is the
  // number of servers of the cluster. `starved` is called when a request waits for a grant, at most once between two
  // calls of demands(), perhaps while the scheduler's lock is held: it must not block or call the scheduler.
  void enforce_by_grants(std::size_t servers, std::function<void()> starved);
  bool by_grants() const { return by_grants_; }
  // The policy in use has limits.
  bool active() const { return owner_.load() != nullptr; }
  Duration burst() const;
  // `starved` was called since the last demands().
  bool starving() const;

  // At most `most` demands: all that have changed, in the order of keys, beginning after those of the last call. Takes
  // back what is not needed (LimitDemand::returned).
  std::vector<LimitDemand> demands(std::size_t most);
  // Grants for limits that are unknown by now are lost. The policy finds the others at its next decision.
  void grant(std::span<const LimitGrant> grants);

  // The names of jobs, for limits by name. A session names its job before it sends requests, and takes the name back.
  void name_job(ApplicationId application, UserId user, const std::string& name);
  void forget_job(ApplicationId application, UserId user);
  std::string name_of(ApplicationId application, UserId user) const;  // empty: not known

  // ---- for the policy, which calls the scheduler's functions one at a time ----

  // `owner` has limits, and its allowances replace those of another policy. `burst`: a server may use
  // at once what a limit allows in this time.
  void attach(const void* owner, Duration burst);
  void detach(const void* owner);
  AllowancePointer open(const LimitKey& key, const RateLimit& limit);
  void arrived(Allowance& allowance, Bytes length);
  void left(Allowance& allowance, Bytes length);  // without being served
  // Takes the cost of a request from all of them, or nothing from any. Call it for jobs in the order in which they are
  // to be served: a request that only one of its limits delays is served before later and smaller ones of that limit.
  bool take(std::span<const AllowancePointer> allowances, Bytes length);
  // Changes with every grant.
  std::uint64_t version() const { return version_; }

 private:
  LimitDemand demand_of(Allowance& allowance) const TUTTI_REQUIRES(mutex_);

  std::atomic<bool> by_grants_{false};
  std::atomic<std::uint64_t> version_{0};
  std::atomic<const void*> owner_{nullptr};
  mutable Mutex mutex_;
  std::size_t servers_ TUTTI_GUARDED_BY(mutex_) = 1;
  std::function<void()> starved_ TUTTI_GUARDED_BY(mutex_);
  bool told_ TUTTI_GUARDED_BY(mutex_) = false;  // `starved_` was called
  Duration burst_ TUTTI_GUARDED_BY(mutex_){};
  std::map<LimitKey, AllowancePointer> allowances_ TUTTI_GUARDED_BY(mutex_);
  LimitKey last_ TUTTI_GUARDED_BY(mutex_);  // of the last demands()
  struct JobName {
    std::string name;
    std::size_t sessions = 0;
  };
  std::map<std::pair<ApplicationId, UserId>, JobName> names_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
