// SPDX-License-Identifier: Apache-2.0
// The waiting requests of one phase, for policies that order phases.
#pragma once

#include <tutti/sched.h>

#include <algorithm>
#include <cstdint>

#include "sched/heaps.h"
#include "sched/probing_table.h"
#include "sched/sweep.h"

namespace tutti {

struct PhaseKey {
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  UserId user = 0;
  bool operator==(const PhaseKey&) const = default;
  friend std::size_t hash_value(const PhaseKey& key) {
    return mix((std::uint64_t{key.application} << 32 | key.phase) + key.user * 0x9e3779b97f4a7c15);
  }
};

inline PhaseKey phase_of(const Stamp& stamp) {
  return {stamp.application, stamp.phase, stamp.user};
}

// What the phase has issued, up to and including this operation, on its busiest target.
inline Bytes shown(const Stamp& stamp) {
  return stamp.attained + stamp.bottleneck;
}

// Sizes come from clients: larger ones count as this, so that sums and products do not overflow.
inline constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 42;

// The bytes that a request counts as when service is shared.
inline std::int64_t cost(const Request& request) {
  constexpr std::uint64_t kLeast = 4096;  // so that tiny requests count, too
  return static_cast<std::int64_t>(std::clamp(request.length.count(), kLeast, kLargestSize));
}

// The part of the service that the oldest phase or request gets: one byte in `stretch`, `run` bytes at a time. If the
// device changes to another phase than the oldest, that phase is charged for the seek.
//
// If the oldest is served whenever due() says so, others get at most (stretch - 1) * (b + 2 * run) bytes, and one
// request, while the oldest gets b bytes. Requests larger than `run` count as `run` here.
//
// Not thread-safe.
class OldestShare {
 public:
  struct Options {
    std::int64_t stretch = 8;
    Bytes run{};
    Bytes seek{};
  };
  struct Served {
    bool of_oldest = false;
    bool changed = false;  // the request before it was of another phase
  };

  explicit OldestShare(const Options& options)
      : others_(options.stretch - 1),
        run_(static_cast<std::int64_t>(std::min(options.run.count(), kLargestSize))),
        seek_(static_cast<std::int64_t>(std::min(options.seek.count(), kLargestSize))) {}

  // Whether the oldest is served next; its next request has this cost.
  bool due(std::int64_t cost) {
    if (balance_ >= others_ * std::max(cost, run_)) due_ = true;
    if (balance_ <= 0) due_ = false;
    return due_;
  }
  // A request of this cost is served.
  void served(std::int64_t cost, const Served& how) {
    if (how.of_oldest)
      balance_ = std::max(balance_ - others_ * cost, -others_ * std::max(cost, run_));
    else
      balance_ += cost + (how.changed ? seek_ : 0);
  }
  void clear() {
    balance_ = 0;
    due_ = false;
  }
  std::uint64_t run() const { return static_cast<std::uint64_t>(run_); }

 private:
  const std::int64_t others_, run_, seek_;
  std::int64_t balance_ = 0;  // what others were served and charged, less `others_` times what the oldest was served
  bool due_ = false;
};

}  // namespace tutti
