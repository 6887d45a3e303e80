// SPDX-License-Identifier: Apache-2.0
// The order of an elevator, for policies that serve disks: upwards from the last one served, then from the lowest
// again.
#pragma once

#include <tutti/sched.h>

#include <compare>
#include <cstdint>

namespace tutti {

// Files apart, offsets ascending.
inline std::uint64_t where(const Request& request) {
  return (request.file << 48) + request.offset;
}

// What is served in turn and, of what has the same turn, by where it is.
struct Place {
  std::int64_t turn = 0;  // a round of a sweep, or a time
  std::uint64_t where = 0;
  auto operator<=>(const Place&) const = default;
};

class Sweep {
 public:
  // Of a request that has just come.
  Place of(const Request& request) const {
    const std::uint64_t at = where(request);
    return {reached_.turn + (at < reached_.where ? 1 : 0), at};
  }
  void reached(const Place& place) { reached_ = place; }

 private:
  Place reached_;
};

}  // namespace tutti
