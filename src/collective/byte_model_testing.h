// SPDX-License-Identifier: Apache-2.0
// Executes plans on files and memories that are arrays of bytes, and checks the rules of plan.h on the way.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "collective/plan.h"

namespace tutti::collective::testing {

using Content = std::vector<std::uint8_t>;
using Buffer = std::map<std::uint64_t, std::uint8_t>;  // by file offset

// Ranks, their memory, and the file.
class ByteModel {
 public:
  ByteModel(const Collective& collective, Content file) : collective_(collective), file_(std::move(file)) {
    for (std::size_t rank = 0; rank < collective.lists.size(); ++rank) {
      maps_.emplace_back(collective.lists[rank]);
      memory_.emplace_back(maps_.back().size(), std::uint8_t{0});
      received_.emplace_back(maps_.back().size(), 0);
    }
  }

  // Fills the memory of ranks with different bytes, none of them 0.
  void fill_memory() {
    for (std::size_t rank = 0; rank < memory_.size(); ++rank)
      for (std::size_t i = 0; i < memory_[rank].size(); ++i)
        memory_[rank][i] = static_cast<std::uint8_t>(1 + (rank * 37 + i * 11) % 255);
  }

  void execute(const std::vector<RankPlan>& plans) {
    ASSERT_EQ(plans.size(), memory_.size());
    for (std::uint32_t round = 0; round < plans.front().rounds; ++round) {
      std::vector<Buffer> buffers(plans.size());
      const bool exchanges = has_exchanges(plans.front());
      if (collective_.direction == Direction::kWrite) {
        if (exchanges) exchange(plans, round, buffers);
        for (Rank rank = 0; rank < plans.size(); ++rank) write(plans[rank], rank, round, buffers[rank]);
      } else {
        for (Rank rank = 0; rank < plans.size(); ++rank) read(plans[rank], rank, round, buffers[rank]);
        if (exchanges) exchange(plans, round, buffers);
        for (Rank rank = 0; rank < plans.size(); ++rank) read_directly(plans[rank], rank, round);
      }
    }
  }

  static bool has_exchanges(const RankPlan& plan) {
    return plan.kind == PlanKind::kTwoPhase || plan.kind == PlanKind::kResonant;
  }

  const Content& file() const { return file_; }
  const Content& memory(Rank rank) const { return memory_[rank]; }
  const PackedMemory& map(Rank rank) const { return maps_[rank]; }
  // How often each byte of a rank's memory arrived.
  const std::vector<int>& received(Rank rank) const { return received_[rank]; }

 private:
  template <typename Visit>
  void each_part(Rank rank, const Extent& extent, Visit&& visit) const {
    std::vector<PackedMemory::Part> parts;
    maps_[rank].find(extent, parts);
    for (const auto& part : parts)
      for (std::uint64_t i = 0; i < part.length; ++i) visit(part.offset + i, part.position + i);
  }

  // Every send has a receive with the same extents. Receives are applied in list order.
  void exchange(const std::vector<RankPlan>& plans, std::uint32_t round, std::vector<Buffer>& buffers) {
    std::size_t sends = 0, receives = 0;
    for (const RankPlan& plan : plans)
      sends += static_cast<std::size_t>(
          std::count_if(plan.sends.begin(), plan.sends.end(), [&](const Exchange& e) { return e.round == round; }));
    for (Rank rank = 0; rank < plans.size(); ++rank)
      for (const Exchange& receive : plans[rank].receives) {
        if (receive.round != round) continue;
        ++receives;
        const RankPlan& sender = plans[receive.peer];
        const auto send = std::find_if(sender.sends.begin(), sender.sends.end(),
                                       [&](const Exchange& each) { return each.round == round && each.peer == rank; });
        ASSERT_NE(send, sender.sends.end()) << "rank " << rank << " receives from " << receive.peer;
        const auto sent = sender.of(send->extents);
        const auto expected = plans[rank].of(receive.extents);
        ASSERT_TRUE(std::equal(sent.begin(), sent.end(), expected.begin(), expected.end()));
        for (const Extent& extent : expected) deliver({receive.peer, rank}, extent, buffers);
      }
    EXPECT_EQ(sends, receives);
  }

