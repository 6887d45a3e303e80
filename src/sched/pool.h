// SPDX-License-Identifier: Apache-2.0
// Objects found by a key and kept while in use: a policy's queues per file, per application, per phase.
// A closed object keeps its memory for the next one to be opened.
#pragma once

#include <boost/container_hash/hash.hpp>
#include <cstdint>
#include <vector>

#include "sched/tag_index.h"

namespace tutti {

// Thing has a member `key`, a default constructor and `void reset()`, which makes it equal to a new one.
template <typename Key, typename Thing>
class Pool {
 public:
  using Number = std::uint32_t;
  static constexpr Number kNone = ~Number{0};

  Pool() : index_(KeyOf{this}) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // The number of the object with that key; opens one if there is none.
  Number open(const Key& key) {
    const Number known = index_.find(Tagged{key});
    if (known != index_.kNone) return known;
    if (free_.empty()) {
      free_.push_back(static_cast<Number>(things_.size()));
      things_.emplace_back();
    }
    const Number number = free_.back();
    free_.pop_back();
    things_[number].key = key;
    index_.insert(Tagged{key}, number);
    return number;
  }

  // The number of the object with that key; kNone if there is none.
  Number find(const Key& key) const { return index_.find(Tagged{key}); }

  void close(Number number) {
    index_.erase(Tagged{things_[number].key}, number);
    things_[number].reset();
    free_.push_back(number);
    if (index_.empty() && things_.size() > kKept) release(things_), release(free_);
  }

  // Prefetches what open() will need.
  void expect(const Key& key) const {
    index_.prefetch(Tagged{key});
    prefetch_line(things_.data() + things_.size());
  }

  // Valid until the next open().
  Thing& operator[](Number number) { return things_[number]; }
  const Thing& operator[](Number number) const { return things_[number]; }
  std::size_t size() const { return index_.size(); }
  std::vector<Number> numbers() const { return index_.numbers(); }  // of all that are open

 private:
  static constexpr std::size_t kKept = 256;  // closed things that an empty pool keeps

  struct Tagged {
    Key key;
    bool operator==(const Tagged&) const = default;
    std::uint32_t tag() const {
      const std::uint64_t hash = mix(boost::hash<Key>{}(key));
      return make_tag(hash, hash >> 32);
    }
  };
  struct KeyOf {
    const Pool* pool;
    Tagged operator()(Number number) const { return {pool->things_[number].key}; }
  };

  TagIndex<KeyOf> index_;
  std::vector<Thing> things_;
  std::vector<Number> free_;
};

}  // namespace tutti
