// SPDX-License-Identifier: Apache-2.0
// Metrics of a run. Times are in seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace tutti::sim {

struct Distribution {
  std::uint64_t count = 0;
  double mean = 0;
  double median = 0;
  double p99 = 0;
  double max = 0;
  double deviation = 0;  // standard deviation
};

Distribution distribution(std::vector<double> values);

struct ApplicationMetrics {
  std::string name;
  std::uint64_t phases = 0;
  double mean_phase = 0;
  double phase_deviation = 0;  // standard deviation of its phases, relative to their mean
  double alone = 0;            // mean phase when it runs alone; 0: not computed
  double slowdown = 0;         // mean of phase / alone
  double end = 0;
  double mebibytes = 0;
};

struct Metrics {
  Distribution operation;  // completion: from issue to the last byte
  Distribution phase;
  std::uint64_t failed_operations = 0;
  double first_server = 0;     // mean time until the first server has served its part of an operation; 0: unknown
  double last_server = 0;      // the same for the last server
  double last_over_first = 0;  // mean ratio of the two: max/min in the sc11 paper
  double makespan = 0;
  double bandwidth = 0;        // bytes per second over the makespan
  double phase_deviation = 0;  // mean over applications
  double io_time = 0;          // mean over applications of the sum of their phases
  double slowdown = 0;         // mean over phases; 0: not computed
  double worst_slowdown = 0;
  double fairness = 0;    // Jain's index of the applications' 1/slowdown; 0: not computed
  double idle = 0;        // share of the makespan in which a server's device was idle
  double mean_batch = 0;  // requests per batch
  double bound = 0;       // lower bound of the mean phase for these demands and start times; 0: not computed, or none
  std::string bound_kind;
  std::vector<ApplicationMetrics> applications;
};

struct MeasureOptions {
  bool full = false;     // RunOptions::full, also for the runs of single applications
  bool slowdown = true;  // also run every distinct application alone, under fifo
  // ApplicationMetrics::alone of the same applications under another policy, used instead of such runs.
  std::vector<double> alone{};
  bool bound = true;      // compute the bound; keeps the demands of all phases in memory
  bool finishes = false;  // RunOptions::finishes
  std::function<void(Duration, std::uint64_t)> progress{};
  // Used instead of run(), if set.
  std::function<Result<Outcome>(const Scenario&, const RunOptions&)> run{};
};

struct MeasuredRun {
  Outcome outcome;
  Metrics metrics;
};

// Runs the scenario and computes its metrics. kTimeout: it cannot finish; the message lists which rank waits for what.
Result<MeasuredRun> measure(const Scenario& scenario, const MeasureOptions& options = {});

}  // namespace tutti::sim
