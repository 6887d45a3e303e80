// SPDX-License-Identifier: Apache-2.0
// How threads wait for news of others without a lock between them: an event count.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace tutti {

// Who waits notes the number of the last news, looks whether there is something to do, and waits for the number to
// change: whatever happened after the look has changed it, so nothing is missed. Ringing costs an addition while
// nobody sleeps. Thread-safe.
class Doorbell {
 public:
  using News = std::uint64_t;

  News news() const { return news_.load(); }

  // There is something to do for one who waits, or for all of them.
  void ring();
  void ring_all();

  bool somebody_sleeps() const { return sleepers_.load() > 0; }

  // Waits until there is news after `seen`, or the clock reaches `until`; may return early.
  void wait(News seen, Clock& clock, TimePoint until);

  // Waits a moment without going to sleep, if that would have been enough the last time: it is far cheaper, and where
  // news is rare this returns at once. True if there is news.
  bool watch(News seen);

 private:
  std::atomic<News> news_{0};
  std::atomic<int> sleepers_{0};  // changed under the mutex
  std::atomic<bool> worth_watching_{false};
  std::mutex mutex_;
  std::condition_variable wakeup_;
  int wakeups_ = 0;                                  // notifications on their way to sleepers
  std::chrono::steady_clock::time_point last_rung_;  // for a sleeper
};

}  // namespace tutti
