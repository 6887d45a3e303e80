// SPDX-License-Identifier: Apache-2.0
// Which targets a phase touches: as somebody writes it (TargetList) and as the lock table works with it (TargetSet).
#pragma once

#include <tutti/base.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::gate {

using TargetId = std::uint32_t;  // 0 .. number of targets - 1

// Gates have at most this many targets.
inline constexpr std::uint32_t kMaxTargets = 65536;

// A set of targets below a fixed number: one bit each. Sets that meet must have the same size.
class TargetSet {
 public:
  TargetSet() = default;
  explicit TargetSet(std::uint32_t targets) : size_(targets), words_((targets + 63) / 64) {}
  static TargetSet all(std::uint32_t targets);
  static TargetSet of(std::uint32_t targets, const std::vector<TargetId>& members);

  std::uint32_t size() const { return size_; }  // of the universe, not of the set
  std::size_t count() const;
  bool empty() const;
  bool contains(TargetId target) const { return (words_[target / 64] >> (target % 64)) & 1; }
  void insert(TargetId target) { words_[target / 64] |= std::uint64_t{1} << (target % 64); }
  void erase(TargetId target) { words_[target / 64] &= ~(std::uint64_t{1} << (target % 64)); }
  std::vector<TargetId> members() const;
  template <typename Action>
  void for_each(Action action) const;  // in ascending order

  bool intersects(const TargetSet& other) const;
  bool within(const TargetSet& other) const;  // every member is one of other's
  TargetSet& operator|=(const TargetSet& other);
  TargetSet& operator-=(const TargetSet& other);
  TargetSet& operator&=(const TargetSet& other);
  friend bool operator==(const TargetSet&, const TargetSet&) = default;

 private:
  std::uint32_t size_ = 0;
  std::vector<std::uint64_t> words_;
};

template <typename Action>
void TargetSet::for_each(Action action) const {
  for (std::size_t i = 0; i < words_.size(); ++i)
    for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
      action(static_cast<TargetId>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))));
}

struct TargetRange {
  TargetId first = 0;
  TargetId last = 0;  // included
  friend bool operator==(const TargetRange&, const TargetRange&) = default;
};

// Targets before it is known how many there are: "*" (all), or ranges in any order such as "0,4-7".
struct TargetList {
  bool all = false;
  std::vector<TargetRange> ranges;

  // kInvalid says what is wrong with the text. An empty text is wrong.
  static Result<TargetList> parse(std::string_view text);
  static TargetList everything() { return {.all = true, .ranges = {}}; }
  static TargetList of(const std::vector<TargetId>& targets);
  std::string text() const;

  // kInvalid: empty, a range the wrong way round, or a target that a gate with `targets` targets does not have.
  Result<TargetSet> resolve(std::uint32_t targets) const;

  friend bool operator==(const TargetList&, const TargetList&) = default;
};

// "0,4-7": the shortest text for a set.
std::string text(const TargetSet& set);

}  // namespace tutti::gate
