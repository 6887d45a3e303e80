// SPDX-License-Identifier: Apache-2.0
#include "capi/flights.h"

#include "capi/convert.h"

namespace tutti {

std::span<const tutti_request> Flights::open(const Scheduler::Dispatched& batch) {
  std::lock_guard guard(mutex_);
  if (free_.empty()) free_.push_back(&flights_.emplace_back());
  Flight& flight = *free_.back();
  free_.pop_back();
  flight.batch = batch;
  flight.left = batch.requests.size();
  flight.requests.clear();
  for (const Request& request : batch.requests) {
    flight.requests.push_back(to_c(request));
    by_request_[request.id] = &flight;
  }
  return flight.requests;
}

std::optional<RequestId> Flights::complete(std::span<const tutti_request> requests,
                                           std::vector<Scheduler::Dispatched>& landed) {
  std::optional<RequestId> unknown;
  std::lock_guard guard(mutex_);  // to the end: `requests` may be the memory of the flight that is freed here
  for (const tutti_request& request : requests) {
    const auto found = by_request_.find(request.id);
    if (found == by_request_.end()) {
      if (!unknown) unknown = request.id;
      continue;
    }
    Flight& flight = *found->second;
    by_request_.erase(found);
    if (--flight.left > 0) continue;
    landed.push_back(flight.batch);
    free_.push_back(&flight);
  }
  return unknown;
}

}  // namespace tutti
