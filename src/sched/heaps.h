// SPDX-License-Identifier: Apache-2.0
// Queues and heaps of waiting requests.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/heap.h"
#include "sched/request_store.h"

namespace tutti {

// A queue in contiguous memory, so that later entries can be looked at.
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

// Items by key, smallest first. Items that are pushed in ascending order, as the requests of a sequential stream are,
// go into a queue; the others go into a heap. An item that left by another way (cancelled, overdue, merged) is not
// searched for: the caller of top() says which items still count, and the others are dropped when they reach the top.
template <typename Key, typename Item>
class LazyHeap {
 public:
  void push(const Key& key, const Item& item) {
    if (ascending_.empty() || !(key < ascending_.back().key)) return ascending_.push({key, item});
    heap_.push({key, item});
  }

  // The item with the smallest key of those that still count; nullptr if none is left.
  template <typename Counts>
  const Item* top(const Counts& counts) {
    while (!empty() && !counts(front().item)) pop();
    return empty() ? nullptr : &front().item;
  }
  const Key& top_key() const { return front().key; }  // after top() found one

  void pop() {
    if (queue_is_next())
      ascending_.pop();
    else
      heap_.pop();
  }

  // The item that will probably be on top after `ahead` pops; nullptr if that is not easily told.
  const Item* peek(std::size_t ahead) const {
    if (const Entry* entry = ascending_.peek(ahead); entry && queue_is_next()) return &entry->item;
    return ahead == 0 && !heap_.empty() ? &heap_.top().item : nullptr;
  }

  // Prefetches the first items, and where the next one will be.
  void expect() const {
    if (const Entry* entry = ascending_.peek(0)) prefetch_line(entry), prefetch_line(&ascending_.back() + 1);
    if (!heap_.empty()) heap_.expect();
  }
  void expect_level(unsigned level) const { heap_.expect_level(level); }  // as Heap

  // Drops items that no longer count once they outnumber the `live` ones, so that cancelling costs no memory.
  template <typename Counts>
  void prune(std::size_t live, const Counts& counts) {
    if (ascending_.size() + heap_.size() <= 2 * live + 64) return;
    const auto gone = [&](const Entry& entry) { return !counts(entry.item); };
    ascending_.erase_if(gone);
    heap_.erase_if(gone);
  }

  // Calls do_it(key, item) for every item, in no particular order.
  template <typename Do>
  void each(const Do& do_it) const {
    for (std::size_t i = 0; i < ascending_.size(); ++i) do_it(ascending_.peek(i)->key, ascending_.peek(i)->item);
    heap_.each([&](const Entry& entry) { do_it(entry.key, entry.item); });
  }

  void clear() {
    ascending_.clear();
    heap_.clear();
    if (heap_.capacity() > kKept) heap_.release();
  }

 private:
  struct Entry {
    Key key;
    Item item;
    bool operator<(const Entry& other) const { return key < other.key; }
  };
  static constexpr std::size_t kKept = 256;  // entries that an empty heap keeps room for

  bool empty() const { return ascending_.empty() && heap_.empty(); }
  bool queue_is_next() const { return heap_.empty() || (!ascending_.empty() && !(heap_.top() < ascending_.front())); }
  const Entry& front() const { return queue_is_next() ? ascending_.front() : heap_.top(); }

