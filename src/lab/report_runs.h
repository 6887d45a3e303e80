// SPDX-License-Identifier: Apache-2.0
// Converts runs of one scenario to a result for a report.
#pragma once

#include <string>
#include <vector>

#include "lab/experiment.h"
#include "sim/metrics.h"

namespace tutti::lab {

// Megabytes are 10^6 bytes, times are seconds since the start of the run.
Timeline timeline_of(const sim::Scenario& scenario, const std::vector<sim::Activity>& segments, std::string title);

struct RecordedRun {
  sim::Scenario scenario;
  sim::MeasuredRun measured;
};

// There must be at least one run.
Answer answer_of(const std::vector<RecordedRun>& runs);

// One row and one timeline per run, and charts that compare the applications. There must be at least one run. All runs
// are of one scenario, under different policies.
ExperimentResult result_of(const std::vector<RecordedRun>& runs);

}  // namespace tutti::lab
