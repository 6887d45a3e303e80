// SPDX-License-Identifier: Apache-2.0
// Records what arrives at the servers of a simulation, as a scheduler that writes traces would.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sched/prediction/trace.h"

namespace tutti::sim {

// The traces of all servers. Not thread-safe.
class TraceRecorder {
 public:
  explicit TraceRecorder(std::size_t servers) : servers_(servers) {}

  void arrived(const Request& request, const std::string& pattern, TimePoint now);
  void completed(const Request& request, TimePoint now);
  std::vector<Trace> take();  // by server

 private:
  struct Server {
    Trace trace;
    std::map<std::string, std::uint32_t> files;
    std::unordered_map<RequestId, std::size_t> unfinished;  // indexes in the trace
    std::optional<TimePoint> first;
  };
  std::vector<Server> servers_;
};

}  // namespace tutti::sim
