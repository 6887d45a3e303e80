// SPDX-License-Identifier: Apache-2.0
// The clock of a node's scheduler.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"

namespace tutti::node {

// now() is close to wall-clock time, as policies compare it with stamps, but never goes back: a policy measures its
// waits with it. Thread-safe.
class PolicyClock final : public Clock {
 public:
  // `clock` must outlive this object.
  explicit PolicyClock(Clock& clock) : clock_(clock), ahead_(clock.now() - clock.steady()), followed_(clock.steady()) {}

  TimePoint now() const override { return clock_.steady() + ahead_.load(std::memory_order_relaxed); }
  TimePoint steady() const override { return clock_.steady(); }
  void wait(std::condition_variable& wakeup, Lock& lock, TimePoint until) override {
    clock_.wait(wakeup, lock, clock_.now() + (until - now()));
  }

  // Follows the wall clock after it was set: forwards at once, backwards by an eighth of the time since the last call.
  // Call it from time to time, from one thread at a time.
  void follow() {
    const TimePoint steady = clock_.steady();
    const Duration slower = (steady - std::exchange(followed_, steady)) / 8;
    ahead_ = std::max<Duration>(clock_.now() - steady, ahead_.load() - slower);
  }

 private:
  Clock& clock_;
  std::atomic<Duration> ahead_;  // of the steady clock
  TimePoint followed_;
};

}  // namespace tutti::node
