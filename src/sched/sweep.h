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

class Sweep {
 public:
  struct Place {
    std::int64_t round = 0;
    std::uint64_t where = 0;
    auto operator<=>(const Place&) const = default;
  };

  // Of a request that has just come.
  Place of(const Request& request) const {
    const std::uint64_t at = where(request);
    return {reached_.round + (at < reached_.where ? 1 : 0), at};
  }
  void reached(const Place& place) { reached_ = place; }

 private:
  Place reached_;
};

}  // namespace tutti
