// SPDX-License-Identifier: Apache-2.0
// Messages for the administration of a node.
#pragma once

#include "wire/message.h"

namespace tutti::wire {

struct PolicyReply {
  static constexpr Type kType = Type::kPolicyShow;
  ReplyHead head{};
  std::string policy{};
  PolicyOptions options{};

  void fields(auto& a) {
    a.text(policy, "policy", kMaxName);
    a.options(options);
  }
};

struct PolicyShowRequest {
  static constexpr Type kType = Type::kPolicyShow;
  using Reply = PolicyReply;
  void fields(auto&) {}
};

struct PolicySetRequest {
  static constexpr Type kType = Type::kPolicySet;
  using Reply = PlainReply<kType>;
  std::string policy{};
  PolicyOptions options{};

  void fields(auto& a) {
    a.text(policy, "policy", kMaxName);
    a.options(options);
  }
};

// Counters of one application on one target since the node started. A rate is the difference of two replies.
struct Usage {
  ApplicationId application = 0;
  UserId user = 0;
  TargetId target = 0;
  std::string job{};  // name from its client's Hello
  std::uint64_t requests = 0, read_bytes = 0, written_bytes = 0;
  std::uint64_t waiting = 0, waiting_bytes = 0;  // at present
  std::uint64_t announced = 0;  // bytes of its phase on the busiest target, from the last stamp; 0: unknown
  Duration queued{}, engine{};  // summed over requests

  void fields(auto& a) {
    a(application, "application");
    a(user, "user");
    a(target, "target");
    a.text(job, "job", kMaxName);
    for (auto* value : {&requests, &read_bytes, &written_bytes, &waiting, &waiting_bytes, &announced}) {
      a(*value, "usage");
    }
    a(queued, "queued");
    a(engine, "engine");
  }
};

// The order of rows.
struct UsageKey {
  ApplicationId application = 0;
  UserId user = 0;
  TargetId target = 0;

  auto operator<=>(const UsageKey&) const = default;
  friend std::size_t hash_value(const UsageKey& key) {
    return ((std::uint64_t{key.application} << 32 | key.user) * 0x9e3779b97f4a7c15 + key.target) * 0x9e3779b97f4a7c15;
  }
  // The smallest key after this one. After the largest: the smallest of all.
  UsageKey next() const {
    UsageKey key = *this;
    if (++key.target == 0 && ++key.user == 0) ++key.application;
    return key;
  }
  void fields(auto& a) {
    a(application, "application");
    a(user, "user");
    a(target, "target");
  }
};
inline UsageKey usage_key(const Usage& usage) {
  return {usage.application, usage.user, usage.target};
}

struct StatisticsReply {
  static constexpr Type kType = Type::kStatistics;
  ReplyHead head{};
  std::string node{};
  std::string policy{};
  Duration uptime{};
  std::uint64_t connections = 0, waiting = 0, waiting_bytes = 0, in_flight = 0;
  std::uint64_t batches = 0, batched_requests = 0, refused = 0;
  std::uint64_t buffer_bytes = 0;  // of payload buffers in use
  bool more = false;               // there are more rows: ask again with `first` = usage_key(last row).next()
  std::vector<Usage> usage{};      // ascending by usage_key(), at most kMaxUsage rows

  void fields(auto& a) {
    a.text(node, "node", kMaxName);
    a.text(policy, "policy", kMaxName);
    a(uptime, "uptime");
    for (auto* value :
         {&connections, &waiting, &waiting_bytes, &in_flight, &batches, &batched_requests, &refused, &buffer_bytes}) {
      a(*value, "statistics");
    }
    a(more, "more");
    a.list(usage, "usage", kMaxUsage, 80, [&](Usage& row) { row.fields(a); });
  }
};

struct StatisticsRequest {
  static constexpr Type kType = Type::kStatistics;
  using Reply = StatisticsReply;
  UsageKey first{};  // rows with a smaller usage_key() are left out

  void fields(auto& a) { first.fields(a); }
};

struct HealthReply {
  static constexpr Type kType = Type::kHealth;
  ReplyHead head{};
  std::string node{}, software{}, engine{}, root{}, policy{};
  bool stopping = false;
  Duration uptime{};
  std::uint32_t process = 0;
  std::string job_check{};  // how job numbers of clients are checked: "cgroup" or "slurm"
  bool key = false;         // clients over TCP may use the cluster key: neither their user nor their job is proven

  void fields(auto& a) {
    for (auto* value : {&node, &software, &engine, &policy}) a.text(*value, "health", kMaxName);
    a.text(root, "root", kMaxPath);
    a(stopping, "stopping");
    a(uptime, "uptime");
    a(process, "process");
    a.text(job_check, "job check", kMaxName);
    a(key, "key");
  }
};

struct HealthRequest {
  static constexpr Type kType = Type::kHealth;
  using Reply = HealthReply;
  void fields(auto&) {}
};

// Stops the node. Waiting requests are served (drain) or refused with kStopping. Only for the node's user and root.
struct StopRequest {
  static constexpr Type kType = Type::kStop;
  using Reply = PlainReply<kType>;
  bool drain = true;

  void fields(auto& a) { a(drain, "drain"); }
};

}  // namespace tutti::wire
