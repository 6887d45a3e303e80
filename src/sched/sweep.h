// SPDX-License-Identifier: Apache-2.0
// Elevator order, for policies that serve disks: ascending from the last request served, then from the lowest again.
#pragma once

#include <tutti/sched.h>

#include <compare>
#include <cstdint>

namespace tutti {

// A position on the device: by file, then by offset.
inline std::uint64_t where(const Request& request) {
  return (request.file << 48) + request.offset;
}

// A request's position in the order: by turn, then by position on the device.
struct SweepPosition {
  std::int64_t turn = 0;  // a round of a sweep, or a time
  std::uint64_t where = 0;
  auto operator<=>(const SweepPosition&) const = default;
};

class Sweep {
 public:
  // For a request that has just arrived.
  SweepPosition of(const Request& request) const {
    const std::uint64_t at = where(request);
    return {reached_.turn + (at < reached_.where ? 1 : 0), at};
  }
  void reached(const SweepPosition& place) { reached_ = place; }

 private:
  SweepPosition reached_;
};

}  // namespace tutti
