// SPDX-License-Identifier: Apache-2.0
// Runs of one scenario as a result that a report can show.
#pragma once

#include <string>
#include <vector>

#include "lab/experiment.h"
#include "sim/metrics.h"

namespace tutti::lab {

// Megabytes are 10^6 bytes, times are seconds since the start of the run.
Timeline timeline_of(const sim::Scenario& scenario, const sim::Outcome& outcome, std::string title);

struct Run {
  sim::Scenario scenario;
  sim::Measured measured;
};

// One row and one timeline per run, and charts of the applications under each of them. At least one run; all of them
// are of one scenario, under different policies.
ExperimentResult result_of(const std::vector<Run>& runs);

}  // namespace tutti::lab
