// SPDX-License-Identifier: Apache-2.0
// A hash index of small numbers (slots, runs) that stand for things kept elsewhere, found by a key those things have.
// Eight bytes an entry, and keys that are used together lie together: with a million requests queued, that is what
// keeps memory under 200 bytes a request and most look-ups in the cache.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

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

// A tag from a hash of the whole key and a place that keys used together have near each other.
inline std::uint32_t make_tag(std::uint64_t hash, std::uint64_t place) {
  return (static_cast<std::uint32_t>(hash) & 0xfff00000u) | (static_cast<std::uint32_t>(place) & 0x000fffffu);
}

// Open addressing with linear probing; erasing moves later entries up, so there is nothing to clean up.
// `KeyOf` is a function object: number -> key; a key has == and tag(), 32 bits made by make_tag().
// The owner is asked for a key only where tags agree.
template <typename KeyOf>
class TagIndex {
 public:
  using Key = std::invoke_result_t<KeyOf, std::uint32_t>;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit TagIndex(KeyOf key_of) : key_of_(key_of) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // False, and nothing happens, if a number with that key is here already.
  bool insert(const Key& key, std::uint32_t number) {
    if (4 * (size_ + 1) > 3 * entries_.size()) grow();
    const std::uint32_t tag = key.tag();
    std::size_t at = tag & mask();
    for (; entries_[at].number != kNone; at = (at + 1) & mask())
      if (entries_[at].tag == tag && key_of_(entries_[at].number) == key) return false;
    entries_[at] = {tag, number};
    ++size_;
    return true;
  }

  std::uint32_t find(const Key& key) const {
    if (size_ == 0) return kNone;
    const std::uint32_t tag = key.tag();
    for (std::size_t at = tag & mask(); entries_[at].number != kNone; at = (at + 1) & mask())
      if (entries_[at].tag == tag && key_of_(entries_[at].number) == key) return entries_[at].number;
    return kNone;
  }

  // Starts to bring what find() or erase() will need into the cache.
  void prefetch(const Key& key) const {
    if (size_ > 0) __builtin_prefetch(&entries_[key.tag() & mask()]);
  }

  // Removes exactly this number; does nothing if it is not here (its key was taken by another).
  void erase(const Key& key, std::uint32_t number) {
    if (size_ == 0) return;
    std::size_t at = key.tag() & mask();
    while (entries_[at].number != number) {
      if (entries_[at].number == kNone) return;
      at = (at + 1) & mask();
    }
    --size_;
    if (size_ == 0 && entries_.size() > kKept)
      release(entries_);
    else
      close_gap(at);
  }

 private:
  struct Entry {
    std::uint32_t tag = 0;
    std::uint32_t number = kNone;
  };
  static constexpr std::size_t kKept = 65536;  // room that an empty index keeps

  std::size_t mask() const { return entries_.size() - 1; }

  void close_gap(std::size_t hole) {
    for (std::size_t at = (hole + 1) & mask(); entries_[at].number != kNone; at = (at + 1) & mask()) {
      const std::size_t home = entries_[at].tag & mask();
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;  // it would come to lie before its home
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole].number = kNone;
  }

  void grow() {
    std::vector<Entry> old(entries_.empty() ? 64 : 2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.number == kNone) continue;
      std::size_t at = entry.tag & mask();
      while (entries_[at].number != kNone) at = (at + 1) & mask();
      entries_[at] = entry;
    }
  }

  KeyOf key_of_;
  std::vector<Entry> entries_;  // a power of two of them, at most three quarters in use
  std::size_t size_ = 0;
};

}  // namespace tutti
