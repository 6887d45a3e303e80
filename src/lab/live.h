// SPDX-License-Identifier: Apache-2.0
// Experiments with real processes: nodes over modelled devices, and jobs that do their I/O through them.
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <string>
#include <vector>

namespace tutti::lab {

// Nodes, a process each, on Unix sockets in a temporary directory.
struct LiveCluster {
  unsigned nodes = 4;
  std::string device = "hdd-7200";  // a preset; the node takes its time
  std::size_t depth = 1;            // batches a node keeps at its device
  std::string policy = "concert";
  PolicyOptions policy_options{};
  Bytes stripe_size{64 << 10};
};

// One process. It reads or writes its own file from front to back, `operation` bytes at a time, each operation striped
// over all nodes and sent to them at once; the next one starts when all pieces of the last are done.
struct LiveJob {
  std::string name;
  ApplicationId application = 0;
  Direction direction = Direction::kRead;
  Bytes size{};
  Bytes operation{};
  Duration delay{};       // after the common start
  bool announce = false;  // tells the servers the size of its phase
};

struct LiveTimes {
  double start = 0;  // seconds after the common start
  double end = 0;
};

// Starts the cluster, lets all jobs begin at the same moment, and stops everything again. Times in the order of `jobs`.
// Forks: to be called while the process has one thread. kTimeout if it takes longer than `limit`.
Result<std::vector<LiveTimes>> run_live(const LiveCluster& cluster, const std::vector<LiveJob>& jobs,
                                        Duration limit = std::chrono::seconds(120));

}  // namespace tutti::lab