  RunQueue<Entry> ascending_;
  Heap<Entry> heap_;
};

// How many pops before its own a request is prefetched (kLater), and its entry in the index of ids (kSoon), which needs
// the request. With a million requests queued, everything a dispatch touches is then in the cache in time.
inline constexpr std::size_t kLater = 6;
inline constexpr std::size_t kSoon = 2;

// A heap of waiting requests.
template <typename Key>
class SlotHeap {
 public:
  void push(const Key& key, SlotVersion version) { heap_.push(key, version); }
  // The slot with the smallest key that still waits; kNoSlot if none is left.
  Slot top(const RequestStore& store) {
    const SlotVersion* version = heap_.top([&](SlotVersion s) { return store.holds(s); });
    return version ? version->slot : kNoSlot;
  }
  // Valid after top() found one, also if others were pushed since.
  const Key& top_key() const { return heap_.top_key(); }
  void pop(const RequestStore& store) {
    heap_.pop();
    store.expect(heap_.peek(kSoon), heap_.peek(kLater));
  }
  void prune(const RequestStore& store, std::size_t live) {
    heap_.prune(live, [&](SlotVersion s) { return store.holds(s); });
  }
  // Calls do_it(key, slot) for every request that still waits, in no particular order.
  template <typename Do>
  void each(const RequestStore& store, const Do& do_it) const {
    heap_.each([&](const Key& key, SlotVersion version) {
      if (store.holds(version)) do_it(key, version.slot);
    });
  }
  void clear() { heap_.clear(); }
  void expect() const { heap_.expect(); }
  void expect_level(unsigned level) const { heap_.expect_level(level); }
  // The slot with the smallest key; kNoSlot: there is none. The request may have left.
  Slot likely_top() const {
    const SlotVersion* version = heap_.peek(0);
    return version ? version->slot : kNoSlot;
  }

 private:
  LazyHeap<Key, SlotVersion> heap_;
};

// A queue of waiting requests, in the order in which they were pushed.
class SlotQueue {
 public:
  bool empty() const { return count_ == 0; }

  void push(const RequestStore& store, Slot slot) {
    slots_.push(store.version(slot));
    ++count_;
  }
  // The first one that waits; there is one.
  Slot front(const RequestStore& store) {
    while (!store.holds(slots_.front())) slots_.pop();
    return slots_.front().slot;
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
  // Prefetches the first one.
  void expect_front(const RequestStore& store) const { store.expect(slots_.front().slot); }
  // One of them is about to leave the store by another way (cancelled, overdue).
  void lose_one(const RequestStore& store) {
    if (--count_ == 0) return clear();
    if (slots_.size() > 2 * count_ + 64) slots_.erase_if([&](SlotVersion version) { return !store.holds(version); });
  }
  void clear() {
    slots_.clear();
    count_ = 0;
  }

 private:
  RunQueue<SlotVersion> slots_;  // some of which may have left
  std::size_t count_ = 0;
};

// A heap of small numbers (queues, groups, applications) whose keys change and which can leave from anywhere.
template <typename Key>
class IndexedHeap {
 public:
  using Number = std::uint32_t;

  IndexedHeap() : heap_(NotePosition{&positions_}) {}
  IndexedHeap(const IndexedHeap&) = delete;
  IndexedHeap& operator=(const IndexedHeap&) = delete;

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  Number top() const { return heap_.top().number; }
  const Key& top_key() const { return heap_.top().key; }
  bool contains(Number number) const { return number < positions_.size() && positions_[number] != kAbsent; }

  // Inserts `number`, or gives it another key.
  void set(Number number, const Key& key) {
    if (number >= positions_.size()) positions_.resize(number + 1, kAbsent);
    if (positions_[number] == kAbsent)
      heap_.push({key, number});
    else
      heap_.replace(positions_[number], {key, number});
  }

  void erase(Number number) { heap_.erase(std::exchange(positions_[number], kAbsent)); }
  void pop() { erase(top()); }

  void clear() {
    heap_.clear();
    positions_.clear();
  }
  void expect() const {  // prefetches the first ones
    if (!empty()) prefetch_bytes(&heap_.top(), 128);
  }

 private:
  struct Entry {
    [[no_unique_address]] Key key;  // most keys end in padding, where the number fits
    Number number;
    bool operator<(const Entry& other) const { return key < other.key; }
  };
  struct NotePosition {
    std::vector<Number>* positions;
    void operator()(const Entry& entry, std::size_t index) const {
      (*positions)[entry.number] = static_cast<Number>(index);
    }
  };
  static constexpr Number kAbsent = ~Number{0};

  std::vector<Number> positions_;  // by number
  Heap<Entry, NotePosition> heap_;
};

}  // namespace tutti
