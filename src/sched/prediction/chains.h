// SPDX-License-Identifier: Apache-2.0
// Predicted aggregations (AGIOS, section IV-B): which expected requests should wait for each other.
#pragma once

#include <array>
#include <vector>

#include "sched/merging.h"
#include "sched/prediction/predicted_queues.h"
#include "sched/service_profile.h"

namespace tutti {

// What the decision depends on; it changes while the scheduler runs.
struct AggregationModel {
  ServiceProfile::Figures service{};  // time to process, TTP(x) = latency + x / bandwidth
  // The share of a wait in which other requests are served (the paper's alpha) is computed from the requests that are
  // expected to arrive in between, each of which takes `each`: less than TTP where they are merged. `overlap` is how
  // much of the computed share was observed.
  double overlap = 1;
  Duration each{};
  MergeLimits limits{};
  MergePlace place{};
};

// A chain: expected requests that adjoin and that are served faster as one batch, waits included.
struct Aggregation {
  std::uint32_t first = 0;  // number of its first request in the queue
  std::uint32_t count = 0;
  Bytes bytes{};
  Duration wait{};  // from the first expected arrival to the last
  double alpha = 0;
};

// The chains of one predicted queue. Two neighbours R1 and R2 join if
//   TTP(S1) + TTP(S2) > TTP(S1 + S2) + |AT2 - AT1| * (1 - alpha);
// then they count as one request that arrives with the later of them. After a pair that does not join, the second
// request starts the next chain.
//
// Computed in blocks of requests when first asked for, and again after outdate(). A chain ends at the end of its block.
// Not thread-safe.
class Chains {
 public:
  static constexpr std::uint32_t kBlock = 1024;

  // nullptr: no requests. `learned`: from one run, not from traces.
  void reset(const PredictedQueue* queue, bool learned = false);
  const PredictedQueue* queue() const { return queue_; }

  // The chain that the request is in. `like` is an actual request to the file: it has the file's striping.
  Aggregation find(std::uint32_t number, const Request& like, const AggregationModel& model);
  std::uint32_t first_of(std::uint32_t number, const Request& like, const AggregationModel& model) {
    const std::uint32_t block = number / kBlock;
    if (computed_[block] != version_) compute(block, like, model);
    return block * kBlock + heads_[number];
  }
  void outdate() { ++version_; }

 private:
  void compute(std::uint32_t block, const Request& like, const AggregationModel& model);
  Aggregation describe(std::uint32_t first, const AggregationModel& model) const;

  const PredictedQueue* queue_ = nullptr;
  bool learned_ = false;
  std::vector<std::uint16_t> heads_;     // by request: the first request of its chain, counted in its block
  std::vector<std::uint32_t> computed_;  // by block: the version
  std::uint32_t version_ = 1;
};

}  // namespace tutti
