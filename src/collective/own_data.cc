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
std::vector<std::uint32_t> targets_of(std::span<const ExtentRun> list, const Stripes& stripes) {
  const std::size_t targets = stripes.targets().size();
  std::vector<char> seen(targets, false);
  std::vector<std::uint32_t> found;
  const auto add = [&](std::uint32_t target) {
    if (seen[target]) return;
    seen[target] = true;
    found.push_back(target);
  };
  for (const ExtentRun& run : list) {
    if (found.size() == targets) break;
    const Stripes::Stripe first = stripes.at(run.offset);
    if (run.count == 1 && run.offset + run.length <= first.end)  // as most runs of irregular lists
      add(first.target);
    else if (run.length >= stripes.row() && stripes.regular())
      for (std::uint32_t target = 0; target < targets; ++target) add(target);
    else
      stripes.each_target_run({&run, 1}, [&](std::uint32_t target, const ExtentRun&) { add(target); });
  }
  return found;
}

// As own_data_plan() makes it, but for extents that adjoin.
AccessList first_request(std::span<const ExtentRun> list, std::uint64_t row, std::uint64_t list_io) {
  AccessList result;
  for (ExtentRun run : list) {
    if (list_io == 0 || (run.length >= row && !result.empty())) break;
    run.count = run.length >= row ? 1 : std::min(run.count, list_io);
    list_io -= run.count;
    result.push_back(run);
    if (run.length >= row) break;
  }
  return result;
}

}  // namespace

std::vector<StartRule> chains(const PreparedLists& lists, const Layout& layout, const PlanContext& context) {
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
  std::vector<StartRule> rules(lists.ranks());
  for (Rank rank = 0; rank < lists.ranks(); ++rank) {
    rules[rank].delay = context.options.delay;
    if (!any[rank]) continue;
    const std::uint32_t set = sets.set_of(*any[rank]);
    auto& all = members[set];
    if (all.size() >= width[set]) {
      const Rank before = all[all.size() - width[set]];
      rules[rank].after = before;
      rules[before].next = rank;
    }
    all.push_back(rank);
  }
  return rules;
}

std::vector<Duration> starts(const PreparedLists& lists, const Layout& layout, const PlanContext& context) {
  if (!context.choice.ordered) return {};
  const Stripes stripes(layout);
  std::vector<Rank> order(lists.ranks());
  std::iota(order.begin(), order.end(), 0u);
  const auto before = [&](Rank a, Rank b) { return lists.ranges[a].begin < lists.ranges[b].begin; };
  std::stable_sort(order.begin(), order.end(), before);
  std::vector<double> busy(stripes.targets().size(), 0);  // seconds, until the target has served the ranks so far
  std::vector<Duration> result(lists.ranks());
  for (const Rank rank : order) {
    std::vector<std::pair<std::uint32_t, double>> parts;  // of the first request: target, seconds
    for (const ExtentRun& run : first_request(lists.lists[rank], stripes.row(), context.options.list_io))
      stripes.each_target_run({&run, 1}, [&](std::uint32_t target, const ExtentRun& part) {
        const double bytes = static_cast<double>(part.length) * static_cast<double>(part.count);
        parts.emplace_back(target, bytes / context.options.device.bandwidth);
      });
    double start = 0;
    for (const auto& [target, time] : parts) start = std::max(start, busy[target]);
    for (const auto& [target, time] : parts) busy[target] = std::max(busy[target], start) + time;
    result[rank] = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(start));
  }
  return result;
}

RankPlan own_data_plan(const PreparedLists& lists, std::uint64_t row, const PlanContext& context,
                       const std::vector<StartRule>& rules, const std::vector<Duration>& begins, Rank rank) {
  RankPlan plan;
  plan.kind = context.choice.kind;
  plan.nonblocking = context.options.nonblocking;
  plan.in_flight = context.options.in_flight;
  plan.rounds = lists.empty() ? 0 : 1;
  if (!rules.empty()) plan.start_rule = rules[rank];
  if (!begins.empty()) plan.start = begins[rank];
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
