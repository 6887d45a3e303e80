// SPDX-License-Identifier: Apache-2.0
#include "collective/assemble.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tutti::collective {
namespace {

// Bytes that one rank needs and another requests.
struct Entry {
  std::uint32_t round = 0;
  Rank peer = 0;
  Extent extent{};
};

// The data of one rank: what it needs, by the rank that requests it, and what it requests, by the rank that needs it.
struct Needs {
  std::vector<Entry> own;
  std::vector<Entry> others;  // and its own part of the data it requests
};

constexpr std::uint64_t kMostWindows = 1 << 16;

// The round of each window. If windows are very many, because the file is sparse, only those with data have rounds.
class Rounds {
 public:
  template <typename Division>
  Rounds(const PreparedLists& lists, const Division& division) : count_(division.windows()) {
    if (count_ <= kMostWindows) return;
    for (const auto& list : lists.lists)
      each_owned_range(list, division, [&](const Extent&, const OwnedRange& range) {
        if (windows_.empty() || windows_.back() != range.window) windows_.push_back(range.window);
      });
    std::sort(windows_.begin(), windows_.end());
    windows_.erase(std::unique(windows_.begin(), windows_.end()), windows_.end());
    count_ = windows_.size();
  }
  std::uint32_t round_of(std::uint64_t window) const {
    if (windows_.empty()) return static_cast<std::uint32_t>(window);
    return static_cast<std::uint32_t>(std::lower_bound(windows_.begin(), windows_.end(), window) - windows_.begin());
  }
  std::uint32_t count() const { return static_cast<std::uint32_t>(count_); }

 private:
  std::vector<std::uint64_t> windows_;
  std::uint64_t count_;
};

// Sorts by a small number in linear time; entries of equal number keep their order.
void order(std::vector<Entry>& entries, std::size_t keys, std::uint32_t Entry::*key) {
  const auto before = [&](const Entry& a, const Entry& b) { return a.*key < b.*key; };
  if (std::is_sorted(entries.begin(), entries.end(), before)) return;
  if (keys > 4 * entries.size()) return std::stable_sort(entries.begin(), entries.end(), before);
  std::vector<std::size_t> next(keys + 1, 0);
  for (const Entry& entry : entries) ++next[entry.*key + 1];
  for (std::size_t i = 1; i <= keys; ++i) next[i] += next[i - 1];
  std::vector<Entry> ordered(entries.size());
  for (const Entry& entry : entries) ordered[next[entry.*key]++] = entry;
  entries = std::move(ordered);
}

// Appends an extent to the slice at the end of the plan's extents.
void append(RankPlan& plan, Slice& slice, const Extent& extent) {
  if (slice.count > 0 && plan.extents.back().end() == extent.offset) {
    plan.extents.back().length += extent.length;
  } else {
    plan.extents.push_back(extent);
    ++slice.count;
  }
}

class Assembly {
 public:
  Assembly(const PlanContext& context, const Rounds& rounds, std::size_t ranks)
      : context_(context), rounds_(rounds), ranks_(ranks) {}

  RankPlan finish(Rank rank, Needs needs, std::optional<TargetId> target, const StartRule& rule) const {
    RankPlan plan;
    plan.kind = context_.choice.kind;
    plan.read_form = context_.choice.read_form;
    plan.nonblocking = context_.options.nonblocking;
    plan.in_flight = context_.options.in_flight;
    plan.rounds = rounds_.count();
    plan.start_rule = rule;
    sort(needs.own);
    sort(needs.others);
    plan.extents.reserve(needs.own.size() + 2 * needs.others.size());
    if (plan.read_form == ReadForm::kDirect) {
      read_directly(plan, needs.own, rank);
      std::erase_if(needs.own, [&](const Entry& entry) { return entry.peer != rank; });
      plan.sends = plan.receives = exchanges(plan, needs.own);
    } else {
      const bool write = context_.direction == Direction::kWrite;
      plan.sends = exchanges(plan, write ? needs.own : needs.others);
      plan.receives = exchanges(plan, write ? needs.others : needs.own);
    }
    request(plan, needs.others, target);
    return plan;
  }

 private:
  // By round, then peer, then offset.
  void sort(std::vector<Entry>& entries) const {
    order(entries, ranks_, &Entry::peer);
    order(entries, rounds_.count(), &Entry::round);
  }

  static std::vector<Exchange> exchanges(RankPlan& plan, std::span<const Entry> entries) {
    std::vector<Exchange> result;
    for (const Entry& entry : entries) {
      if (result.empty() || result.back().round != entry.round || result.back().peer != entry.peer)
        result.push_back({entry.round, entry.peer, {plan.extents.size(), 0}});
      append(plan, result.back().extents, entry.extent);
    }
    return result;
  }

  // Calls visit(round, extents) with the ascending, joined extents of each round.
  template <typename Visit>
  void each_round(std::span<const Entry> entries, std::uint64_t gap, Visit&& visit) const {
    std::vector<Extent> extents;
    for (std::size_t first = 0; first < entries.size();) {
      std::size_t last = first;
      extents.clear();
      for (; last < entries.size() && entries[last].round == entries[first].round; ++last)
        extents.push_back(entries[last].extent);
      unite(extents, gap);
      visit(entries[first].round, extents);
      first = last;
    }
  }

