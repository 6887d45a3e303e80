// SPDX-License-Identifier: Apache-2.0
// One application's burst of I/O against a live cluster, measured: for experiments and demonstrations.
#pragma once

#include <tutti/client.h>

#include <string>
#include <vector>

namespace tutti {

struct LoadOptions {
  Cluster cluster;
  ApplicationId application = 0;
  std::string job = "load";
  std::string path;  // one file; created when it is written, expected to be there when it is read
  Direction direction = Direction::kWrite;
  Bytes total{64 << 20};
  Bytes request{4 << 20};  // per operation
  std::size_t depth = 1;   // operations under way at once
  bool announce = false;   // tell the servers how much is to come
  bool fsync = false;      // at the end, inside the measured time
};

struct LoadResult {
  TimePoint begin{}, end{};  // wall clock: results of several applications can be put on one axis
  Bytes moved{};
  std::vector<Duration> latencies;  // by operation, in order of issue
  TimeSpent spent{};                // where the nodes say the time went

  double bytes_per_second() const;
};

// Connects, runs one phase from offset 0 upwards, and disconnects. Blocks; to be called from any thread or process.
Result<LoadResult> run_load(const LoadOptions& options);

}  // namespace tutti
