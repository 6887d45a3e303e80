// SPDX-License-Identifier: Apache-2.0
// Things found by a key and kept while in use: a policy's queues per file, groups per application, ...
// A thing that is closed keeps its memory for the next one to be opened.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <vector>

namespace tutti {

// Thing has a member `key`, a default constructor and `void reset()`, which makes it as new.
template <typename Key, typename Thing>
class Pool {
 public:
  using Number = std::uint32_t;

  // The thing with that key, opened if there is none.
  Number open(const Key& key) {
    const auto [it, added] = numbers_.try_emplace(key, Number{0});
    if (!added) return it->second;
    if (free_.empty()) {
      free_.push_back(static_cast<Number>(things_.size()));
      things_.emplace_back();
    }
    it->second = free_.back();
    free_.pop_back();
    things_[it->second].key = key;
    return it->second;
  }

  void close(Number number) {
    numbers_.erase(things_[number].key);
    things_[number].reset();
    free_.push_back(number);
    if (numbers_.empty() && things_.size() > kKept) *this = Pool();
  }

  // Valid until the next open().
  Thing& operator[](Number number) { return things_[number]; }
  std::size_t size() const { return numbers_.size(); }
  std::vector<Number> numbers() const {  // of all that are open
    std::vector<Number> all;
    for (const auto& [key, number] : numbers_) all.push_back(number);
    return all;
  }

 private:
  static constexpr std::size_t kKept = 256;  // closed things that an empty pool keeps

  boost::unordered_flat_map<Key, Number> numbers_;
  std::vector<Thing> things_;
  std::vector<Number> free_;
};

}  // namespace tutti
