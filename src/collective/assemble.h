// SPDX-License-Identifier: Apache-2.0
// Makes plans with exchanges from a division of the file (division.h). Internal.
#pragma once

#include <vector>

#include "collective/division.h"

namespace tutti::collective {

// For Division = FileDomains and TargetAgents. The lists must have data.
template <typename Division>
RankPlan assemble_one(const PreparedLists& lists, const Division& division, const PlanContext& context, Rank rank);
template <typename Division>
std::vector<RankPlan> assemble_all(const PreparedLists& lists, const Division& division, const PlanContext& context);

// Appends requests of at most `list_io` extents. `extents` ascend; adjoining ones were joined.
void append_requests(RankPlan& plan, std::vector<IoRequest>& requests, std::span<const Extent> extents,
                     const IoRequest& form, std::uint32_t list_io);

}  // namespace tutti::collective
