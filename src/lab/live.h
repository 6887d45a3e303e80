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
  Bytes spread{std::uint64_t{16} << 30};  // of a device, in which files lie
  std::uint64_t seed = 0;                 // decides where
  // Devices take so many times as long. Jobs and nodes share the few cores of this machine, and a device that is slow
  // enough leaves them idle most of the time, as they are on machines of their own.
  double slowdown = 1;
};

// One process with a thread for each rank, which read or write the job's own file; each one's next operation starts
// when all ranks are done with the last.
struct LiveJob {
  enum class Split {
    kByRank,    // each rank has its own part of the file, and goes through it `operation` bytes at a time
    kByServer,  // the job goes through its file `operation` bytes at a time; each rank moves those of one server. With
                // a rank for each server the job asks all of them at once, as clients do on a machine of their own
  };

  std::string name;
  ApplicationId application = 0;
  Direction direction = Direction::kRead;
  Bytes size{};
  Bytes operation{};
  unsigned ranks = 1;
  Split split = Split::kByRank;
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
