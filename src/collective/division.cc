// SPDX-License-Identifier: Apache-2.0
#include "collective/division.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace tutti::collective {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;
constexpr std::uint64_t kFileEnd = std::uint64_t{1} << 63;

std::uint64_t product(std::uint64_t value, std::uint64_t factor) {
  std::uint64_t result = 0;
  return __builtin_mul_overflow(value, factor, &result) ? kLargest : std::min(result, kLargest);
}

std::uint64_t quotient_up(std::uint64_t value, std::uint64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// True if the list passes check(), no run is empty and the extents ascend without overlap, which is usual. One pass:
// lists of many ranks are larger than the processor's caches.
bool usable_as_it_is(const AccessList& list, PreparedLists::Range& range) {
  range = {.begin = list.empty() ? 0 : list.front().offset};
  for (const Run& run : list) {
    if (run.length == 0 || run.count == 0 || run.offset < range.end) return false;
    if (run.offset > kFileEnd || run.length > kFileEnd - run.offset) return false;
    std::uint64_t last = run.offset;
    if (run.count > 1) {
      if (run.stride < run.length || run.stride > (kFileEnd - run.offset - run.length) / (run.count - 1)) return false;
      last += run.stride * (run.count - 1);
    }
    range.end = last + run.length;
    range.bytes += run.length * run.count;
    range.extents += run.count;
  }
  return range.extents <= kMostExtents;
}

}  // namespace

Result<PreparedLists> prepare(std::span<const AccessList> lists, Direction direction) {
  PreparedLists prepared;
  prepared.lists.reserve(lists.size());
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    const AccessList& list = lists[rank];
    PreparedLists::Range range;
    if (usable_as_it_is(list, range)) {
      prepared.lists.emplace_back(list);
    } else {
      if (auto checked = check(list); !checked)
        return fail(checked.error().code, fmt::format("access list of rank {}: {}", rank, checked.error().message));
      const std::uint64_t bytes = bytes_of(list);
      prepared.copies.push_back(sorted(list));
      prepared.lists.emplace_back(prepared.copies.back());
      usable_as_it_is(prepared.copies.back(), range);
      if (direction == Direction::kWrite && range.bytes != bytes)
        return fail(ErrorCode::kInvalid,
                    fmt::format("access list of rank {}: its extents overlap; a write may have each byte once", rank));
    }
    prepared.ranges.push_back(range);
    if (range.end == 0) continue;
    prepared.begin = prepared.empty() ? range.begin : std::min(prepared.begin, range.begin);
    prepared.end = std::max(prepared.end, range.end);
  }
  return prepared;
}

Stripes::Stripes(const Layout& layout)
    : size_(layout.stripe_size.count()),
      count_(layout.stripe_count),
      rows_(std::max<std::uint64_t>(1, layout.object_size.count() / layout.stripe_size.count())),
      objects_end_(layout.object_size.count() > 0),
      periodic_(!objects_end_ && product(layout.stripe_size.count(), layout.stripe_count) < kLargest),
      row_(product(layout.stripe_size.count(), layout.stripe_count)),
      targets_(layout.targets) {
  // Without an end of objects only the first `stripe_count` objects exist.
  const std::size_t objects = objects_end_ ? targets_.size() : std::min<std::size_t>(targets_.size(), count_.divisor());
  targets_.resize(objects);
  std::sort(targets_.begin(), targets_.end());
  targets_.erase(std::unique(targets_.begin(), targets_.end()), targets_.end());
  for (const TargetId target : layout.targets) {
    const auto found = std::lower_bound(targets_.begin(), targets_.end(), target);
    number_.push_back(static_cast<std::uint32_t>(found - targets_.begin()));
  }
}

FileDomains::FileDomains(const PreparedLists& lists, const Options& options) : begin_(lists.begin) {
  const auto ranks = static_cast<std::uint32_t>(lists.ranks());
  const std::uint32_t aggregators = options.aggregators == 0 ? ranks : std::min(options.aggregators, ranks);
  size_ = Divider(quotient_up(lists.end - lists.begin, aggregators));
  buffer_ = Divider(options.buffer.count());
  windows_ = quotient_up(size_.divisor(), buffer_.divisor());
}

Share FileDomains::at(std::uint64_t offset) const {
  const std::uint64_t domain = size_.quotient(offset - begin_);
  const std::uint64_t start = begin_ + domain * size_.divisor();
  const std::uint64_t window = buffer_.quotient(offset - start);
  const std::uint64_t window_end = start + (window + 1) * buffer_.divisor();
  return {static_cast<Rank>(domain), window, std::min(start + size_.divisor(), window_end)};
}

std::uint32_t agents_per_target(const Options& options, std::size_t ranks, std::size_t targets) {
  const std::size_t most = std::max<std::size_t>(1, ranks / targets);
  const std::size_t wanted =
      options.agents_per_target == 0 ? std::min<std::size_t>(4, most / 4) : options.agents_per_target;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(wanted, 1, most));
}

TargetAgents::TargetAgents(const PreparedLists& lists, const Layout& layout, const Options& options)
    : stripes_(layout), agents_(agents_per_target(options, lists.ranks(), stripes_.targets().size())) {
  set_windows(lists, layout, options);
  choose_agents(lists);
}

