// SPDX-License-Identifier: Apache-2.0
// Statistics of a trace, and its export as text.
#pragma once

#include <string>
#include <vector>

#include "trace/phases.h"
#include "trace/recording.h"

namespace tutti::trace {

// The requests of one application to one file in one direction.
struct StatisticsRow {
  std::uint32_t file = 0;
  ApplicationId application = 0;
  Direction direction = Direction::kRead;
  std::uint64_t requests = 0;
  Bytes bytes{};
  Bytes smallest{}, largest{};
  // Shares of requests that begin where the last one of the same process and target ended, or at or after its end.
  double contiguous = 0, ascending = 0;
  Duration first{}, last{};  // arrivals
  std::uint64_t completed = 0;
  Duration response{};  // mean time from arrival to end of those that completed
};

// By bytes, largest first.
std::vector<StatisticsRow> statistics(const Trace& trace);

// One line per request: time and completion in seconds; names in quotes.
std::string csv(const Trace& trace);

struct ScenarioOptions {
  std::string name = "trace";
  std::string policy = "fifo";
  std::string device = "ssd-2010";  // a preset
  Duration gap = kDefaultGap;
};
// A scenario file for `tutti sim run`: each application and direction of the trace becomes an application with the mean
// number of processes, operations, bytes and compute time of its phases. Its comments state what was left out.
std::string scenario(const Recording& recording, const ScenarioOptions& options);

}  // namespace tutti::trace
