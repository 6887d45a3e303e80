// SPDX-License-Identifier: Apache-2.0
// A hash index of small numbers (slots, runs): finds the number of an object by the object's key, which stays with the
// object. Eight bytes per entry, and keys that are used together lie together: with a million requests queued, this
// keeps memory under 200 bytes per request and most look-ups in the cache.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "sched/probing_table.h"

namespace tutti {

// A tag from a hash of the whole key and an index that is close for keys that are used together.
inline std::uint32_t make_tag(std::uint64_t hash, std::uint64_t place) {
  return (static_cast<std::uint32_t>(hash) & 0xfff00000u) | (static_cast<std::uint32_t>(place) & 0x000fffffu);
}

// `KeyOf` is a function object: number -> key; a key has == and tag(), 32 bits made by make_tag().
// The object's key is read only where tags agree.
template <typename KeyOf>
class TagIndex {
 public:
  using Key = std::invoke_result_t<KeyOf, std::uint32_t>;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit TagIndex(KeyOf key_of) : key_of_(key_of) {}

  std::size_t size() const { return table_.size(); }
  bool empty() const { return table_.empty(); }

  // False, and nothing happens, if a number with that key is here already.
  bool insert(const Key& key, std::uint32_t number) {
    const std::uint32_t tag = key.tag();
    return table_.insert({tag, number}, [&](const Entry& entry) { return has_key(entry, tag, key); });
  }

  std::uint32_t find(const Key& key) const {
    const std::uint32_t tag = key.tag();
    const Entry* entry = table_.find(tag, [&](const Entry& e) { return has_key(e, tag, key); });
    return entry ? entry->number : kNone;
  }

  // The number that find() will probably return, without reading the object.
  std::uint32_t guess(const Key& key) const {
    const std::uint32_t tag = key.tag();
    const Entry* entry = table_.find(tag, [&](const Entry& e) { return e.tag == tag; });
    return entry ? entry->number : kNone;
  }

  std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> all;
    table_.for_each([&](const Entry& entry) { all.push_back(entry.number); });
    return all;
  }

  // Prefetches what find() or erase() will need.
  void prefetch(const Key& key) const { table_.prefetch(key.tag()); }

  // Removes exactly this number; does nothing if it is not here (its key was taken by another).
  void erase(const Key& key, std::uint32_t number) {
    if (Entry* entry = table_.find(key.tag(), [&](const Entry& e) { return e.number == number; })) table_.erase(entry);
  }

 private:
  struct Entry {
    std::uint32_t tag = 0;
    std::uint32_t number = kNone;
    bool vacant() const { return number == kNone; }
    std::size_t home() const { return tag; }
  };

  bool has_key(const Entry& entry, std::uint32_t tag, const Key& key) const {
    return entry.tag == tag && key_of_(entry.number) == key;
  }

  KeyOf key_of_;
  ProbingTable<Entry> table_;
};

}  // namespace tutti
