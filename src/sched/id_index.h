// SPDX-License-Identifier: Apache-2.0
// Maps request ids to slots.
#pragma once

#include <tutti/sched.h>

#include <array>
#include <cstdint>

#include "sched/probing_table.h"

namespace tutti {

// Callers mostly number their requests in sequence, so four consecutive ids share an entry: neighbours are found and
// erased where the last one was, and nothing has to be moved. 8 to 16 bytes an id when they are dense, 32 to 64 when
// each is alone. Allocates nothing once it is large enough. Not thread-safe.
class IdIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // False, and nothing happens, if the id is here already.
  bool insert(RequestId id, std::uint32_t number) {
    Block* block = find_block(id);
    if (!block) {
      Block fresh;
      fresh.number = id / kIds;
      fresh.numbers[id % kIds] = number;
      blocks_.insert(fresh, [](const Block&) { return false; });
    } else if (block->numbers[id % kIds] != kNone) {
      return false;
    } else {
      block->numbers[id % kIds] = number;
    }
    ++size_;
    return true;
  }

  std::uint32_t find(RequestId id) const {
    const Block* block = const_cast<IdIndex*>(this)->find_block(id);
    return block ? block->numbers[id % kIds] : kNone;
  }

  void erase(RequestId id) {  // which is here
    Block* block = find_block(id);
    block->numbers[id % kIds] = kNone;
    --size_;
    if (block->vacant()) blocks_.erase(block);
  }

  // Prefetches what find() or erase() will need, which is seldom more than two cache lines.
  void prefetch(RequestId id, std::size_t lines = 1) const { blocks_.prefetch(mix(id / kIds), lines); }

 private:
  static constexpr std::size_t kIds = 4;  // in a block
  struct Block {
    std::uint64_t number = 0;
    std::array<std::uint32_t, kIds> numbers = {kNone, kNone, kNone, kNone};
    bool vacant() const { return (numbers[0] & numbers[1] & numbers[2] & numbers[3]) == kNone; }
    std::size_t home() const { return mix(number); }
  };

  Block* find_block(RequestId id) {
    return blocks_.find(mix(id / kIds), [&](const Block& block) { return block.number == id / kIds; });
  }

  ProbingTable<Block> blocks_;
  std::size_t size_ = 0;
};

}  // namespace tutti
