// SPDX-License-Identifier: Apache-2.0
// Measures whether waiting for predicted requests saves time of the server.
#pragma once

#include <tutti/base.h>

#include <algorithm>

namespace tutti {

// Waits are allowed while the balance is above zero. It begins with a small allowance, gains what waits saved and loses
// what they cost. 1/400 of the time that passes is added, so that waits which cost more than they saved are tried again
// from time to time.
// Plain data.
class GainAccount {
 public:
  // `unit`: what merging two batches into one saves.
  bool allows(TimePoint now, Duration unit) {
    if (!begun_) {
      begun_ = true;
      balance_ = kAllowance * unit;
    } else if (now > updated_) {
      balance_ = std::min(balance_ + std::min<Duration>((now - updated_) / kShare, unit), kMost * unit);
    }
    updated_ = now;
    return balance_ > Duration::zero();
  }
  void add(Duration saved, Duration cost, Duration unit) {
    balance_ = std::clamp(balance_ + saved - cost, -kMost * unit, kMost * unit);
  }
  Duration balance() const { return balance_; }

 private:
  static constexpr int kAllowance = 2, kMost = 64, kShare = 400;
  Duration balance_{};
  TimePoint updated_{};
  bool begun_ = false;
};

}  // namespace tutti
