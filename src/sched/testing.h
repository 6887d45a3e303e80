// SPDX-License-Identifier: Apache-2.0
// What tests of policies share: short ways to make requests and to see the order in which they are dispatched.
#pragma once

#include <cassert>
#include <string_view>
#include <vector>

#include "sched/policy.h"

namespace tutti::testing_support {

inline TimePoint at_ms(std::int64_t milliseconds) {
  return TimePoint(std::chrono::milliseconds(milliseconds));
}

inline Request make_request(RequestId id) {
  Request request;
  request.id = id;
  request.file = id;
  request.length = Bytes(1);
  return request;
}

inline std::unique_ptr<Policy> make(std::string_view name, const PolicyOptions& options = {}) {
  auto policy = make_policy(name, options);
  assert(policy && "tests give valid options");
  return std::move(*policy);
}

// The ids of the batch that is dispatched next at `now`; empty if there is none.
inline std::vector<RequestId> next_ids(Policy& policy, TimePoint now = {}) {
  std::vector<RequestId> ids;
  const Decision decision = policy.next(now);
  if (const auto* go = std::get_if<Dispatch>(&decision))
    for (const Request& request : go->batch.requests) ids.push_back(request.id);
  return ids;
}

// Everything that is dispatched from `now` on, waits skipped, batch by batch.
inline std::vector<std::vector<RequestId>> drain_batches(Policy& policy, TimePoint now = {}) {
  std::vector<std::vector<RequestId>> batches;
  while (policy.waiting() > 0) {
    const Decision decision = policy.next(now);
    if (const auto* wait = std::get_if<WaitUntil>(&decision)) now = wait->at;
    if (const auto* go = std::get_if<Dispatch>(&decision)) {
      batches.emplace_back();
      for (const Request& request : go->batch.requests) batches.back().push_back(request.id);
    }
  }
  return batches;
}

inline std::vector<RequestId> drain(Policy& policy, TimePoint now = {}) {
  std::vector<RequestId> ids;
  for (const auto& batch : drain_batches(policy, now)) ids.insert(ids.end(), batch.begin(), batch.end());
  return ids;
}

}  // namespace tutti::testing_support
