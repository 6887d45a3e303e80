// SPDX-License-Identifier: Apache-2.0
// The part of `tutti sim` that runs a scenario with several settings, policies and seeds: one row for each combination
// of settings and policy, with means over the seeds.
#pragma once

#include <string>
#include <vector>

#include "sim/metrics.h"
#include "sim/variants.h"

namespace tutti::cli {

struct Study {
  std::string file;
  std::vector<sim::Variant> variants{{}};
  std::vector<std::string> policies;  // empty: that of the variant or of the scenario
  sim::Overrides overrides;           // its seed is the first one
  unsigned seeds = 1;
  sim::MeasureOptions how;
  bool one_at_a_time = false;  // else on all cores
  bool json = false;
  bool csv = false;
  std::string html;     // empty: no page
  std::string command;  // of the page
};

// Runs and prints it. Returns the exit status.
int run_study(const Study& study);

}  // namespace tutti::cli
