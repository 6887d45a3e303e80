// SPDX-License-Identifier: Apache-2.0
#include "sched/doorbell.h"

#include <algorithm>
#include <thread>

namespace tutti {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::microseconds kMoment{50};  // about what it takes to wake a thread

}  // namespace

void Doorbell::ring() {
  ++news_;
  if (!somebody_sleeps()) return;
  std::unique_lock lock(mutex_);
  if (wakeups_ >= sleepers_) return;  // as many as sleep are about to wake
  ++wakeups_;
  last_rung_ = Steady::now();
  lock.unlock();
  wakeup_.notify_one();
}

void Doorbell::ring_all() {
  ++news_;
  std::unique_lock lock(mutex_);
  wakeups_ = sleepers_;
  lock.unlock();
  wakeup_.notify_all();
}

void Doorbell::wait(News seen, Clock& clock, TimePoint until) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  // Whoever rings after this look sees a sleeper, and then waits for the mutex until it sleeps.
  if (news() == seen) {
    const auto asleep = Steady::now();
    if (until == TimePoint::max())
      wakeup_.wait(lock);
    else
      clock.wait(wakeup_, lock, until);
    worth_watching_ = last_rung_ >= asleep && last_rung_ - asleep < kMoment;
  }
  --sleepers_;
  wakeups_ = std::max(0, wakeups_ - 1);
}

bool Doorbell::watch(News seen) {
  if (!worth_watching_) return false;
  const auto end = Steady::now() + kMoment;
  do {
    for (int i = 0; i < 32; ++i) {
      if (news_.load(std::memory_order_relaxed) != seen) return true;
      __builtin_ia32_pause();
    }
    std::this_thread::yield();  // who brings the news may need this very core
  } while (Steady::now() < end);
  return false;
}

}  // namespace tutti
