// SPDX-License-Identifier: Apache-2.0
// What all policies share: the store of waiting requests, the batch being built, and the bound on overtaking.
// A policy says only how requests are ordered.
#pragma once

#include <algorithm>
#include <vector>

#include "sched/policy.h"
#include "sched/request_store.h"

namespace tutti {

class QueuedPolicy : public Policy {
 public:
  bool add(const Request& request, TimePoint now) final;
  Decision next(TimePoint now) final;
  std::optional<Request> cancel(RequestId id) final;
  bool waits(RequestId id) const final { return store_.find(id) != kNoSlot; }
  std::optional<TimePoint> overdue(TimePoint now) final;
  std::size_t waiting() const final { return store_.size(); }
  std::vector<WaitingRequest> take_all() final;

 protected:
  // `patience`: a request that has waited this long is served next; zero: never. `gather`: after an idle period, wait
  // this long for more requests before serving the first one.
  explicit QueuedPolicy(Duration patience = Duration::zero(), Duration gather = Duration::zero())
      : patience_(patience), gather_(gather) {
    batch_.reserve(1);  // now, so that they are close to this object
    arrived_.reserve(1);
  }

  // Adds a request that just arrived to the policy's queues.
  virtual void enqueue(Slot slot) = 0;
  // Removes a waiting request from the policy's queues: it was cancelled, or is served next because it waited too long.
  virtual void dequeue(Slot slot) = 0;
  // Called while something waits: builds a batch with take() and returns dispatch(), or says how long to wait.
  virtual Decision choose(TimePoint now) = 0;

  // The issue time by the client's clock, limited to the last `slack` before arrival: a clock that is behind must not
  // gain more than that, and one that is ahead must not lose.
  TimePoint issue_of(Slot slot, Duration slack) const {
    const TimePoint arrived = store_.arrived(slot);
    return std::clamp(store_.request(slot).stamp.issued, arrived - slack, arrived);
  }
  // Moves a request that is in none of the policy's queues any more from the store into the batch.
  void take(Slot slot);
  Decision dispatch() const { return Dispatch{Batch{batch_, arrived_}}; }
  const std::vector<Request>& batch() const { return batch_; }
  // Prefetches where take() will put a request.
  void expect_take() const {
    prefetch_bytes(batch_.data(), sizeof(Request));
    prefetch_line(arrived_.data());
  }

  RequestStore store_;

 private:
  Duration patience_, gather_;
  TimePoint begin_ = TimePoint::min();  // nothing is served before this time
  std::vector<Request> batch_;
  std::vector<TimePoint> arrived_;  // of the requests in batch_
};

// The option by which policies state their bound.
OptionInfo patience_option(std::string fallback);
// With it, servers that were idle choose the same application first out of several that begin together.
OptionInfo gather_option();
// The second argument of issue_of().
OptionInfo slack_option();

}  // namespace tutti
