// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/service_times.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

constexpr Duration kLongest = std::chrono::seconds(1);  // a request whose end is not known counts as unfinished for it

Duration end_of(const TraceRequest& request) {
  return request.has_completed() ? request.completed : request.time + kLongest;
}

}  // namespace

ServiceTimes measure_service(std::span<const Trace> traces) {
  ServiceTimes times;
  std::array<ServiceProfile, 2> profiles{ServiceProfile(kUnmeasuredService), ServiceProfile(kUnmeasuredService)};
  for (const Trace& trace : traces) {
    Duration busy = Duration::min();  // until then, a request was unfinished
    for (std::size_t i = 0; i < trace.requests.size(); ++i) {
      const TraceRequest& request = trace.requests[i];
      const bool before = request.time < std::exchange(busy, std::max(busy, end_of(request)));
      const bool after = i + 1 < trace.requests.size() && trace.requests[i + 1].time < request.completed;
      if (before || after || !request.has_completed() || request.completed < request.time) continue;
      const auto direction = static_cast<std::size_t>(request.direction);
      ServiceProfile& profile = profiles[direction];
      if (profile.learn(request.length, request.completed - request.time)) times[direction] = profile.figures();
    }
  }
  return times;
}

}  // namespace tutti
