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

// Items by key, smallest first. Items that come in ascending order, as the requests of a sequential stream do, are just
// appended; the others go into a heap. An item that left by another way (cancelled, overdue, merged) is not searched
// for: whoever asks for the top says which items still count, and the others are skipped as they come up.
template <typename Key, typename Item>
class LazyHeap {
 public:
  void push(const Key& key, const Item& item) {
    if (first_ == run_.size()) run_.clear(), first_ = 0;
    if (run_.empty() || !(key < run_.back().key)) return run_.push_back({key, item});
    heap_.push_back({key, item});
    up(heap_.size() - 1);
  }

  // The item with the smallest key of those that still count; nullptr if none is left.
  template <typename Counts>
  const Item* top(const Counts& counts) {
    while (!empty() && !counts(front().item)) pop();
    return empty() ? nullptr : &front().item;
  }
  const Key& top_key() const { return front().key; }  // after top() found one

  void pop() {
    if (!run_is_next()) return pop_heap();
    if (++first_ == run_.size()) return run_.clear(), void(first_ = 0);
    if (first_ >= kKept && 2 * first_ >= run_.size()) drop_served();
  }

  // What will probably be on top after `ahead` pops; nullptr if that is not easily told.
  const Item* peek(std::size_t ahead) const {
    if (first_ + ahead < run_.size() && run_is_next()) return &run_[first_ + ahead].item;
    return ahead == 0 && !heap_.empty() ? &heap_.front().item : nullptr;
  }

  // Drops items that no longer count once they outnumber the `live` ones, so that cancelling costs no memory.
  template <typename Counts>
  void prune(std::size_t live, const Counts& counts) {
    if (run_.size() - first_ + heap_.size() <= 2 * live + 64) return;
    drop_served();
    const auto gone = [&](const Entry& entry) { return !counts(entry.item); };
    std::erase_if(run_, gone);
    std::erase_if(heap_, gone);
    for (std::size_t i = heap_.size() / 4 + 1; i-- > 0;)
      if (i < heap_.size()) down(i, Entry(heap_[i]));
  }

  void clear() {
    run_.clear();
    heap_.clear();
    first_ = 0;
    if (run_.capacity() > kKept) release(run_);
    if (heap_.capacity() > kKept) release(heap_);
  }

 private:
  struct Entry {
    Key key;
    Item item;
  };
  static constexpr std::size_t kKept = 256;  // entries that nothing keeps room for

  bool empty() const { return first_ == run_.size() && heap_.empty(); }
  bool run_is_next() const {
    return heap_.empty() || (first_ < run_.size() && !(heap_.front().key < run_[first_].key));
  }
  const Entry& front() const { return run_is_next() ? run_[first_] : heap_.front(); }

  void drop_served() {
    run_.erase(run_.begin(), run_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

  void pop_heap() {
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) down(0, last);
  }

  void up(std::size_t i) {
    const Entry entry = heap_[i];
    while (i > 0 && entry.key < heap_[(i - 1) / 4].key) {
      heap_[i] = heap_[(i - 1) / 4];
      i = (i - 1) / 4;
    }
    heap_[i] = entry;
  }

  void down(std::size_t i, const Entry& entry) {
    const std::size_t size = heap_.size();
    for (;;) {
      const std::size_t first = 4 * i + 1;
      if (first >= size) break;
      std::size_t least = first;
      for (std::size_t c = first + 1; c < std::min(first + 4, size); ++c)
        if (heap_[c].key < heap_[least].key) least = c;
      if (!(heap_[least].key < entry.key)) break;
      heap_[i] = heap_[least];
      i = least;
    }
    heap_[i] = entry;
  }

  std::vector<Entry> run_;  // ascending; served up to first_
  std::size_t first_ = 0;
  std::vector<Entry> heap_;
};

// A heap of waiting requests.
template <typename Key>
class SlotHeap {
 public:
  void push(const Key& key, SlotStamp stamp) { heap_.push(key, stamp); }
  // The slot with the smallest key that still waits; kNoSlot if none is left.
  Slot top(const RequestStore& store) {
    const SlotStamp* stamp = heap_.top([&](SlotStamp s) { return store.holds(s); });
    return stamp ? stamp->slot : kNoSlot;
  }
  void pop(const RequestStore& store) {
    heap_.pop();
    if (const SlotStamp* next = heap_.peek(0); next && store.holds(*next)) store.expect_next(next->slot);
    if (const SlotStamp* later = heap_.peek(1)) store.expect(later->slot);
  }
  void prune(const RequestStore& store, std::size_t live) {
    heap_.prune(live, [&](SlotStamp s) { return store.holds(s); });
  }
  void clear() { heap_.clear(); }

 private:
  LazyHeap<Key, SlotStamp> heap_;
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
