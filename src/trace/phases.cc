// SPDX-License-Identifier: Apache-2.0
#include "trace/phases.h"

#include <algorithm>
#include <map>

namespace tutti::trace {

std::vector<TracePhase> find_phases(const Trace& trace, Duration gap) {
  std::map<ApplicationId, std::vector<TracePhase>> phases;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    std::vector<TracePhase>& own = phases[request.application];
    if (own.empty() || request.time - own.back().end >= gap)
      own.push_back({.application = request.application, .begin = request.time, .end = request.time});
    TracePhase& phase = own.back();
    phase.requests.push_back(i);
    phase.bytes += request.length;
    phase.completions_known = phase.completions_known && request.has_completed();
    phase.end = std::max(phase.end, request.has_completed() ? request.completed : request.time);
  }
  std::vector<TracePhase> all;
  for (auto& [application, own] : phases) std::ranges::move(own, std::back_inserter(all));
  return all;
}

}  // namespace tutti::trace
