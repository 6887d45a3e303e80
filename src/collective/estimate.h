// SPDX-License-Identifier: Apache-2.0
// Chooses a plan by its estimated time, for PlanKind::kAuto. Internal.
#pragma once

#include "collective/division.h"

namespace tutti::collective {

struct EstimateInput {
  const PreparedLists& lists;  // with data
  Direction direction;
  const Layout& layout;
  const Options& options;
  bool interleaved;  // the non-overlap condition does not hold
};

// The choice depends on the input only, so all ranks make the same.
Choice cheapest(const EstimateInput& input);

}  // namespace tutti::collective
