// SPDX-License-Identifier: Apache-2.0
#include "gate/targets.h"

#include <fmt/format.h>

#include <bit>
#include <cassert>
#include <charconv>
#include <optional>

namespace tutti::gate {

TargetSet TargetSet::all(std::uint32_t targets) {
  TargetSet set(targets);
  for (std::uint64_t& word : set.words_) word = ~std::uint64_t{0};
  if (targets % 64 != 0) set.words_.back() = (std::uint64_t{1} << (targets % 64)) - 1;
  return set;
}

TargetSet TargetSet::of(std::uint32_t targets, const std::vector<TargetId>& members) {
  TargetSet set(targets);
  for (TargetId member : members) {
    assert(member < targets);
    set.insert(member);
  }
  return set;
}

std::size_t TargetSet::count() const {
  std::size_t count = 0;
  for (std::uint64_t word : words_) count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

bool TargetSet::empty() const {
  for (std::uint64_t word : words_)
    if (word != 0) return false;
  return true;
}

std::vector<TargetId> TargetSet::members() const {
  std::vector<TargetId> members;
  for_each([&](TargetId member) { members.push_back(member); });
  return members;
}

bool TargetSet::intersects(const TargetSet& other) const {
  assert(size_ == other.size_);
  for (std::size_t i = 0; i < words_.size(); ++i)
    if ((words_[i] & other.words_[i]) != 0) return true;
  return false;
}

bool TargetSet::within(const TargetSet& other) const {
  assert(size_ == other.size_);
  for (std::size_t i = 0; i < words_.size(); ++i)
    if ((words_[i] & ~other.words_[i]) != 0) return false;
  return true;
}

TargetSet& TargetSet::operator|=(const TargetSet& other) {
  assert(size_ == other.size_);
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

TargetSet& TargetSet::operator-=(const TargetSet& other) {
  assert(size_ == other.size_);
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
  return *this;
}

TargetSet& TargetSet::operator&=(const TargetSet& other) {
  assert(size_ == other.size_);
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  return *this;
}

namespace {

std::optional<TargetId> parse_target(std::string_view text) {
  TargetId target = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target);
  if (error != std::errc{} || end != text.data() + text.size() || target >= kMaxTargets) return std::nullopt;
  return target;
}

wire::TargetRanges ranges_of(const std::vector<TargetId>& ascending) {
  wire::TargetRanges ranges;
  for (TargetId target : ascending) {
    if (!ranges.empty() && ranges.back().last + 1 == target)
      ranges.back().last = target;
    else
      ranges.push_back({target, target});
  }
  return ranges;
}

}  // namespace

Result<TargetList> TargetList::parse(std::string_view text) {
  if (text == "*") return everything();
  TargetList list;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t dash = item.find('-');
    const auto first = parse_target(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_target(item.substr(dash + 1));
    if (!first || !last || *first > *last)
      return fail(ErrorCode::kInvalid,
                  fmt::format("'{}' is not a list of targets: write '*' or numbers below {} and ranges, as in '0,4-7'",
                              text, kMaxTargets));
    list.ranges.push_back({*first, *last});
    if (comma == std::string_view::npos) return list;
    rest.remove_prefix(comma + 1);
  }
}

TargetList TargetList::of(const std::vector<TargetId>& targets) {
  TargetList list;
  for (TargetId target : targets) list.ranges.push_back({target, target});
  return list;
}

std::string TargetList::text() const {
  if (all) return "*";
  std::string text;
  for (const TargetRange& range : ranges) {
    if (!text.empty()) text += ',';
    text += range.first == range.last ? fmt::format("{}", range.first) : fmt::format("{}-{}", range.first, range.last);
  }
  return text;
}

Result<TargetSet> TargetList::resolve(std::uint32_t targets) const {
  if (all) return TargetSet::all(targets);
  if (ranges.empty()) return fail(ErrorCode::kInvalid, "the list of targets is empty; give at least one");
  TargetSet set(targets);
  for (const TargetRange& range : ranges) {
    if (range.first > range.last || range.last >= targets)
      return fail(ErrorCode::kInvalid, fmt::format("targets {}-{} are out of range; this gate has targets 0 to {}",
                                                   range.first, range.last, targets - 1));
    for (TargetId target = range.first; target <= range.last; ++target) set.insert(target);
  }
  return set;
}

std::string text(const TargetSet& set) {
  return TargetList{.all = false, .ranges = ranges_of(set.members())}.text();
}

}  // namespace tutti::gate
