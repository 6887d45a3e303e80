// SPDX-License-Identifier: Apache-2.0
#include "collective/division.h"

#include <fmt/format.h>

#include <algorithm>
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
  std::uint64_t end = 0, bytes = 0, extents = 0;  // not in `range`: the loop would wait for its own stores
  for (const ExtentRun& run : list) {
    if (run.length == 0 || run.count == 0 || run.offset < end) return false;
    if (run.offset > kFileEnd || run.length > kFileEnd - run.offset) return false;
    end = run.offset + run.length;
    bytes += run.length * run.count;
    extents += run.count;
    if (run.count == 1) continue;
    if (run.stride < run.length || run.stride > (kFileEnd - end) / (run.count - 1)) return false;
    end += run.stride * (run.count - 1);
  }
  range = {.begin = list.empty() ? 0 : list.front().offset, .end = end, .bytes = bytes, .extents = extents};
  return extents <= kMostExtents;
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

FileDomains::FileDomains(const PreparedLists& lists, const Options& options)
    : begin_(lists.begin), aggregators_(static_cast<std::uint32_t>(lists.ranks())) {
  if (options.aggregators > 0) aggregators_ = std::min(aggregators_, options.aggregators);
  size_ = Divider(quotient_up(lists.end - lists.begin, aggregators_));
  buffer_ = Divider(options.buffer.count());
  windows_ = quotient_up(size_.divisor(), buffer_.divisor());
}

OwnedRange FileDomains::at(std::uint64_t offset) const {
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

OwnedRange TargetAgents::at(std::uint64_t offset) const {
  const auto stripe = stripes_.at(offset);
  const std::uint64_t window = window_.quotient(offset - begin_);
  const std::uint64_t start = begin_ + window * window_.divisor();
  const std::uint64_t part = part_.quotient(offset - start);
  const std::uint64_t part_end = start + (part + 1) * part_.divisor();
  return {owner_[part * stripes_.targets().size() + stripe.target], window, std::min(stripe.end, part_end)};
}

// Irregular lists consist of millions of single extents, most of them on one target and in one part. They take the
// shortest way.
void TargetAgents::count(std::span<const ExtentRun> list, std::span<std::uint64_t> bytes) {
  const Stripes stripes = stripes_;  // a copy stays in registers; a store to an array might change the member
  marks_.resize(marks_.size() + list.size(), kSeveral);
  std::uint8_t* next_mark = marks_.data() + marks_.size() - list.size();
  Part part;
  for (const ExtentRun& run : list) {
    std::uint8_t& mark = *next_mark++;
    if (run.count == 1) {
      const std::uint64_t end = run.offset + run.length;
      find(part, run.offset);
      const Stripes::Stripe stripe = stripes.at(run.offset);
      if (end <= stripe.end && end <= part.end) {
        const std::size_t number = part.slot + stripe.target;
        mark = static_cast<std::uint8_t>(number);
        bytes[number] += run.length;
        continue;
      }
    }
    cut(run, part, [&](std::size_t number, std::uint64_t, const ExtentRun& piece) {
      bytes[number] += piece.length * piece.count;
    });
  }
}

// The agent of a slot is the rank with most of its data that is not yet an agent elsewhere, the lowest such rank if
// equal (section 3.3). If ranks are fewer than targets, every rank is the agent of several.
void TargetAgents::choose_agents(const PreparedLists& lists) {
  struct Candidate {
    Rank rank;
    std::uint64_t bytes;
  };
  const std::size_t slots = stripes_.targets().size() * agents_;
  std::vector<std::vector<Candidate>> candidates(slots);  // by ascending rank
  std::vector<std::uint64_t> bytes(slots, 0);
  std::size_t runs = 0, in_use = 0;
  for (const auto& list : lists.lists) runs += list.size();
  marks_.reserve(runs);
  for (Rank rank = 0; rank < lists.ranks(); ++rank) {
    count(lists.lists[rank], bytes);
    for (std::size_t number = 0; number < slots; ++number)
      if (bytes[number] > 0) candidates[number].push_back({rank, std::exchange(bytes[number], 0)});
  }
  for (const auto& ranks : candidates) in_use += ranks.empty() ? 0 : 1;
  const std::uint64_t most = quotient_up(in_use, lists.ranks());
  owner_.assign(slots, 0);
  used_.assign(slots, false);
  slots_of_.resize(lists.ranks());
  const auto free = [&](Rank rank) { return slots_of_[rank].size() < most; };
  for (std::size_t number = 0; number < slots; ++number) {
    if (candidates[number].empty()) continue;
    const Candidate* chosen = nullptr;
    for (const Candidate& each : candidates[number])
      if (free(each.rank) && (chosen == nullptr || each.bytes > chosen->bytes)) chosen = &each;
    Rank agent = chosen != nullptr ? chosen->rank : 0;
    while (!free(agent)) ++agent;
    owner_[number] = agent;
    used_[number] = true;
    slots_of_[agent].push_back(number);
  }
}

std::optional<TargetId> TargetAgents::target_of(Rank rank) const {
  std::optional<TargetId> target;
  for (const std::size_t number : slots_of_[rank]) {
    const TargetId found = stripes_.targets()[number % stripes_.targets().size()];
    if (target && *target != found) return {};
    target = found;
  }
  return target;
}

StartRule TargetAgents::start_rule_of(Rank rank, Duration delay) const {
  StartRule rule{.after = {}, .next = {}, .delay = delay};
  if (agents_ == 1 || slots_of_[rank].empty()) return rule;
  const std::size_t own = slots_of_[rank].front();  // the only one: slots are not more than ranks
  const std::size_t targets = stripes_.targets().size();
  for (std::size_t i = own % targets; i < owner_.size(); i += targets) {
    if (!used_[i]) continue;
    if (i < own) rule.after = owner_[i];
    if (i > own && !rule.next) rule.next = owner_[i];
  }
  return rule;
}

}  // namespace tutti::collective
