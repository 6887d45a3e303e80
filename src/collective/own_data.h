// SPDX-License-Identifier: Apache-2.0
// Plans in which every rank requests its own bytes: kIndependent and kTimed. Internal.
#pragma once

#include <vector>

#include "collective/division.h"

namespace tutti::collective {

// The start rules of all ranks with kTimed (section 3.4); no entries with other plans.
//
// Ranks that share targets, directly or through other ranks, form a set. Rank number i of a set of n targets, by
// ascending rank, waits for rank number i - n: n ranks request at a time.
std::vector<StartRule> chains(const PreparedLists& lists, const Layout& layout, const PlanContext& context);

// RankPlan::start of all ranks: a rank begins when its targets have served the first requests of the ranks before it in
// the file. No entries if ranks begin at once.
std::vector<Duration> starts(const PreparedLists& lists, const Layout& layout, const PlanContext& context);

// An extent of at least `row` bytes, a row of stripes, is a request of its own: it keeps all targets busy, and a longer
// list would mix with those of other ranks.
RankPlan own_data_plan(const PreparedLists& lists, std::uint64_t row, const PlanContext& context,
                       const std::vector<StartRule>& rules, const std::vector<Duration>& begins, Rank rank);

}  // namespace tutti::collective
