// SPDX-License-Identifier: Apache-2.0
// Which rank requests a byte of the file, and when: the file domains of two-phase I/O, the agents of resonant I/O.
// Internal.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "base/prefetch.h"
#include "collective/plan.h"

namespace tutti::collective {

// What was decided for all ranks.
struct Choice {
  PlanKind kind = PlanKind::kIndependent;  // never kPaper, kAuto
  ReadForm read_form = ReadForm::kExchange;
  bool ordered = false;  // kIndependent: ranks begin one after the other (RankPlan::start)
};

struct PlanContext {
  Direction direction;
  Choice choice;
  const Options& options;
};

// The lists of all ranks, ascending and without overlap within a rank. No run is empty.
struct PreparedLists {
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;  // 0: the rank has no data
    std::uint64_t bytes = 0;
    std::uint64_t extents = 0;
  };
  std::vector<std::span<const ExtentRun>> lists;  // by rank
  std::vector<Range> ranges;                      // by rank
  std::vector<AccessList> copies;                 // of lists that were not ascending; `lists` refers to them
  std::uint64_t begin = 0;                        // of all data
  std::uint64_t end = 0;                          // 0: no rank has data

  std::size_t ranks() const { return lists.size(); }
  bool empty() const { return end == 0; }
};

// The result refers to `lists`. kInvalid: a list is wrong, or overlaps itself in a write.
Result<PreparedLists> prepare(std::span<const AccessList> lists, Direction direction);

// x / divisor. Most divisors are powers of two; a shift is several times as fast as a division.
class Divider {
 public:
  explicit Divider(std::uint64_t divisor = 1)
      : divisor_(divisor), shift_(std::has_single_bit(divisor) ? std::countr_zero(divisor) : -1) {}
  std::uint64_t quotient(std::uint64_t value) const { return shift_ >= 0 ? value >> shift_ : value / divisor_; }
  std::uint64_t remainder(std::uint64_t value) const { return value - quotient(value) * divisor_; }
  std::uint64_t divisor() const { return divisor_; }

 private:
  std::uint64_t divisor_;
  int shift_;
};

// Stripes of a layout, by target number: an index into targets(), which has each target once.
class Stripes {
 public:
  explicit Stripes(const Layout& layout);

  struct Stripe {
    std::uint32_t target = 0;  // target number
    std::uint64_t end = 0;     // of the stripe, in the file
  };
  Stripe at(std::uint64_t offset) const;
  const std::vector<TargetId>& targets() const { return targets_; }
  bool regular() const { return periodic_; }  // every row has a stripe on each target
  std::uint64_t row() const { return row_; }  // bytes of one stripe on every column; at most 2^62

  // Calls visit(target number, run) for the list, cut at the ends of stripes. All extents of such a run are on one
  // target. A regular list costs time in proportion to its runs, not to its extents. The runs are in any order.
  template <typename Visit>
  void each_target_run(std::span<const ExtentRun> list, Visit&& visit) const;

 private:
  Divider size_, count_, rows_;  // stripe size; columns; stripes of an object, 0 becomes 1
  bool objects_end_;             // objects have a limited size
  bool periodic_;                // stripes that are a row apart are on the same target
  std::uint64_t row_;
  std::vector<std::uint32_t> number_;  // object number modulo its size -> target number
  std::vector<TargetId> targets_;
};

// A part of the file that one rank requests in one window. Windows are numbered; only those with data become rounds.
struct OwnedRange {
  Rank owner = 0;
  std::uint64_t window = 0;
  std::uint64_t end = 0;  // in the file
};

// Even contiguous domains over [begin, end), as ROMIO's ADIOI_Calc_file_domains.
class FileDomains {
 public:
  FileDomains(const PreparedLists& lists, const Options& options);
  OwnedRange at(std::uint64_t offset) const;
  std::uint64_t windows() const { return windows_; }
  // Calls visit(peer, extent, window) for the parts of the lists that `rank` requests: by peer, within it in any order.
  template <typename Visit>
  void each_owned(const PreparedLists& lists, Rank rank, Visit&& visit) const;
  std::optional<TargetId> target_of(Rank) const { return {}; }
  StartRule start_rule_of(Rank, Duration) const { return {}; }

 private:
  // The same for one list.
  template <typename Visit>
  void each_in_domain(std::span<const ExtentRun> list, Rank rank, Visit&& visit) const;

  std::uint64_t begin_;
  std::uint32_t aggregators_;
  Divider size_;
  Divider buffer_;
  std::uint64_t windows_ = 0;
};

