// SPDX-License-Identifier: Apache-2.0
#include "capi/dispatched_batches.h"

#include "base/mutex.h"
#include "capi/convert.h"

namespace tutti {

std::span<const tutti_request> DispatchedBatches::open(const Scheduler::Dispatched& batch) {
  Lock guard(mutex_);
  if (free_.empty()) free_.push_back(&batches_.emplace_back());
  DispatchedBatch& entry = *free_.back();
  free_.pop_back();
  entry.batch = batch;
  entry.left = batch.requests.size();
  entry.requests.clear();
  for (const Request& request : batch.requests) {
    entry.requests.push_back(to_c(request));
    by_request_[request.id] = &entry;
  }
  return entry.requests;
}

std::optional<RequestId> DispatchedBatches::complete(std::span<const tutti_request> requests,
                                                     std::vector<Scheduler::Dispatched>& completed) {
  std::optional<RequestId> unknown;
  Lock guard(mutex_);  // for the whole function: `requests` may be memory of a batch that is freed here
  for (const tutti_request& request : requests) {
    const auto found = by_request_.find(request.id);
    if (found == by_request_.end()) {
      if (!unknown) unknown = request.id;
      continue;
    }
    DispatchedBatch& entry = *found->second;
    by_request_.erase(found);
    if (--entry.left > 0) continue;
    completed.push_back(entry.batch);
    free_.push_back(&entry);
  }
  return unknown;
}

}  // namespace tutti
