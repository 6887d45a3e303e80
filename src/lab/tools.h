// SPDX-License-Identifier: Apache-2.0
// Functions for all experiments: run a scenario with several seeds and average its metrics.
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

// Means over seeds of the metrics in the tables.
struct Averages {
  double operation = 0;  // mean completion, seconds
  double operation_p99 = 0;
  double phase = 0;
  double phase_deviation = 0;
  double phase_max = 0;
  double last_over_first = 0;  // mean ratio of the operations
  double first_server = 0;     // mean time until the first server has served its part
  double last_server = 0;      // the same for the last server
  double makespan = 0;
  double bandwidth = 0;  // bytes of all applications over the makespan, per second
  double slowdown = 0;
  double fairness = 0;
  double io_time = 0;
  double bound = 0;  // lower bound of the mean phase
  double mean_batch = 0;
  // Of each seed.
  std::vector<double> phases, makespans, operations, io_times, slowdowns, bandwidths, deviations, bounds;
  std::vector<double> first_servers, last_servers;
  std::vector<std::vector<double>> alone;  // of each seed, by application: its mean phase alone, in seconds
  std::vector<sim::Activity> timeline;     // of the first seed
};

// The first seed of every experiment. Policies and models were tuned with seeds up to 3020; claims use other seeds.
inline constexpr std::uint64_t kFirstSeed = 4001;

struct Repeat {
  unsigned seeds = 1;  // number of seeds, from `first` on
  bool slowdown = false;
  // Averages::alone of the same scenarios under another policy; nullptr: measure them, if `slowdown` is set.
  const std::vector<std::vector<double>>* alone = nullptr;
  bool bound = false;
  double slow_motion = 1;  // of live runs (LiveOptions)
  std::uint64_t first = kFirstSeed;
  // Called with the number of the seed (from 0) and the run, on several threads. RunOptions::finishes is set then.
  std::function<void(std::size_t, const sim::MeasuredRun&)> inspect{};
};

// Runs one scenario. `seed` counts from 0.
Result<sim::MeasuredRun> measure(Mode mode, const Scenario& scenario, const Repeat& repeat, std::size_t seed = 0);

// `make` builds the scenario for a seed. Simulations run on all cores; the result does not depend on the number of
// cores. Live runs are made one after the other.
Result<Averages> average(Mode mode, const std::function<Scenario(std::uint64_t seed)>& make, const Repeat& repeat);

// For ExperimentResult::device: the description of the mode. Empty for Mode::kFast.
std::string describe(Mode mode, const std::string& live);

// Runs `tasks` on all cores. Returns when all have ended.
void run_all(const std::vector<std::function<void()>>& tasks);

void say(const LabOptions& options, const std::string& line);

// How much smaller `ours` is than `baseline`, in percent.
inline double reduction(double baseline, double ours) {
  return baseline > 0 ? 100 * (1 - ours / baseline) : 0;
}

// A figure with its 95% confidence interval: value +- interval.
struct ValueWithInterval {
  double value = 0;
  std::optional<double> interval{};  // nothing: fewer than three seeds
};
// A figure computed from several seeds, with the interval of the jackknife. `of` computes it without one seed, or from
// all (empty).
using WithoutSeed = std::optional<std::size_t>;
ValueWithInterval jackknife(std::size_t seeds, const std::function<double(WithoutSeed)>& of);
// The sum and the mean of `values`, one per seed.
double sum_of(const std::vector<double>& values, WithoutSeed without = {});
double mean_of(const std::vector<double>& values, WithoutSeed without = {});
// How much smaller the mean of `ours` is than that of `baseline`, in percent, and their ratio. Both have one value per
// seed, the same seeds in the same order. The interval is that of the jackknife.
ValueWithInterval reduction_over_seeds(const std::vector<double>& baseline, const std::vector<double>& ours);
ValueWithInterval ratio_over_seeds(const std::vector<double>& ours, const std::vector<double>& baseline);
// Sets `ours` and the interval.
Claim with(Claim claim, const ValueWithInterval& estimate);

// The servers of the two environments of the sc11 paper. `depth` is the maximum number of batches at the device of a
// server. Files are at random positions within `spread` bytes of a disk.
Scenario sc11_cluster(bool flash, unsigned servers, unsigned depth, Bytes spread);

// Four servers of Grid'5000 with one disk each and Gigabit Ethernet. They have the page cache of Linux: read-ahead of
// 128 KiB, and memory for all data that the tests write. One thread of the server handles a request in 100 us, which is
// our assumption.
Scenario ethernet_disks(unsigned depth, std::uint64_t seed);

}  // namespace tutti::lab
