// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <algorithm>

namespace tutti {

void RealClock::wait(std::condition_variable& wakeup, std::unique_lock<std::mutex>& lock, TimePoint until) {
  const Duration left = until - now();
  if (left <= Duration::zero()) return;
  // A wait of at most an hour at a time keeps the steady deadline far from overflow; callers ask again anyway.
  wakeup.wait_until(lock, std::chrono::steady_clock::now() + std::min<Duration>(left, std::chrono::hours(1)));
}

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

TimePoint ManualClock::now() const {
  std::lock_guard guard(mutex_);
  return now_;
}

void ManualClock::wait(std::condition_variable& wakeup, std::unique_lock<std::mutex>& lock, TimePoint until) {
  const Waiter self{&wakeup, lock.mutex()};
  {
    std::lock_guard guard(mutex_);
    if (now_ >= until) return;
    waiters_.push_back(self);
  }
  wakeup.wait(lock);
  std::lock_guard guard(mutex_);
  auto it = std::find_if(waiters_.begin(), waiters_.end(),
                         [&](const Waiter& w) { return w.wakeup == self.wakeup && w.mutex == self.mutex; });
  if (it != waiters_.end()) waiters_.erase(it);
}

void ManualClock::set(TimePoint to) {
  std::vector<Waiter> waiters;
  {
    std::lock_guard guard(mutex_);
    now_ = to;
    waiters = waiters_;
  }
  // Taking each waiter's mutex closes the gap between its look at the clock and its sleep.
  for (const Waiter& waiter : waiters) {
    std::lock_guard guard(*waiter.mutex);
    waiter.wakeup->notify_all();
  }
}

}  // namespace tutti