// A window has about one buffer of each agent, if the data is dense. Windows and their parts begin with a row of
// stripes. All windows are of about equal size, so that every agent has work in each of them.
void TargetAgents::set_windows(const PreparedLists& lists, const Layout& layout, const Options& options) {
  const std::uint64_t row = stripes_.row();
  if (row > kLargest / 2 / agents_) agents_ = 1;  // so that sizes stay below 2^63
  const std::size_t targets = stripes_.targets().size();
  const std::uint64_t duties = quotient_up(targets, lists.ranks());  // of an agent, if ranks are fewer than targets
  const std::uint64_t row_of_target = product(layout.stripe_size.count(), quotient_up(layout.stripe_count, targets));
  const std::uint64_t rows = std::max<std::uint64_t>(1, options.buffer.count() / duties / row_of_target);
  begin_ = lists.begin / row * row;
  const std::uint64_t range = lists.end - begin_;
  const std::uint64_t windows = quotient_up(range, product(product(rows, row), agents_));
  const std::uint64_t part_rows = quotient_up(quotient_up(quotient_up(range, windows), agents_), row);
  part_ = Divider(part_rows * row);
  window_ = Divider(part_rows * row * agents_);
  windows_ = quotient_up(range, window_.divisor());
}

Share TargetAgents::at(std::uint64_t offset) const {
  const auto stripe = stripes_.at(offset);
  const std::uint64_t window = window_.quotient(offset - begin_);
  const std::uint64_t start = begin_ + window * window_.divisor();
  const std::uint64_t part = part_.quotient(offset - start);
  const std::uint64_t part_end = start + (part + 1) * part_.divisor();
  return {owner_[part * stripes_.targets().size() + stripe.target], window, std::min(stripe.end, part_end)};
}

// The agent of a slot is the rank with most of its data that is not yet an agent elsewhere, the lowest such rank if
// equal (section 3.3). If ranks are fewer than targets, every rank is the agent of several.
void TargetAgents::choose_agents(const PreparedLists& lists) {
  struct Candidate {
    std::uint32_t slot;
    Rank rank;
    std::uint64_t bytes;
  };
  const std::size_t slots = stripes_.targets().size() * agents_;
  owner_.assign(slots, 0);
  used_.assign(slots, false);
  std::vector<Candidate> candidates;
  std::vector<std::uint64_t> bytes(slots, 0);
  for (Rank rank = 0; rank < lists.ranks(); ++rank) {
    const auto count = [&](std::size_t number, std::uint64_t amount) { bytes[number] += amount; };
    if (stripes_.targets().size() == 1) {
      each_share(lists.lists[rank], *this, [&](const Extent& extent, const Share& share) {
        count(part_.quotient(extent.offset - begin_ - share.window * window_.divisor()), extent.length);
      });
    } else {
      Part part;
      stripes_.each_target_run(lists.lists[rank], [&](std::uint32_t target, const Run& run) {
        each_slot_run(target, run, part, [&](std::size_t number, std::uint64_t, const Run& piece) {
          count(number, piece.length * piece.count);
        });
      });
    }
    for (std::uint32_t number = 0; number < slots; ++number) {
      if (bytes[number] == 0) continue;
      candidates.push_back({number, rank, std::exchange(bytes[number], 0)});
      used_[number] = true;
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.slot, b.bytes, a.rank) < std::tuple(b.slot, a.bytes, b.rank);
  });
  const auto in_use = static_cast<std::uint64_t>(std::count(used_.begin(), used_.end(), true));
  const std::uint64_t most = quotient_up(in_use, lists.ranks());
  std::vector<std::uint32_t> duties(lists.ranks(), 0);
  for (auto next = candidates.begin(); next != candidates.end();) {
    const std::uint32_t number = next->slot;
    const auto last = std::find_if(next, candidates.end(), [&](const Candidate& c) { return c.slot != number; });
    const auto chosen = std::find_if(next, last, [&](const Candidate& c) { return duties[c.rank] < most; });
    const auto free = std::find_if(duties.begin(), duties.end(), [&](std::uint32_t count) { return count < most; });
    owner_[number] = chosen != last ? chosen->rank : static_cast<Rank>(free - duties.begin());
    ++duties[owner_[number]];
    next = last;
  }
}

std::optional<TargetId> TargetAgents::target_of(Rank rank) const {
  std::optional<TargetId> target;
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (!used_[i] || owner_[i] != rank) continue;
    const TargetId found = stripes_.targets()[i % stripes_.targets().size()];
    if (target && *target != found) return {};
    target = found;
  }
  return target;
}

Turn TargetAgents::turn_of(Rank rank, Duration delay) const {
  const std::size_t targets = stripes_.targets().size();
  Turn turn{.after = {}, .next = {}, .delay = delay};
  if (agents_ == 1) return turn;  // a rank may have several slots only in this case
  for (std::size_t target = 0; target < targets; ++target) {
    std::optional<Rank> before;
    for (std::size_t i = target; i < owner_.size(); i += targets) {
      if (!used_[i]) continue;
      if (before && owner_[i] == rank) turn.after = before;
      if (before == rank) turn.next = owner_[i];
      before = owner_[i];
    }
  }
  return turn;
}

}  // namespace tutti::collective
