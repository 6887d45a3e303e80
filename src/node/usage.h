// SPDX-License-Identifier: Apache-2.0
// Who used which target how much: what `tutti top` shows.
#pragma once

#include <tutti/sched.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "wire/messages.h"

namespace tutti::node {

// Not thread-safe. Bounded: past the limit, those who have not been heard of for longest and wait for nothing go.
class UsageTable {
 public:
  explicit UsageTable(std::size_t limit = 16384) : limit_(limit) {}

  struct Transfer {
    ApplicationId application = 0;
    TargetId target = 0;
    Direction direction = Direction::kRead;
    std::uint64_t bytes = 0;
  };

  void arrived(const Transfer& transfer, const std::string& job);
  // `moved` of its bytes were transferred.
  void finished(const Transfer& transfer, std::uint64_t moved, const wire::Timing& timing);

  // The most recently active ones, as many as fit into a message body of that size.
  std::vector<wire::Usage> report(std::size_t body) const;
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    wire::Usage usage;
    std::uint64_t touched = 0;
  };

  static std::uint64_t key(const Transfer& transfer) {
    return std::uint64_t{transfer.application} << 32 | transfer.target;
  }
  void make_room();

  const std::size_t limit_;
  std::uint64_t clock_ = 0;  // counts touches
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace tutti::node
