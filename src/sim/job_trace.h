// SPDX-License-Identifier: Apache-2.0
// Jobs from a trace, for the keys `trace` and `arrivals` of a scenario file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario.h"

namespace tutti::sim {

struct JobTrace {
  enum class Kind : std::uint8_t {
    kCoflows,  // start, ranks and server_bytes of a job are set
    kRequests  // start, id, ranks, iterations, operations, size, compute, direction, pattern, files, stripe_size are
  };
  Kind kind = Kind::kCoflows;
  unsigned servers = 1;  // that the jobs need: the ports of a coflow trace; the fewest for the rest
  std::vector<Application> jobs{};
};

// Coflows as published at https://github.com/coflow/coflow-benchmark: a line "PORTS COFLOWS", then for each coflow "ID
// ARRIVAL-MS MAPPERS PORT... REDUCERS PORT:MB...". A coflow becomes a job with one rank per mapper. Each rank moves an
// equal part of the bytes of each reducer to or from the server with the reducer's number, all in one operation.
// kInvalid: names source, line and what is expected there.
Result<JobTrace> parse_coflows(std::string_view text, const std::string& source);

// A file of coflows, traces of `tutti` (a file or a directory), or Darshan DXT text. The applications of the last two
// are those of trace::scenario().
Result<JobTrace> load_jobs(const std::string& path);

}  // namespace tutti::sim
