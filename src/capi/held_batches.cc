// SPDX-License-Identifier: Apache-2.0
#include "capi/held_batches.h"

#include "base/mutex.h"
#include "capi/convert.h"

namespace tutti {

std::span<const tutti_request> HeldBatches::open(const Scheduler::Dispatched& batch) {
  Lock guard(mutex_);
  if (free_.empty()) free_.push_back(&batches_.emplace_back());
  HeldBatch& held = *free_.back();
  free_.pop_back();
  held.batch = batch;
  held.left = batch.requests.size();
  held.requests.clear();
  for (const Request& request : batch.requests) {
    held.requests.push_back(to_c(request));
    by_request_[request.id] = &held;
  }
  return held.requests;
}

std::optional<RequestId> HeldBatches::complete(std::span<const tutti_request> requests,
                                               std::vector<Scheduler::Dispatched>& completed) {
  std::optional<RequestId> unknown;
  Lock guard(mutex_);  // for the whole function: `requests` may be memory of a batch that is freed here
  for (const tutti_request& request : requests) {
    const auto found = by_request_.find(request.id);
    if (found == by_request_.end()) {
      if (!unknown) unknown = request.id;
      continue;
    }
    HeldBatch& held = *found->second;
    by_request_.erase(found);
    if (--held.left > 0) continue;
    completed.push_back(held.batch);
    free_.push_back(&held);
  }
  return unknown;
}

}  // namespace tutti
