// SPDX-License-Identifier: Apache-2.0
// The hash table under the indexes of this module: open addressing with linear probing, entries in contiguous
// memory. Erasing moves later entries up, so there are no tombstones, and nothing is allocated once it is large enough.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/huge_pages.h"
#include "base/prefetch.h"

namespace tutti {

inline std::uint64_t mix(std::uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Empties a container and gives its memory back, which clear() and `= {}` do not.
template <typename Container>
void release(Container& container) {
  Container().swap(container);
}

// Entry is small and cheap to copy; default-constructed it is vacant. It has `bool vacant() const` and
// `std::size_t home() const`: its preferred index, before that is reduced modulo the table's size.
template <typename Entry>
class ProbingTable {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // The first entry from `home` on for which `matches` is true; nullptr if there is none.
  template <typename Matches>
  Entry* find(std::size_t home, const Matches& matches) {
    if (size_ == 0) return nullptr;
    for (std::size_t at = home & mask(); !entries_[at].vacant(); at = (at + 1) & mask())
      if (matches(entries_[at])) return &entries_[at];
    return nullptr;
  }
  template <typename Matches>
  const Entry* find(std::size_t home, const Matches& matches) const {
    return const_cast<ProbingTable*>(this)->find(home, matches);
  }

  // Inserts unless there is an entry for which `matches` is true; says whether it did.
  template <typename Matches>
  bool insert(const Entry& entry, const Matches& matches) {
    if (4 * (size_ + 1) > 3 * entries_.size()) grow(entries_.empty() ? 64 : 2 * entries_.size());
    std::size_t at = entry.home() & mask();
    for (; !entries_[at].vacant(); at = (at + 1) & mask())
      if (matches(entries_[at])) return false;
    entries_[at] = entry;
    ++size_;
    return true;
  }

  // Room for `count` entries.
  void reserve(std::size_t count) {
    if (4 * count > 3 * entries_.size()) grow(std::max<std::size_t>(64, std::bit_ceil(4 * count / 3 + 1)));
  }

  // `entry` is one that find() returned, with nothing inserted or erased since.
  void erase(Entry* entry) {
    --size_;
    if (size_ == 0 && entries_.size() > kKept)
      release(entries_);
    else
      close_gap(static_cast<std::size_t>(entry - entries_.data()));
  }

  template <typename Use>
  void for_each(const Use& use) const {
    for (const Entry& entry : entries_)
      if (!entry.vacant()) use(entry);
  }

  // Prefetches what find() or erase() will need.
  void prefetch(std::size_t home, std::size_t lines = 1) const {
    if (size_ > 0) prefetch_bytes(&entries_[home & mask()], 64 * lines);
  }

 private:
  using Entries = std::vector<Entry, HugePageAllocator<Entry>>;
  static constexpr std::size_t kKept = 65536;  // room that an empty table keeps

  std::size_t mask() const { return entries_.size() - 1; }

  void close_gap(std::size_t hole) {
    for (std::size_t at = (hole + 1) & mask(); !entries_[at].vacant(); at = (at + 1) & mask()) {
      const std::size_t home = entries_[at].home() & mask();
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;  // it would end up before its home
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = Entry{};
  }

  void grow(std::size_t size) {
    Entries old(size);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.vacant()) continue;
      std::size_t at = entry.home() & mask();
      while (!entries_[at].vacant()) at = (at + 1) & mask();
      entries_[at] = entry;
    }
  }

  Entries entries_;  // a power of two of them, at most three quarters in use
  std::size_t size_ = 0;
};

}  // namespace tutti
