// SPDX-License-Identifier: Apache-2.0
// The targets of a phase: as written by a user (TargetList), and as used by the lock table (TargetSet).
#pragma once

#include <tutti/base.h>
#include <tutti/sched.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/messages.h"

namespace tutti::gate {

using tutti::TargetId;  // 0 .. number of targets - 1

// Maximum number of targets of a gate.
inline constexpr std::uint32_t kMaxTargets = 65536;

// A set of targets with one bit for each. Operations on two sets need sets of the same size().
class TargetSet {
 public:
  TargetSet() = default;
  explicit TargetSet(std::uint32_t targets) : size_(targets), words_((targets + 63) / 64) {}
  static TargetSet all(std::uint32_t targets);
  static TargetSet of(std::uint32_t targets, const std::vector<TargetId>& members);

  std::uint32_t size() const { return size_; }  // number of possible members
  std::size_t count() const;
  bool empty() const;
  bool contains(TargetId target) const { return (words_[target / 64] >> (target % 64)) & 1; }
  void insert(TargetId target) { words_[target / 64] |= std::uint64_t{1} << (target % 64); }
  void erase(TargetId target) { words_[target / 64] &= ~(std::uint64_t{1} << (target % 64)); }
  std::vector<TargetId> members() const;
  TargetId first() const;  // the lowest member; not of an empty set
  template <typename Action>
  void for_each(Action action) const;  // in ascending order

  bool intersects(const TargetSet& other) const;
  bool within(const TargetSet& other) const;  // subset of `other`
  TargetSet& operator|=(const TargetSet& other);
  TargetSet& operator-=(const TargetSet& other);
  TargetSet& operator&=(const TargetSet& other);
  friend bool operator==(const TargetSet&, const TargetSet&) = default;

 private:
  std::uint32_t size_ = 0;
  boost::container::small_vector<std::uint64_t, 2> words_;
};

inline TargetId TargetSet::first() const {
  std::size_t i = 0;
  while (words_[i] == 0) ++i;
  return static_cast<TargetId>(i * 64 + static_cast<std::size_t>(std::countr_zero(words_[i])));
}

template <typename Action>
void TargetSet::for_each(Action action) const {
  for (std::size_t i = 0; i < words_.size(); ++i)
    for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
      action(static_cast<TargetId>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))));
}

using wire::TargetRange;

// A list of targets for a gate of any size: "*" (all), or ranges in any order such as "0,4-7".
struct TargetList {
  bool all = false;
  wire::TargetRanges ranges{};

  // kInvalid: the text is not a list, or is empty.
  static Result<TargetList> parse(std::string_view text);
  static TargetList everything() { return {.all = true, .ranges = {}}; }
  static TargetList of(const std::vector<TargetId>& targets);
  std::string text() const;

  // kInvalid: empty, a range whose first is after its last, or a target that a gate with `targets` targets does not
  // have.
  Result<TargetSet> resolve(std::uint32_t targets) const;

  friend bool operator==(const TargetList&, const TargetList&) = default;
};

// "0,4-7": the shortest text for a set.
std::string text(const TargetSet& set);

}  // namespace tutti::gate
