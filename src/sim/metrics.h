// SPDX-License-Identifier: Apache-2.0
// Figures out of a run. Times are in seconds.
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
  double phase_deviation = 0;  // standard deviation of its phases as a share of their mean
  double alone = 0;            // mean phase when it runs alone; 0: not asked for
  double slowdown = 0;         // mean of phase over alone
  double end = 0;
  double mebibytes = 0;
};

struct Metrics {
  Distribution operation;  // completion: from issue to the last byte
  Distribution phase;
  std::uint64_t failed_operations = 0;
  double first_server = 0;     // mean time to the first server's finish of an operation
  double last_server = 0;      // and to the last's
  double last_over_first = 0;  // mean of their ratio: the sc11 paper's max/min
  double makespan = 0;
  double bandwidth = 0;        // bytes per second over the makespan
  double phase_deviation = 0;  // mean over applications
  double io_time = 0;          // mean over applications of the sum of their phases
  double slowdown = 0;         // mean over phases; 0: not asked for
  double worst_slowdown = 0;
  double fairness = 0;    // Jain's index of the applications' 1/slowdown; 0: not asked for
  double idle = 0;        // share of the makespan in which a server's device had nothing to do
  double mean_batch = 0;  // pieces per batch
  double bound = 0;       // least possible mean phase for these demands and beginnings; 0: not asked for
  std::string bound_kind;
  std::vector<ApplicationMetrics> applications;
};

struct MeasureOptions {
  bool slowdown = true;  // runs every distinct application alone, under fifo
  bool bound = true;     // keeps the demands of all phases
  std::function<void(Duration, std::uint64_t)> progress{};
};

struct Measured {
  Outcome outcome;
  Metrics metrics;
};

// Runs the scenario and works out its figures. A scenario that cannot finish is kTimeout, with who waits for whom.
Result<Measured> measure(const Scenario& scenario, const MeasureOptions& options = {});

}  // namespace tutti::sim
