// SPDX-License-Identifier: Apache-2.0
// A client's estimate of its node's clock. No I/O; live and simulated connections use it.
#pragma once

#include <tutti/base.h>

#include <algorithm>

namespace tutti::net {

// A lower bound of the node's steady clock, from samples of it. So a deadline converted to the node's clock never ends
// later than the deadline on this side (docs/design/fencing.md), if two clocks drift by at most kDrift. Not
// thread-safe.
class PeerClock {
 public:
  static constexpr double kDrift = 200e-6;  // relative

  // The node's clock showed `there` at or before `here` on this side's clock. Keeps the best sample. Impossible times
  // are clamped, because the peer is not trusted.
  void sample(TimePoint there, TimePoint here) {
    there = std::clamp(there, TimePoint(-kMost), TimePoint(kMost));
    if (sampled_ && there < node_time(here)) return;
    there_ = there;
    here_ = here;
    sampled_ = true;
  }

  // The node's clock at `here`, or slightly less; never more.
  TimePoint node_time(TimePoint here) const {
    const Duration age = std::max(Duration{0}, here - here_);
    return there_ + (here - here_) - std::chrono::duration_cast<Duration>(age * kDrift);
  }

 private:
  static constexpr Duration kMost = std::chrono::hours(24 * 365 * 100);

  TimePoint there_{}, here_{};
  bool sampled_ = false;
};

}  // namespace tutti::net
