// SPDX-License-Identifier: Apache-2.0
// Time as a dependency: the code that waits cannot tell a real clock from a manual one.
#pragma once

#include <tutti/base.h>

#include <condition_variable>
#include <mutex>
#include <vector>

namespace tutti {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;

  // Waits until `wakeup` is notified or the clock reaches `until`; may return early, as condition variables do.
  virtual void wait(std::condition_variable& wakeup, std::unique_lock<std::mutex>& lock, TimePoint until) = 0;
};

// The machine's wall clock. Waits are measured on the steady clock, so a jump of the wall clock cannot stretch them.
class RealClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::system_clock::now(); }
  void wait(std::condition_variable& wakeup, std::unique_lock<std::mutex>& lock, TimePoint until) override;
};

// The process-wide real clock.
Clock& real_clock();

// Stands still until told to move. Waiters wake when they are notified or when the clock has moved.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(TimePoint start = TimePoint{}) : now_(start) {}

  TimePoint now() const override;
  void wait(std::condition_variable& wakeup, std::unique_lock<std::mutex>& lock, TimePoint until) override;

  void advance(Duration by) { set(now() + by); }
  void set(TimePoint to);  // backwards too

 private:
  struct Waiter {
    std::condition_variable* wakeup;
    std::mutex* mutex;
  };

  mutable std::mutex mutex_;
  TimePoint now_;
  std::vector<Waiter> waiters_;
};

}  // namespace tutti