  static void unite(std::vector<Extent>& extents, std::uint64_t gap) {
    const auto before = [](const Extent& a, const Extent& b) { return a.offset < b.offset; };
    if (!std::is_sorted(extents.begin(), extents.end(), before)) std::sort(extents.begin(), extents.end(), before);
    std::size_t size = 0;
    for (const Extent& extent : extents) {
      Extent* last = size > 0 ? &extents[size - 1] : nullptr;
      if (last != nullptr && (extent.offset <= last->end() || extent.offset - last->end() <= gap))
        last->length = std::max(last->end(), extent.end()) - last->offset;
      else
        extents[size++] = extent;
    }
    extents.resize(size);
  }

  void request(RankPlan& plan, std::span<const Entry> entries, std::optional<TargetId> target) const {
    const bool sieve = context_.direction == Direction::kRead && context_.choice.kind == PlanKind::kTwoPhase;
    each_round(entries, sieve ? context_.options.sieve_gap.count() : 0,
               [&](std::uint32_t round, std::span<const Extent> extents) {
                 append_requests(plan, plan.requests, extents, {round, target, {}}, context_.options.list_io);
               });
  }

  void read_directly(RankPlan& plan, std::span<const Entry> own, Rank rank) const {
    std::vector<Entry> others;
    std::copy_if(own.begin(), own.end(), std::back_inserter(others), [&](const Entry& e) { return e.peer != rank; });
    each_round(others, 0, [&](std::uint32_t round, std::span<const Extent> extents) {
      append_requests(plan, plan.direct, extents, {round, {}, {}}, context_.options.list_io);
    });
  }

  const PlanContext& context_;
  const Rounds& rounds_;
  std::size_t ranks_;
};

}  // namespace

void append_requests(RankPlan& plan, std::vector<IoRequest>& requests, std::span<const Extent> extents,
                     const IoRequest& form, std::uint32_t list_io) {
  for (std::size_t first = 0; first < extents.size(); first += list_io) {
    const auto part = extents.subspan(first, std::min<std::size_t>(list_io, extents.size() - first));
    requests.push_back({form.round, form.target, {plan.extents.size(), part.size()}});
    plan.extents.insert(plan.extents.end(), part.begin(), part.end());
  }
}

template <typename Division>
RankPlan assemble_one(const PreparedLists& lists, const Division& division, const PlanContext& context, Rank rank) {
  const Rounds rounds(lists, division);
  Needs needs;
  division.each_owned(lists, rank, [&](Rank peer, const Extent& extent, std::uint64_t window) {
    needs.others.push_back({rounds.round_of(window), peer, extent});
  });
  for (auto first = needs.others.begin(); first != needs.others.end();) {
    const auto last = std::find_if(first, needs.others.end(), [&](const Entry& e) { return e.peer != first->peer; });
    const auto before = [](const Entry& a, const Entry& b) { return a.extent.offset < b.extent.offset; };
    if (!std::is_sorted(first, last, before)) std::sort(first, last, before);
    first = last;
  }
  each_owned_range(lists.lists[rank], division, [&](const Extent& extent, const OwnedRange& range) {
    needs.own.push_back({rounds.round_of(range.window), range.owner, extent});
  });
  return Assembly(context, rounds, lists.ranks())
      .finish(rank, std::move(needs), division.target_of(rank), division.start_rule_of(rank, context.options.delay));
}

template <typename Division>
std::vector<RankPlan> assemble_all(const PreparedLists& lists, const Division& division, const PlanContext& context) {
  const Rounds rounds(lists, division);
  std::vector<Needs> needs(lists.ranks());
  for (Rank peer = 0; peer < lists.ranks(); ++peer)
    each_owned_range(lists.lists[peer], division, [&](const Extent& extent, const OwnedRange& range) {
      const std::uint32_t round = rounds.round_of(range.window);
      needs[range.owner].others.push_back({round, peer, extent});
      needs[peer].own.push_back({round, range.owner, extent});
    });
  const Assembly assembly(context, rounds, lists.ranks());
  std::vector<RankPlan> plans;
  for (Rank rank = 0; rank < lists.ranks(); ++rank)
    plans.push_back(assembly.finish(rank, std::exchange(needs[rank], {}), division.target_of(rank),
                                    division.start_rule_of(rank, context.options.delay)));
  return plans;
}

template RankPlan assemble_one(const PreparedLists&, const FileDomains&, const PlanContext&, Rank);
template RankPlan assemble_one(const PreparedLists&, const TargetAgents&, const PlanContext&, Rank);
template std::vector<RankPlan> assemble_all(const PreparedLists&, const FileDomains&, const PlanContext&);
template std::vector<RankPlan> assemble_all(const PreparedLists&, const TargetAgents&, const PlanContext&);

}  // namespace tutti::collective
