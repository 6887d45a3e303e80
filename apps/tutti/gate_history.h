// SPDX-License-Identifier: Apache-2.0
// What a gate learns from the traces of an earlier one.
#pragma once

#include <string>
#include <vector>

#include "gate/lock_table.h"
#include "trace/recording.h"

namespace tutti::cli {

inline constexpr std::size_t kMostPastTurns = 64;  // of a job; the gate remembers fewer

// The last turns of each job in a gate's trace (gate/turn_trace.h), in order of time. Requests that were withdrawn,
// turns that had not ended and files of other names are left out.
std::vector<gate::LockTable::PastEvent> past_events(const Trace& trace);

struct GateHistory {
  std::vector<gate::LockTable::PastEvent> events{};
  std::size_t turns = 0;                // that ended, at most kMostPastTurns of each job
  std::vector<std::string> problems{};  // of the traces, for people
};

// Reads a file, or all in a directory; traces of nodes are left out and reported. kNotFound: there is none of a gate.
Result<GateHistory> load_gate_history(const std::string& path);

}  // namespace tutti::cli