// Options::agents_per_target, with the default filled in.
std::uint32_t agents_per_target(const Options& options, std::size_t ranks, std::size_t targets);

// The agents of targets. A target has `agents` agents; each requests one part of every window, by ascending offset.
class TargetAgents {
 public:
  // Reads all lists once.
  TargetAgents(const PreparedLists& lists, const Layout& layout, const Options& options);
  OwnedRange at(std::uint64_t offset) const;
  std::uint64_t windows() const { return windows_; }
  // Calls visit(peer, extent, window) for the parts of the lists that `rank` requests: by peer, within it in any order.
  template <typename Visit>
  void each_owned(const PreparedLists& lists, Rank rank, Visit&& visit) const;
  // The target of an agent with a single target.
  std::optional<TargetId> target_of(Rank rank) const;
  // In each round the agents of a target request one after the other.
  StartRule start_rule_of(Rank rank, Duration delay) const;

 private:
  // One part of one window, kept between calls: neighbouring extents are mostly in the same, and divisions are slow.
  struct Part {
    std::uint64_t begin = 0, end = 0;  // in the file
    std::uint64_t window = 0;
    std::size_t slot = 0;  // of the first target; those of the other targets follow
  };
  void find(Part& part, std::uint64_t offset) const {
    if (offset >= part.begin && offset < part.end) return;
    part.window = window_.quotient(offset - begin_);
    const std::uint64_t start = begin_ + part.window * window_.divisor();
    const std::uint64_t number = part_.quotient(offset - start);
    part.slot = number * stripes_.targets().size();
    part.begin = start + number * part_.divisor();
    part.end = part.begin + part_.divisor();
  }
  // Adds the bytes of the list to those of its slots, and marks its runs.
  void count(std::span<const ExtentRun> list, std::span<std::uint64_t> bytes);
  // Calls visit(slot, window, run) for the run, cut at the ends of stripes and parts. The runs are in any order. It is
  // not inline, so that loops that seldom call it stay short.
  template <typename Visit>
  [[gnu::noinline]] void cut(const ExtentRun& run, Part& part, Visit&& visit) const;
  void set_windows(const PreparedLists& lists, const Layout& layout, const Options& options);
  void choose_agents(const PreparedLists& lists);

  Stripes stripes_;
  std::uint32_t agents_ = 1;                        // per target
  std::uint64_t begin_ = 0;                         // of window 0
  Divider window_, part_;                           // sizes in the file
  std::vector<Rank> owner_;                         // by slot: part * targets + target
  std::vector<bool> used_;                          // by slot: it has data
  std::vector<std::vector<std::size_t>> slots_of_;  // by rank
  // Of every run of all lists: the last byte of its slot, or kSeveral if it may be in several. With it, agents find the
  // runs that they need without a second look at all lists, which are larger than the processor's caches.
  std::vector<std::uint8_t> marks_;
  static constexpr std::uint8_t kSeveral = 255;
  std::uint64_t windows_ = 0;
};

// Calls visit(extent) for each extent of the list.
template <typename Visit>
void each_extent(std::span<const ExtentRun> list, Visit&& visit) {
  for (const ExtentRun& run : list)
    for (std::uint64_t i = 0; i < run.count; ++i) visit(run.at(i));
}

// Calls visit(extent, range) for the extents of the list, cut at the ends of owned ranges.
template <typename Division, typename Visit>
void each_owned_range(std::span<const ExtentRun> list, const Division& division, Visit&& visit) {
  each_extent(list, [&](const Extent& extent) {
    for (std::uint64_t from = extent.offset; from < extent.end();) {
      const auto range = division.at(from);
      const std::uint64_t to = std::min(extent.end(), range.end);
      visit(Extent{from, to - from}, range);
      from = to;
    }
  });
}

// In the header: it is called for every extent.
inline Stripes::Stripe Stripes::at(std::uint64_t offset) const {
  if (targets_.size() == 1) return {0, std::uint64_t{1} << 63};
  const std::uint64_t stripe = size_.quotient(offset);
  std::uint64_t object = count_.remainder(stripe);
  if (objects_end_) object += rows_.quotient(count_.quotient(stripe)) * count_.divisor();
  if (object >= number_.size()) object %= number_.size();
  return {number_[object], (stripe + 1) * size_.divisor()};
}

