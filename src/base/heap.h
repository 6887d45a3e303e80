// SPDX-License-Identifier: Apache-2.0
// A heap with four children per node. It has half the levels of a binary heap, and the children of a node are in one or
// two cache lines, so large heaps cause few cache misses.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/prefetch.h"

namespace tutti {

struct IgnoreMoves {
  void operator()(const auto&, std::size_t) const {}
};

// The smallest entry by operator< is on top. moved(entry, index) is called whenever the index of an entry changes, for
// users that replace or erase entries by index. Not thread-safe.
template <typename Entry, typename Moved = IgnoreMoves>
class Heap {
 public:
  explicit Heap(Moved moved = {}) : moved_(std::move(moved)) {}

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  std::size_t capacity() const { return entries_.capacity(); }
  const Entry& top() const { return entries_.front(); }

  void push(const Entry& entry) {
    entries_.push_back(entry);
    put(up(entries_.size() - 1, entry), entry);
  }
  Entry pop() {
    assert(!empty());
    Entry top = entries_.front();
    erase(0);
    return top;
  }
  void replace(std::size_t index, const Entry& entry) { down(up(index, entry), entry); }
  void erase(std::size_t index) {
    const Entry last = entries_.back();
    entries_.pop_back();
    if (index < entries_.size()) replace(index, last);
  }
  // Prefetches the first and last entries, which push() and pop() need. The heap is not empty.
  void expect() const {
    prefetch_bytes(&top(), 5 * sizeof(Entry));
    prefetch_line(&entries_[(entries_.size() - 1) / 4]);
    prefetch_line(&entries_.back());
    prefetch_line(&entries_.back() + 1);
  }
  // Prefetches the entries `level` levels below the top, at least 2, that pop() will compare. The levels above should
  // be in the cache.
  void expect_level(unsigned level) const {
    std::size_t first = 1;
    for (; level > 1 && first < entries_.size(); --level) first = 4 * least_child(first) + 1;
    if (first < entries_.size()) prefetch_bytes(&entries_[first], 4 * sizeof(Entry));
  }
  template <typename Gone>
  void erase_if(const Gone& gone) {
    std::erase_if(entries_, gone);
    for (std::size_t i = entries_.size() / 4 + 1; i-- > 0;)
      if (i < entries_.size()) down(i, Entry(entries_[i]));
  }
  // Calls do_it(entry) for every entry, in no particular order.
  template <typename Do>
  void each(const Do& do_it) const {
    for (const Entry& entry : entries_) do_it(entry);
  }
  void clear() { entries_.clear(); }
  void release() { std::vector<Entry>().swap(entries_); }

 private:
  void put(std::size_t i, const Entry& entry) {
    entries_[i] = entry;
    moved_(entry, i);
  }

  // Moves larger ancestors down and returns the index that is then free for the entry.
  std::size_t up(std::size_t i, const Entry& entry) {
    for (; i > 0 && entry < entries_[(i - 1) / 4]; i = (i - 1) / 4) put(i, entries_[(i - 1) / 4]);
    return i;
  }

  void down(std::size_t i, const Entry& entry) {
    for (std::size_t first = 4 * i + 1; first < entries_.size(); first = 4 * i + 1) {
      const std::size_t least = least_child(first);
      if (!(entries_[least] < entry)) break;
      put(i, entries_[least]);
      i = least;
    }
    put(i, entry);
  }

  // Without branches for simple keys: a branch on the least child would be mispredicted often.
  std::size_t least_child(std::size_t first) const {
    if (first + 4 <= entries_.size()) return lesser(lesser(first, first + 1), lesser(first + 2, first + 3));
    std::size_t least = first;
    for (std::size_t child = first + 1; child < entries_.size(); ++child) least = lesser(least, child);
    return least;
  }
  std::size_t lesser(std::size_t a, std::size_t b) const { return entries_[b] < entries_[a] ? b : a; }

  std::vector<Entry> entries_;
  [[no_unique_address]] Moved moved_;
};

}  // namespace tutti
