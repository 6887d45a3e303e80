// SPDX-License-Identifier: Apache-2.0
// Runs random scenarios (sim/random_scenario.h) under every policy and compares each with fifo.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti::lab {

// What one policy did with one scenario. All ratios are to fifo; below 1 is better.
struct SweepRatios {
  double mean = 1;  // mean phase
  double p99 = 1;   // of the phases
  double makespan = 1;
  double worst_slowdown = 1;  // largest slowdown of a phase against the job alone
  double latest_end = 1;      // largest ratio of a phase's end, counted from the start of its job
};

struct SweepRow {
  std::uint64_t number = 0;           // of the scenario
  bool disk = false;                  // rotating disks; else flash
  double contention = 1;              // mean over phases under fifo of phase / phase alone
  SweepRatios noise{};                // fifo with other random delays of messages
  std::vector<SweepRatios> ratios{};  // by policy
};

struct SweepOptions {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;  // number of the first scenario
  std::uint64_t scenarios = 100;
  std::vector<std::string> policies{};
  std::vector<std::string> assignments{};              // as in sim::Overrides
  std::function<void(std::uint64_t done)> progress{};  // called on several threads, but not at the same time
};

// Uses all cores; the result does not depend on their number. Errors name the scenario.
Result<std::vector<SweepRow>> sweep(const SweepOptions& options);

// One policy on one class of devices.
struct SweepSummary {
  std::string policy;  // "fifo, other delays": the noise
  bool disk = false;
  std::size_t scenarios = 0;
  std::size_t contended = 0;   // contention of at least 1.2
  double contended_mean = 1;   // geometric mean of SweepRatios::mean over those
  double losses = 0;           // share of scenarios in which the mean phase is more than 2% longer
  SweepRatios percentile95{};  // of each ratio
  SweepRatios worst{};
  std::uint64_t worst_scenario = 0;   // with the largest ratio of the mean phase
  std::uint64_t latest_scenario = 0;  // with the largest SweepRatios::latest_end
};

std::vector<SweepSummary> summarize(const std::vector<SweepRow>& rows, const std::vector<std::string>& policies);

}  // namespace tutti::lab
