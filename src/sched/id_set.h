// SPDX-License-Identifier: Apache-2.0
// The set of ids in use.
#pragma once

#include <tutti/sched.h>

#include <cstdint>

#include "sched/probing_table.h"

namespace tutti {

// Callers mostly number their requests in sequence, so ids are kept as bits of blocks of 64: less than a byte each
// when they are dense, at most 43 bytes when each is alone in its block. Allocates nothing once it is large enough.
// Not thread-safe.
class IdSet {
 public:
  bool insert(RequestId id) {  // false: it is here already
    if (Block* block = find(id)) {
      const bool added = (block->ids & bit(id)) == 0;
      block->ids |= bit(id);
      return added;
    }
    return blocks_.insert({number(id), bit(id)}, [](const Block&) { return false; });
  }

  void erase(RequestId id) {  // does nothing if it is not here
    Block* block = find(id);
    if (!block) return;
    if (block->ids == bit(id)) return blocks_.erase(block);
    block->ids &= ~bit(id);
  }

 private:
  struct Block {
    std::uint64_t number = 0;
    std::uint64_t ids = 0;  // a bit each
    bool vacant() const { return ids == 0; }
    std::size_t home() const { return mix(number); }
  };

  static std::uint64_t number(RequestId id) { return id / 64; }
  static std::uint64_t bit(RequestId id) { return std::uint64_t{1} << (id % 64); }
  Block* find(RequestId id) {
    return blocks_.find(mix(number(id)), [&](const Block& block) { return block.number == number(id); });
  }

  ProbingTable<Block> blocks_;
};

}  // namespace tutti
