// SPDX-License-Identifier: Apache-2.0
// Experiments with real processes: nodes over modelled devices, and jobs that do their I/O through them.
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/device.h"

namespace tutti {
struct Cluster;
}

namespace tutti::lab {

// Nodes, a process each, on Unix sockets in a temporary directory.
struct LiveCluster {
  unsigned nodes = 4;
  std::string device = "hdd-7200";         // a preset; the node takes its time
  std::optional<DeviceFigures> figures{};  // instead of the preset
  std::size_t depth = 1;                   // batches a node keeps at its device
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

// What the process of a job is given.
struct LiveProcess {
  const Cluster& cluster;
  const std::string& directory;  // of this run, for sockets and the like; goes with it
  std::uint32_t job;             // its number
  int start;                     // file descriptor: the common start is when it ends
  std::function<void()> ready;   // to be called once: this job waits for the common start
};

// Does the work of a job in its process; what it returns goes to the parent. At most 128 figures.
using LiveBody = std::function<Result<std::vector<double>>(const LiveProcess&)>;

struct LivePlan {
  std::uint32_t jobs = 1;
  LiveBody body;
  std::function<void(const std::string& directory)>
      prepare{};                                              // before anything starts; the nodes serve directory/files
  std::function<int(const std::string& directory)> daemon{};  // a process beside the nodes, until it is killed
};

struct LiveRun {
  double started = 0;                        // by seconds_now(): the common start
  std::vector<std::vector<double>> figures;  // of each job
};

// What run_live() is made of, for jobs that do something else.
Result<LiveRun> run_live_processes(const LiveCluster& cluster, const LivePlan& plan, Duration limit);

// Of a clock that all processes share.
double seconds_now();

}  // namespace tutti::lab
