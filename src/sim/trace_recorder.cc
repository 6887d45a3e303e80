// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_recorder.h"

#include <algorithm>

namespace tutti::sim {

void TraceRecorder::arrived(const Request& request, const std::string& pattern, TimePoint now) {
  Server& server = servers_[request.target];
  if (!server.first) server.first = now;
  const auto [file, added] = server.files.try_emplace(pattern, static_cast<std::uint32_t>(server.trace.files.size()));
  if (added) server.trace.files.push_back(pattern);
  const Duration before = server.trace.requests.empty() ? Duration::zero() : server.trace.requests.back().time;
  server.unfinished[request.id] = server.trace.requests.size();
  server.trace.requests.push_back({.time = std::max(before, now - *server.first),
                                   .file = file->second,
                                   .application = request.stamp.application,
                                   .offset = request.offset,
                                   .length = request.length,
                                   .target = request.target,
                                   .direction = request.direction});
}

void TraceRecorder::completed(const Request& request, TimePoint now) {
  Server& server = servers_[request.target];
  const auto unfinished = server.unfinished.extract(request.id);
  if (!unfinished.empty()) server.trace.requests[unfinished.mapped()].completed = now - *server.first;
}

std::vector<Trace> TraceRecorder::take() {
  std::vector<Trace> traces;
  for (Server& server : servers_) traces.push_back(std::move(server.trace));
  return traces;
}

}  // namespace tutti::sim
