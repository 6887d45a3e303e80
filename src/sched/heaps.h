// SPDX-License-Identifier: Apache-2.0
// Two four-ary heaps: children of a node lie in one or two cache lines, so a million entries cost few misses.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "sched/request_store.h"

namespace tutti {

// A heap of slots by key. A slot that left the store by another way (cancelled, overdue) is skipped when it comes up.
template <typename Key>
class SlotHeap {
 public:
  void push(const Key& key, SlotStamp stamp) {
    entries_.push_back({key, stamp});
    up(entries_.size() - 1);
  }

  // The slot with the smallest key; kNoSlot if none is left.
  Slot top(const RequestStore& store) {
    while (!entries_.empty() && !store.holds(entries_.front().stamp)) pop();
    return entries_.empty() ? kNoSlot : entries_.front().stamp.slot;
  }

  void pop() {
    const Entry last = entries_.back();
    entries_.pop_back();
    if (!entries_.empty()) down(0, last);
  }

  // Drops skipped entries once they outnumber the `live` ones, so that cancelling costs no memory.
  void prune(const RequestStore& store, std::size_t live) {
    if (entries_.size() <= 2 * live + 64) return;
    std::erase_if(entries_, [&](const Entry& entry) { return !store.holds(entry.stamp); });
    for (std::size_t i = entries_.size() / 4 + 1; i-- > 0;)
      if (i < entries_.size()) down(i, Entry(entries_[i]));
  }

  void clear() {
    entries_.clear();
    if (entries_.capacity() > kKept) entries_ = {};
  }

 private:
  struct Entry {
    Key key;
    SlotStamp stamp;
  };
  static constexpr std::size_t kKept = 256;  // entries an empty heap keeps room for

  void up(std::size_t i) {
    const Entry entry = entries_[i];
    while (i > 0 && entry.key < entries_[(i - 1) / 4].key) {
      entries_[i] = entries_[(i - 1) / 4];
      i = (i - 1) / 4;
    }
    entries_[i] = entry;
  }

  void down(std::size_t i, const Entry& entry) {
    const std::size_t size = entries_.size();
    for (;;) {
      const std::size_t first = 4 * i + 1;
      if (first >= size) break;
      std::size_t least = first;
      for (std::size_t c = first + 1; c < std::min(first + 4, size); ++c)
        if (entries_[c].key < entries_[least].key) least = c;
      if (!(entries_[least].key < entry.key)) break;
      entries_[i] = entries_[least];
      i = least;
    }
    entries_[i] = entry;
  }

  std::vector<Entry> entries_;
};

// A heap of small numbers (queues, groups, applications) whose keys change and which can leave from anywhere.
template <typename Key>
class IndexedHeap {
 public:
  using Number = std::uint32_t;

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  Number top() const { return entries_.front().number; }
  const Key& top_key() const { return entries_.front().key; }
  bool contains(Number number) const { return number < positions_.size() && positions_[number] != kAbsent; }

  // Inserts `number`, or gives it another key.
  void set(Number number, const Key& key) {
    if (number >= positions_.size()) positions_.resize(number + 1, kAbsent);
    Number at = positions_[number];
    if (at == kAbsent) {
      at = static_cast<Number>(entries_.size());
      entries_.push_back({key, number});
    }
    settle(at, Entry{key, number});
  }

  void erase(Number number) {
    const Number at = positions_[number];
    positions_[number] = kAbsent;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (at < entries_.size()) settle(at, last);
  }

  void pop() { erase(top()); }

  void clear() {
    entries_.clear();
    positions_.clear();
  }

 private:
  struct Entry {
    Key key;
    Number number;
  };
  static constexpr Number kAbsent = ~Number{0};

  void put(std::size_t i, const Entry& entry) {
    entries_[i] = entry;
    positions_[entry.number] = static_cast<Number>(i);
  }

  void settle(std::size_t i, const Entry& entry) {
    while (i > 0 && entry.key < entries_[(i - 1) / 4].key) {
      put(i, entries_[(i - 1) / 4]);
      i = (i - 1) / 4;
    }
    const std::size_t size = entries_.size();
    for (std::size_t first = 4 * i + 1; first < size; first = 4 * i + 1) {
      std::size_t least = first;
      for (std::size_t c = first + 1; c < std::min(first + 4, size); ++c)
        if (entries_[c].key < entries_[least].key) least = c;
      if (!(entries_[least].key < entry.key)) break;
      put(i, entries_[least]);
      i = least;
    }
    put(i, entry);
  }

  std::vector<Entry> entries_;
  std::vector<Number> positions_;  // by number
};

}  // namespace tutti
