// SPDX-License-Identifier: Apache-2.0
// Divides limits among the nodes that ask for them. A state machine without clock, threads and I/O.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <map>
#include <vector>

#include "sched/cluster_limits.h"

namespace tutti::node {

// Each limit is a bucket that is filled at the limit's rate, times the part of the cluster's shares that this
// distributor has. Nodes with waiting requests are entitled to what flows in, in proportion to what waits, but to no
// more than that. While the bucket is not overdrawn, a node gets what it is entitled to. If that is less than its next
// request, it gets the whole request if no node is entitled to more. So in any time t all nodes together get at most
//   rate * (t + burst) + the largest request.
// What no node needs and returned grants are kept in the bucket, up to a burst. Not thread-safe.
class LimitDistributor {
 public:
  // Of `nodes` equal shares of every limit, this distributor has `counted`.
  struct Shares {
    std::size_t counted = 0;
    std::size_t nodes = 1;
  };
  // It has no shares now and grants nothing; another node may distribute. When it has shares again, its buckets are
  // empty: what they could have saved may have been granted by the other node.
  void pause() { paused_ = true; }
  // Grants for the demands of `node`, for the limits that have something to grant.
  std::vector<LimitGrant> ask(std::size_t node, std::span<const LimitDemand> demands, Duration burst, Shares shares,
                              TimePoint now);

 private:
  // A node's entitlement lapses if it does not ask for this time.
  static constexpr Duration kAsksWithin = std::chrono::milliseconds(100);
  static constexpr Duration kKept = std::chrono::seconds(10);  // an unused limit that is not overdrawn

  struct Asker {
    TimePoint asked{};
    double waiting = 0;   // and not granted
    double entitled = 0;  // less than 0: it owes this for a request that was granted as a whole
  };
  // Bytes or requests of one limit.
  struct Bucket {
    double unassigned = 0;
    double rate = 0;  // at the last fill()
    TimePoint filled{};
    std::map<std::size_t, Asker> askers;

    struct Flow {
      double rate = 0, burst = 0;
    };
    void fill(const Flow& flow, TimePoint now);
    void assign();
    double sum() const;  // less than 0: overdrawn
    void start_empty(TimePoint now);
    std::uint64_t grant(std::size_t node, std::uint64_t wanted, std::uint64_t next);
    bool overdrawn(TimePoint now) const;
  };
  struct Limit {
    Bucket bytes, requests;
    TimePoint used{};
  };

  void resume(TimePoint now);
  void forget_unused(TimePoint now);

  bool paused_ = false;
  std::map<LimitKey, Limit> limits_;
  std::size_t tidy_at_ = 4096;
};

}  // namespace tutti::node
