// SPDX-License-Identifier: Apache-2.0
// The clock interface, with a real and a manual implementation. Code that waits works with both.
#pragma once

#include <tutti/base.h>

#include <condition_variable>
#include <vector>

#include "base/mutex.h"

namespace tutti {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Wall-clock time: comparable between machines with synchronised clocks; may jump. For stamps and for display.
  virtual TimePoint now() const = 0;
  // Monotonic time, including time in which the machine was suspended; its origin is arbitrary. For timeouts, deadlines
  // and timers.
  virtual TimePoint steady() const = 0;

  // Waits until `wakeup` is notified or now() reaches `until`; may return early, as condition variables do.
  virtual void wait(std::condition_variable& wakeup, Lock& lock, TimePoint until) = 0;
};

// The machine's clocks. Waits are measured on the steady clock, so a jump of the wall clock cannot make them longer.
class RealClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::system_clock::now(); }
  TimePoint steady() const override;
  void wait(std::condition_variable& wakeup, Lock& lock, TimePoint until) override;
};

// The process-wide real clock.
Clock& real_clock();

// For tests: changes only by advance() and set(). Waiters wake when they are notified or when the clock changes.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(TimePoint start = TimePoint{}) : now_(start) {}

  TimePoint now() const override;
  TimePoint steady() const override { return now(); }
  void wait(std::condition_variable& wakeup, Lock& lock, TimePoint until) override;

  void advance(Duration by) { set(now() + by); }
  void set(TimePoint to);  // backwards too

 private:
  struct Waiter {
    std::condition_variable* wakeup;
    Mutex* mutex;
  };

  mutable Mutex mutex_;
  TimePoint now_ TUTTI_GUARDED_BY(mutex_);
  std::vector<Waiter> waiters_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
