// SPDX-License-Identifier: Apache-2.0
// What the experiments share: running a scenario over several seeds and averaging its figures.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lab/experiment.h"
#include "sim/metrics.h"

namespace tutti::lab {

using sim::Application;
using sim::Pattern;
using sim::Scenario;

// Means over seeds of the figures the tables show.
struct Averages {
  double operation = 0;  // mean completion, seconds
  double operation_p99 = 0;
  double phase = 0;
  double phase_deviation = 0;
  double last_over_first = 0;  // mean of the operations' ratios
  double first_server = 0;     // mean time to the first server's finish
  double last_server = 0;      // and to the last's
  double makespan = 0;
  double bandwidth = 0;           // bytes per second
  double reported_bandwidth = 0;  // the sum of what each application sees: its bytes over its time
  double slowdown = 0;
  double fairness = 0;
  double io_time = 0;
  double bound = 0;  // least possible mean phase
  double mean_batch = 0;
  std::vector<double> phases, makespans;  // of each seed
};

// The first seed of every experiment. Policies and models were tuned on seeds up to 3020: what is claimed is shown on
// others, which nobody looked at while choosing.
inline constexpr std::uint64_t kFirstSeed = 4001;

struct Repeat {
  unsigned seeds = 1;  // from kFirstSeed on
  bool slowdown = false;
  bool bound = false;
};

// `make` builds the scenario for a seed. Runs on all cores; the result does not depend on how many there are.
Result<Averages> average(const std::function<sim::Scenario(std::uint64_t seed)>& make, const Repeat& repeat);

// Runs `tasks` on all cores and returns when all are done.
void run_all(const std::vector<std::function<void()>>& tasks);

void say(const LabOptions& options, const std::string& line);

// How much smaller `ours` is than `baseline`, in per cent.
inline double reduction(double baseline, double ours) {
  return baseline > 0 ? 100 * (1 - ours / baseline) : 0;
}

// The servers of the sc11 paper's two environments. `depth` is how many batches a server keeps at its device; files lie
// within `spread` of a disk.
Scenario sc11_cluster(bool flash, unsigned servers, unsigned depth, Bytes spread);

// Four servers of Grid'5000 with a disk each behind Gigabit Ethernet. A server's file
// system is Linux's: it reads streams ahead by 128 KiB, keeps them, and has memory for all that the tests write.
// One thread of the server handles a request of a client, or of a scheduler that joined some, in 100 us; that figure is
// our assumption.
Scenario ethernet_disks(unsigned depth, std::uint64_t seed);

}  // namespace tutti::lab
