// SPDX-License-Identifier: Apache-2.0
#include "sched/event_count.h"

#include <algorithm>
#include <thread>

#include "base/mutex.h"

namespace tutti {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::microseconds kMoment{50};  // about what it takes to wake a thread

}  // namespace

void EventCount::notify_one() {
  ++count_;
  if (!has_sleepers()) return;
  Lock lock(mutex_);
  if (wakeups_ >= sleepers_) return;  // all sleepers are about to wake
  ++wakeups_;
  last_notified_ = Steady::now();
  lock.unlock();
  wakeup_.notify_one();
}

void EventCount::notify_all() {
  ++count_;
  Lock lock(mutex_);
  wakeups_ = sleepers_;
  lock.unlock();
  wakeup_.notify_all();
}

void EventCount::wait(Ticket seen, Clock& clock, TimePoint until) {
  Lock lock(mutex_);
  ++sleepers_;
  // A notifier after this check sees a sleeper, and then waits for the mutex until it sleeps.
  if (ticket() == seen) {
    const auto asleep = Steady::now();
    if (until == TimePoint::max())
      wakeup_.wait(lock);
    else
      clock.wait(wakeup_, lock, until);
    worth_spinning_ = last_notified_ >= asleep && last_notified_ - asleep < kMoment;
  }
  --sleepers_;
  wakeups_ = std::max(0, wakeups_ - 1);
}

bool EventCount::spin(Ticket seen) {
  if (!worth_spinning_) return false;
  const auto end = Steady::now() + kMoment;
  do {
    for (int i = 0; i < 32; ++i) {
      if (count_.load(std::memory_order_relaxed) != seen) return true;
      __builtin_ia32_pause();
    }
    std::this_thread::yield();  // the notifier may need this very core
  } while (Steady::now() < end);
  return false;
}

}  // namespace tutti