  struct Route {
    Rank from;
    Rank to;
  };

  void deliver(const Route& route, const Extent& extent, std::vector<Buffer>& buffers) {
    if (collective_.direction == Direction::kWrite) {
      std::uint64_t bytes = 0;
      each_part(route.from, extent, [&](std::uint64_t offset, std::uint64_t position) {
        buffers[route.to][offset] = memory_[route.from][position];
        ++bytes;
      });
      EXPECT_EQ(bytes, extent.length) << "the sender has all bytes that it sends";
      return;
    }
    std::set<std::uint64_t> offsets;
    each_part(route.to, extent, [&](std::uint64_t offset, std::uint64_t position) {
      const auto found = buffers[route.from].find(offset);
      ASSERT_NE(found, buffers[route.from].end()) << "the agent has read byte " << offset;
      memory_[route.to][position] = found->second;
      ++received_[route.to][position];
      offsets.insert(offset);
    });
    EXPECT_EQ(offsets.size(), extent.length) << "the receiver needs all bytes that it receives";
  }

  void write(const RankPlan& plan, Rank rank, std::uint32_t round, const Buffer& buffer) {
    for (const IoRequest& request : plan.requests) {
      if (request.round != round) continue;
      for (const Extent& extent : plan.of(request.extents)) {
        if (has_exchanges(plan)) {
          for (std::uint64_t offset = extent.offset; offset < extent.end(); ++offset) {
            const auto found = buffer.find(offset);
            ASSERT_NE(found, buffer.end()) << "byte " << offset << " was exchanged before it is written";
            file_.at(offset) = found->second;
          }
        } else {
          std::uint64_t bytes = 0;
          each_part(rank, extent, [&](std::uint64_t offset, std::uint64_t position) {
            file_.at(offset) = memory_[rank][position];
            ++bytes;
          });
          EXPECT_EQ(bytes, extent.length);
        }
      }
    }
  }

  void read(const RankPlan& plan, Rank rank, std::uint32_t round, Buffer& buffer) {
    for (const IoRequest& request : plan.requests) {
      if (request.round != round) continue;
      for (const Extent& extent : plan.of(request.extents)) {
        if (has_exchanges(plan))
          for (std::uint64_t offset = extent.offset; offset < extent.end(); ++offset) buffer[offset] = file_.at(offset);
        else
          read_own(rank, extent);
      }
    }
  }

  void read_directly(const RankPlan& plan, Rank rank, std::uint32_t round) {
    for (const IoRequest& request : plan.direct)
      if (request.round == round)
        for (const Extent& extent : plan.of(request.extents)) read_own(rank, extent);
  }

  void read_own(Rank rank, const Extent& extent) {
    std::set<std::uint64_t> offsets;
    each_part(rank, extent, [&](std::uint64_t offset, std::uint64_t position) {
      memory_[rank][position] = file_.at(offset);
      ++received_[rank][position];
      offsets.insert(offset);
    });
    EXPECT_EQ(offsets.size(), extent.length) << "a rank reads only what it needs";
  }

  const Collective& collective_;
  Content file_;
  std::vector<PackedMemory> maps_;
  std::vector<Content> memory_;
  std::vector<std::vector<int>> received_;
};

// Calls visit(file offset, position in packed memory) for each byte of the list in its order, without PackedMemory.
template <typename Visit>
void each_byte(const AccessList& list, Visit&& visit) {
  std::uint64_t position = 0;
  for (const ExtentRun& run : list)
    for (std::uint64_t i = 0; i < run.count; ++i)
      for (std::uint64_t k = 0; k < run.length; ++k) visit(run.offset + i * run.stride + k, position++);
}

}  // namespace tutti::collective::testing
