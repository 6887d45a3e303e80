// SPDX-License-Identifier: Apache-2.0
// Queues and four-ary heaps: children of a node lie in one or two cache lines, so a million entries cost few misses.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "sched/request_store.h"

namespace tutti {

// A queue in one piece of memory: what comes after next is easily told.
template <typename Entry>
class RunQueue {
 public:
  bool empty() const { return first_ == entries_.size(); }
  std::size_t size() const { return entries_.size() - first_; }
  const Entry& front() const { return entries_[first_]; }
  const Entry& back() const { return entries_.back(); }
  // The entry that is at the front after `ahead` pops; nullptr if there is none.
  const Entry* peek(std::size_t ahead) const { return ahead < size() ? &entries_[first_ + ahead] : nullptr; }

  void push(const Entry& entry) { entries_.push_back(entry); }
  void pop() {
    if (++first_ == entries_.size())
      entries_.clear(), first_ = 0;
    else if (first_ >= kKept && 2 * first_ >= entries_.size())
      drop_served();
  }

  template <typename Gone>
  void erase_if(const Gone& gone) {
    drop_served();
    std::erase_if(entries_, gone);
  }

  void clear() {
    entries_.clear();
    first_ = 0;
    if (entries_.capacity() > kKept) release(entries_);
  }

 private:
  static constexpr std::size_t kKept = 256;  // entries that an empty queue keeps room for

  void drop_served() {
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

  std::vector<Entry> entries_;  // served up to first_
  std::size_t first_ = 0;
};

// Items by key, smallest first. Items that come in ascending order, as the requests of a sequential stream do, are just
// queued; the others go into a heap. An item that left by another way (cancelled, overdue, merged) is not searched
// for: whoever asks for the top says which items still count, and the others are skipped as they come up.
template <typename Key, typename Item>
class LazyHeap {
 public:
  void push(const Key& key, const Item& item) {
    if (run_.empty() || !(key < run_.back().key)) return run_.push({key, item});
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

  void pop() { run_is_next() ? run_.pop() : pop_heap(); }

  // What will probably be on top after `ahead` pops; nullptr if that is not easily told.
  const Item* peek(std::size_t ahead) const {
    if (const Entry* entry = run_.peek(ahead); entry && run_is_next()) return &entry->item;
    return ahead == 0 && !heap_.empty() ? &heap_.front().item : nullptr;
  }

  // Drops items that no longer count once they outnumber the `live` ones, so that cancelling costs no memory.
  template <typename Counts>
  void prune(std::size_t live, const Counts& counts) {
    if (run_.size() + heap_.size() <= 2 * live + 64) return;
    const auto gone = [&](const Entry& entry) { return !counts(entry.item); };
    run_.erase_if(gone);
    std::erase_if(heap_, gone);
    for (std::size_t i = heap_.size() / 4 + 1; i-- > 0;)
      if (i < heap_.size()) down(i, Entry(heap_[i]));
  }

  void clear() {
    run_.clear();
    heap_.clear();
    if (heap_.capacity() > kKept) release(heap_);
  }

 private:
  struct Entry {
    Key key;
    Item item;
  };
  static constexpr std::size_t kKept = 256;  // entries that an empty heap keeps room for

  bool empty() const { return run_.empty() && heap_.empty(); }
  bool run_is_next() const { return heap_.empty() || (!run_.empty() && !(heap_.front().key < run_.front().key)); }
  const Entry& front() const { return run_is_next() ? run_.front() : heap_.front(); }

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

  RunQueue<Entry> run_;  // ascending
  std::vector<Entry> heap_;
};

// How many pops ahead of its own a request is brought into the cache, and what only it can tell, its place in the
// index of ids. With a million requests queued, everything a dispatch touches is then there in time.
inline constexpr std::size_t kLater = 6;
inline constexpr std::size_t kSoon = 2;

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
  // After top() found one, whatever was pushed since.
  const Key& top_key() const { return heap_.top_key(); }
  void pop(const RequestStore& store) {
    heap_.pop();
    store.expect(heap_.peek(kSoon), heap_.peek(kLater));
  }
  void prune(const RequestStore& store, std::size_t live) {
    heap_.prune(live, [&](SlotStamp s) { return store.holds(s); });
  }
  void clear() { heap_.clear(); }

 private:
  LazyHeap<Key, SlotStamp> heap_;
};

// A queue of waiting requests, in the order in which they were pushed.
class SlotQueue {
 public:
  bool empty() const { return count_ == 0; }

  void push(const RequestStore& store, Slot slot) {
    slots_.push(store.stamp(slot));
    ++count_;
  }
  // Takes the first one that waits; there is one.
  Slot pop(const RequestStore& store) {
    while (!store.holds(slots_.front())) slots_.pop();
    const Slot slot = slots_.front().slot;
    slots_.pop();
    --count_;
    if (count_ == 0) clear();
    store.expect(slots_.peek(kSoon), slots_.peek(kLater));
    return slot;
  }
  // Starts to bring the first one into the cache.
  void expect_front(const RequestStore& store) const { store.expect(slots_.front().slot); }
  // One of them is about to leave the store by another way.
  void lose_one(const RequestStore& store) {
    if (--count_ == 0) return clear();
    if (slots_.size() > 2 * count_ + 64) slots_.erase_if([&](SlotStamp stamp) { return !store.holds(stamp); });
  }
  void clear() {
    slots_.clear();
    count_ = 0;
  }

 private:
  RunQueue<SlotStamp> slots_;  // some of which may have left
  std::size_t count_ = 0;
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
    [[no_unique_address]] Key key;  // most keys end in padding, where the number fits
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
    for (std::size_t first = 4 * i + 1; first < entries_.size(); first = 4 * i + 1) {
      const std::size_t least = least_child(first);
      if (!(entries_[least].key < entry.key)) break;
      put(i, entries_[least]);
      i = least;
    }
    put(i, entry);
  }

  // Which child is least cannot be predicted: with simple keys this is computed without branches.
  std::size_t least_child(std::size_t first) const {
    if (first + 4 <= entries_.size()) return lesser(lesser(first, first + 1), lesser(first + 2, first + 3));
    std::size_t least = first;
    for (std::size_t child = first + 1; child < entries_.size(); ++child) least = lesser(least, child);
    return least;
  }
  std::size_t lesser(std::size_t a, std::size_t b) const { return entries_[b].key < entries_[a].key ? b : a; }

  std::vector<Entry> entries_;
  std::vector<Number> positions_;  // by number
};

}  // namespace tutti
