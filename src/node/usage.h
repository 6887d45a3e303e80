// SPDX-License-Identifier: Apache-2.0
// I/O counters per application and target, shown by `tutti top`.
#pragma once

#include <tutti/sched.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "wire/messages.h"

namespace tutti::node {

// Has at most about `limit` rows: when it is full, the older half of the rows without waiting requests is removed.
// Not thread-safe.
class UsageTable {
 public:
  explicit UsageTable(std::size_t limit = 16384) : limit_(limit) {}

  struct Transfer {
    ApplicationId application = 0;
    UserId user = 0;
    TargetId target = 0;
    Direction direction = Direction::kRead;
    std::uint64_t bytes = 0;
    std::uint64_t announced = 0;  // size of the phase according to the stamp
  };

  void arrived(const Transfer& transfer, const std::string& job);
  // `moved`: bytes that were transferred.
  void finished(const Transfer& transfer, std::uint64_t moved, const wire::Timing& timing);

  struct Page {
    std::vector<wire::Usage> rows;  // ascending by usage_key()
    bool more = false;
  };
  // At most wire::kMaxUsage rows with usage_key() >= `first`.
  Page page(const wire::UsageKey& first) const;
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    wire::Usage usage;
    std::uint64_t touched = 0;  // clock_ at its last arrival
  };

  static wire::UsageKey key(const Transfer& transfer) { return {transfer.application, transfer.user, transfer.target}; }
  void make_room();

  const std::size_t limit_;
  std::uint64_t clock_ = 0;  // number of arrivals
  boost::unordered_flat_map<wire::UsageKey, Entry, boost::hash<wire::UsageKey>> entries_;
};

}  // namespace tutti::node
