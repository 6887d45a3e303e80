// SPDX-License-Identifier: Apache-2.0
// The state of a lock table as one JSON document, for `tutti gate status`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gate/lock_table.h"

namespace tutti::gate {

struct ServerFacts {
  std::size_t connections = 0;
  Duration uptime{};
  std::function<std::uint32_t(SessionId)> process;  // the process number a session gave
};

// {"discipline", "lease_seconds", "recovering", "uptime_seconds", "connections", "counts": {...},
//  "targets": [{"target", "state": "idle"|"active", "holders": [{"job", "process", "held_seconds",
//               "lease_left_seconds", "class"}], "waiting"}],
//  "queue": [{"job", "process", "targets", "bytes", "waited_seconds", "overdue", "class"}]}
std::string status_document(const LockTable& table, const ServerFacts& facts, TimePoint now);

}  // namespace tutti::gate
