// SPDX-License-Identifier: Apache-2.0
// Estimates the times of plans, for PlanKind::kAuto. Internal.
#pragma once

#include <vector>

#include "collective/division.h"

namespace tutti::collective {

struct EstimateInput {
  const PreparedLists& lists;  // with data
  Direction direction;
  const Layout& layout;
  const Options& options;
  bool interleaved;  // the non-overlap condition does not hold
};

struct Candidate {
  Choice choice{};
  double seconds = 0;
};

// The plans that kAuto chooses from, the fastest first. They depend on the input only, so all ranks have the same.
std::vector<Candidate> candidates(const EstimateInput& input);

}  // namespace tutti::collective
