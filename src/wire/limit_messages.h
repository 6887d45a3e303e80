// SPDX-License-Identifier: Apache-2.0
// Messages between nodes, which share the limits of a policy (node/limit_exchange.h).
#pragma once

#include "wire/message.h"

namespace tutti::wire {

inline constexpr std::size_t kMaxLimits = 1024;  // in one message

// As tutti::LimitKey and tutti::LimitAmount (sched/cluster_limits.h).
struct LimitKey {
  std::uint8_t kind = 0;
  std::uint64_t id = 0;

  void fields(auto& a) {
    a(kind, "kind");
    a.require(kind <= 2, "kind", "is unknown");
    a(id, "id");
  }
};

struct LimitAmount {
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  std::uint64_t bytes = 0, requests = 0;

  void fields(auto& a) {
    a(bytes, "bytes");
    a(requests, "requests");
    a.require(bytes <= kMost && requests <= kMost, "amount", "is over the limit");
  }
};

struct LimitDemand {
  LimitKey key{};
  LimitAmount limit{};  // per second; 0: none
  LimitAmount waiting{}, wanted{}, next{}, returned{};

  void fields(auto& a) {
    key.fields(a);
    for (auto* amount : {&limit, &waiting, &wanted, &next, &returned}) amount->fields(a);
  }
};

struct LimitGrant {
  LimitKey key{};
  LimitAmount amount{};

  void fields(auto& a) {
    key.fields(a);
    amount.fields(a);
  }
};

struct LimitShareReply {
  static constexpr Type kType = Type::kLimitShare;
  ReplyHead head{};
  TimePoint now{};  // the node's steady clock
  std::vector<LimitGrant> grants{};

  void fields(auto& a) {
    a(now, "now");
    a.list(grants, "grants", kMaxLimits, 25, [&](LimitGrant& grant) { grant.fields(a); });
  }
};

// A node asks another node, which distributes the limits, for grants. Only for the node's user and root.
struct LimitShareRequest {
  static constexpr Type kType = Type::kLimitShare;
  using Reply = LimitShareReply;
  std::string node{};  // that asks
  // `now` of the last reply on this connection. The receiver may distribute the share of the node that asks until one
  // lease after this time. Zero: it may not.
  TimePoint share_since{};
  Duration burst{};
  std::vector<LimitDemand> demands{};

  void fields(auto& a) {
    a.text(node, "node", kMaxName);
    a(share_since, "share since");
    a(burst, "burst");
    a.require(burst >= Duration{} && burst <= std::chrono::hours(1), "burst", "is over an hour");
    a.list(demands, "demands", kMaxLimits, 89, [&](LimitDemand& demand) { demand.fields(a); });
  }
};

struct LimitsReply {
  static constexpr Type kType = Type::kLimitsShow;
  ReplyHead head{};
  bool limited = false;       // the policy has limits
  std::uint32_t nodes = 1;    // of the cluster, which share the limits
  std::string distributor{};  // the node that distributes them to this one
  std::uint32_t shares = 1;   // of the nodes, that this node distributes; 0: another one does

  void fields(auto& a) {
    a(limited, "limited");
    a(nodes, "nodes");
    a.text(distributor, "distributor", kMaxName);
    a(shares, "shares");
  }
};

// Whether the limits of the policy hold for the cluster.
struct LimitsShowRequest {
  static constexpr Type kType = Type::kLimitsShow;
  using Reply = LimitsReply;
  void fields(auto&) {}
};

static_assert(kMaxLimits * 89 + 4096 <= kMaxBody);

}  // namespace tutti::wire
