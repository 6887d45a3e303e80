// SPDX-License-Identifier: Apache-2.0
// The state of a lock table as one JSON document, for `tutti gate status`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gate/lock_table.h"

namespace tutti::gate {

// How clients prove who they are.
struct Authentication {
  std::string job_check = "none";  // "none", "cgroup" or "slurm", as in net/job_check.h
  bool key = false;                // clients with the key act for any user
};

struct ServiceFacts {
  std::size_t connections = 0;
  Duration uptime{};
  std::uint64_t refused = 0;  // requests
  Authentication authentication{};
  std::function<std::uint32_t(SessionId)> process;  // process id of a session
};

// {"discipline", "lease_seconds", "recovering", "uptime_seconds", "connections", "job_check", "key", "counts": {...},
//  "targets": [{"target", "state": "idle"|"active", "holders": [{"job", "user", "process", "processes",
//               "held_seconds", "lease_left_seconds", "class"}], "waiting"}],
//  "queue": [{"job", "user", "process", "processes", "targets", "bytes", "waited_seconds", "overdue", "class"}]}
// "process" is the first process of the turn, "processes" the number of its processes.
std::string status_document(const LockTable& table, const ServiceFacts& facts, TimePoint now);

}  // namespace tutti::gate
