// SPDX-License-Identifier: Apache-2.0
#include "collective/own_data.h"

#include <algorithm>
#include <numeric>

#include "collective/assemble.h"

namespace tutti::collective {
namespace {

// Sets of targets, joined by the ranks that use several.
class TargetSets {
 public:
  explicit TargetSets(std::size_t targets) : parent_(targets) { std::iota(parent_.begin(), parent_.end(), 0u); }

  std::uint32_t set_of(std::uint32_t target) {
    while (parent_[target] != target) target = parent_[target] = parent_[parent_[target]];
    return target;
  }
  void join(std::uint32_t one, std::uint32_t other) { parent_[set_of(one)] = set_of(other); }

 private:
  std::vector<std::uint32_t> parent_;
};

// The numbers of the targets that hold data of the list.
std::vector<std::uint32_t> targets_of(std::span<const Run> list, const Stripes& stripes) {
  std::vector<bool> seen(stripes.targets().size(), false);
  std::vector<std::uint32_t> found;
  const auto add = [&](std::uint32_t target) {
    if (!seen[target]) found.push_back(target);
    seen[target] = true;
  };
  for (const Run& run : list) {
    if (found.size() == seen.size()) break;
    if (run.length >= stripes.row() && stripes.regular())
      for (std::uint32_t target = 0; target < seen.size(); ++target) add(target);
    else
      stripes.each_target_run({&run, 1}, [&](std::uint32_t target, const Run&) { add(target); });
  }
  return found;
}

}  // namespace

std::vector<Turn> chains(const PreparedLists& lists, const Layout& layout, const PlanContext& context) {
  if (context.choice.kind != PlanKind::kTimed) return {};
  const Stripes stripes(layout);
  TargetSets sets(stripes.targets().size());
  std::vector<bool> used(stripes.targets().size(), false);
  std::vector<std::optional<std::uint32_t>> any(lists.ranks());  // one target of each rank
  for (Rank rank = 0; rank < lists.ranks(); ++rank)
    for (const std::uint32_t target : targets_of(lists.lists[rank], stripes)) {
      if (any[rank]) sets.join(*any[rank], target);
      any[rank] = target;
      used[target] = true;
    }
  std::vector<std::size_t> width(used.size(), 0);  // targets in the set, by its first target
  for (std::uint32_t target = 0; target < used.size(); ++target)
    if (used[target]) ++width[sets.set_of(target)];
  std::vector<std::vector<Rank>> members(used.size());
  std::vector<Turn> turns(lists.ranks());
  for (Rank rank = 0; rank < lists.ranks(); ++rank) {
    turns[rank].delay = context.options.delay;
    if (!any[rank]) continue;
    const std::uint32_t set = sets.set_of(*any[rank]);
    auto& all = members[set];
    if (all.size() >= width[set]) {
      const Rank before = all[all.size() - width[set]];
      turns[rank].after = before;
      turns[before].next = rank;
    }
    all.push_back(rank);
  }
  return turns;
}

RankPlan own_data_plan(const PreparedLists& lists, std::uint64_t row, const PlanContext& context,
                       const std::vector<Turn>& turns, Rank rank) {
  RankPlan plan;
  plan.kind = context.choice.kind;
  plan.nonblocking = context.options.nonblocking;
  plan.in_flight = context.options.in_flight;
  plan.rounds = lists.empty() ? 0 : 1;
  if (!turns.empty()) plan.turn = turns[rank];
  std::vector<Extent> extents;
  each_extent(lists.lists[rank], [&](const Extent& extent) {
    if (!extents.empty() && extents.back().end() == extent.offset)
      extents.back().length += extent.length;
    else
      extents.push_back(extent);
  });
  const auto large = [&](const Extent& extent) { return extent.length >= row; };
  for (auto first = extents.begin(); first != extents.end();) {
    const auto last = large(*first) ? first + 1 : std::find_if(first, extents.end(), large);
    append_requests(plan, plan.requests, {first, last}, {}, context.options.list_io);
    first = last;
  }
  return plan;
}

}  // namespace tutti::collective