template <typename Visit>
void Stripes::each_target_run(std::span<const ExtentRun> list, Visit&& visit) const {
  for (const ExtentRun& run : list) {
    // Every `classes`-th extent of the run is at the same position of a row.
    std::uint64_t classes = run.count;
    if (run.count > 1 && periodic_) classes = std::min(run.count, row_ / std::gcd(run.stride, row_));
    for (std::uint64_t i = 0; i < classes; ++i) {
      const Extent first = run.at(i);
      const std::uint64_t count = (run.count - i + classes - 1) / classes;
      for (std::uint64_t from = first.offset; from < first.end();) {
        const Stripe stripe = at(from);
        const std::uint64_t to = std::min(first.end(), stripe.end);
        visit(stripe.target, ExtentRun{from, to - from, run.stride * classes, count});
        from = to;
      }
    }
  }
}

template <typename Visit>
void FileDomains::each_owned(const PreparedLists& lists, Rank rank, Visit&& visit) const {
  if (rank >= aggregators_) return;  // its domain would begin after 2^64
  for (Rank peer = 0; peer < lists.ranks(); ++peer)
    each_in_domain(lists.lists[peer], rank,
                   [&](const Extent& extent, std::uint64_t window) { visit(peer, extent, window); });
}

template <typename Visit>
void FileDomains::each_in_domain(std::span<const ExtentRun> list, Rank rank, Visit&& visit) const {
  const std::uint64_t begin = begin_ + rank * size_.divisor();
  const std::uint64_t end = begin + size_.divisor();
  const auto ends_before = [](const ExtentRun& run, std::uint64_t offset) {
    return run.at(run.count - 1).end() <= offset;
  };
  for (auto next = std::lower_bound(list.begin(), list.end(), begin, ends_before); next != list.end(); ++next) {
    const ExtentRun& run = *next;
    if (run.offset >= end) break;
    const std::uint64_t stride = run.count == 1 ? 1 : run.stride;
    std::uint64_t i = run.at(0).end() > begin ? 0 : std::min(run.count - 1, (begin - run.offset) / stride);
    for (; i < run.count && run.at(i).offset < end; ++i) {
      const Extent extent = run.at(i);
      for (std::uint64_t from = std::max(extent.offset, begin); from < std::min(extent.end(), end);) {
        const OwnedRange range = at(from);
        const std::uint64_t to = std::min(extent.end(), range.end);
        visit(Extent{from, to - from}, range.window);
        from = to;
      }
    }
  }
}

template <typename Visit>
void TargetAgents::cut(const ExtentRun& whole, Part& part, Visit&& visit) const {
  stripes_.each_target_run({&whole, 1}, [&](std::uint32_t target, const ExtentRun& run) {
    for (std::uint64_t i = 0; i < run.count;) {
      const Extent first = run.at(i);
      find(part, first.offset);
      const std::uint64_t room = part.end - first.offset;
      std::uint64_t count = 1;
      if (first.length <= room && run.count - i > 1)
        count = std::min(run.count - i, (room - first.length) / run.stride + 1);
      visit(part.slot + target, part.window, ExtentRun{first.offset, std::min(room, run.length), run.stride, count});
      // Extents of files on one target are not cut at stripes, and may cross the ends of parts.
      while (part.end < first.end()) {
        find(part, part.end);
        const std::uint64_t length = std::min(first.end(), part.end) - part.begin;
        visit(part.slot + target, part.window, ExtentRun{part.begin, length, 0, 1});
      }
      i += count;
    }
  });
}

template <typename Visit>
void TargetAgents::each_owned(const PreparedLists& lists, Rank rank, Visit&& visit) const {
  if (slots_of_[rank].empty()) return;
  std::array<bool, 256> wanted{};
  wanted[kSeveral] = true;
  for (const std::size_t number : slots_of_[rank]) wanted[number % wanted.size()] = true;
  auto mark = marks_.begin();
  Part part;
  std::vector<const ExtentRun*> found;
  for (Rank peer = 0; peer < lists.ranks(); ++peer) {
    found.resize(lists.lists[peer].size());
    auto last = found.begin();
    for (const ExtentRun& run : lists.lists[peer]) {
      *last = &run;
      last += wanted[*mark++] ? 1 : 0;  // not a branch, which could not be predicted
    }
    std::for_each(found.begin(), last, [](const ExtentRun* run) { prefetch_line(run); });
    std::for_each(found.begin(), last, [&](const ExtentRun* run) {
      cut(*run, part, [&](std::size_t number, std::uint64_t window, const ExtentRun& piece) {
        if (owner_[number] != rank) return;
        for (std::uint64_t i = 0; i < piece.count; ++i) visit(peer, piece.at(i), window);
      });
    });
  }
}

}  // namespace tutti::collective
