// SPDX-License-Identifier: Apache-2.0
// What all policies share: the store of waiting requests, the batch being built, and the bound on overtaking.
// A policy says only how requests are ordered.
#pragma once

#include <vector>

#include "sched/policy.h"
#include "sched/request_store.h"

namespace tutti {

class QueuedPolicy : public Policy {
 public:
  bool add(const Request& request, TimePoint now) final;
  Decision next(TimePoint now) final;
  std::optional<Request> cancel(RequestId id) final;
  std::size_t waiting() const final { return store_.size(); }
  std::vector<Waiting> take_all() final;

 protected:
  // `patience`: zero, and nobody goes first for having waited long. `gather`: so long nothing is served after the
  // arrival of what found nothing waiting.
  explicit QueuedPolicy(Duration patience = Duration::zero(), Duration gather = Duration::zero())
      : patience_(patience), gather_(gather) {}

  // Puts a request that just arrived in its place.
  virtual void enqueue(Slot slot) = 0;
  // Takes a waiting request out of its place: it was cancelled, or goes first because it waited too long.
  virtual void dequeue(Slot slot) = 0;
  // Decides while something waits: batches are built with take() and returned as dispatch().
  virtual Decision choose(TimePoint now) = 0;

  // Moves a request, already out of its place, from the store into the batch.
  void take(Slot slot);
  Decision dispatch() const { return Dispatch{Batch{batch_, arrived_}}; }
  const std::vector<Request>& batch() const { return batch_; }

  RequestStore store_;

 private:
  Duration patience_, gather_;
  TimePoint begin_ = TimePoint::min();  // nothing is served before
  std::vector<Request> batch_;
  std::vector<TimePoint> arrived_;  // of the requests in batch_
};

// The option by which policies state their bound.
OptionInfo patience_option(std::string fallback);
// The option by which servers that were idle begin with the same one of the applications that come at once.
OptionInfo gather_option();

}  // namespace tutti
