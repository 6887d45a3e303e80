// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <algorithm>
#include <ctime>

#include "base/mutex.h"

namespace tutti {

TimePoint RealClock::steady() const {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

void RealClock::wait(std::condition_variable& wakeup, Lock& lock, TimePoint until) {
  const Duration left = until - now();
  if (left <= Duration::zero()) return;
  // Limited to one hour so that the deadline cannot overflow; callers wait in a loop anyway.
  wakeup.wait_until(lock, std::chrono::steady_clock::now() + std::min<Duration>(left, std::chrono::hours(1)));
}

Clock& real_clock() {
  static RealClock& clock = *new RealClock;  // never destroyed: the timers' thread uses it until the process ends
  return clock;
}

TimePoint ManualClock::now() const {
  Lock guard(mutex_);
  return now_;
}

void ManualClock::wait(std::condition_variable& wakeup, Lock& lock, TimePoint until) {
  const Waiter self{&wakeup, static_cast<Mutex*>(lock.mutex())};
  {
    Lock guard(mutex_);
    if (now_ >= until) return;
    waiters_.push_back(self);
  }
  wakeup.wait(lock);
  Lock guard(mutex_);
  auto it = std::find_if(waiters_.begin(), waiters_.end(),
                         [&](const Waiter& w) { return w.wakeup == self.wakeup && w.mutex == self.mutex; });
  if (it != waiters_.end()) waiters_.erase(it);
}

void ManualClock::set(TimePoint to) {
  std::vector<Waiter> waiters;
  {
    Lock guard(mutex_);
    now_ = to;
    waiters = waiters_;
  }
  // A waiter may have read the clock but not yet be waiting. Locking its mutex ensures that it gets the notification.
  for (const Waiter& waiter : waiters) {
    Lock guard(*waiter.mutex);
    waiter.wakeup->notify_all();
  }
}

}  // namespace tutti
