// SPDX-License-Identifier: Apache-2.0
// An event count: threads wait for an event without holding the lock of the data that the event changes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace tutti {

// A waiter takes a ticket, checks whether there is something to do, and waits for the count to differ from its ticket.
// An event after the check changes the count, so no event is missed. Notifying costs one addition while no thread
// sleeps. Thread-safe.
class EventCount {
 public:
  using Ticket = std::uint64_t;

  Ticket ticket() const { return count_.load(); }

  // There is something to do for one waiter, or for all of them.
  void notify_one();
  void notify_all();

  bool has_sleepers() const { return sleepers_.load() > 0; }

  // Waits until there is an event after `seen`, or the clock reaches `until`; may return early.
  void wait(Ticket seen, Clock& clock, TimePoint until);

  // Spins for up to 50 us, if the last wait was that short: far cheaper than sleeping. Returns at once if the last wait
  // was longer. True if there is an event after `seen`.
  bool spin(Ticket seen);

 private:
  std::atomic<Ticket> count_{0};
  std::atomic<int> sleepers_{0};  // changed under the mutex
  std::atomic<bool> worth_spinning_{false};
  Mutex mutex_;
  std::condition_variable wakeup_;
  int wakeups_ TUTTI_GUARDED_BY(mutex_) = 0;  // notifications on their way to sleepers
  std::chrono::steady_clock::time_point last_notified_ TUTTI_GUARDED_BY(mutex_);  // with a sleeper
};

}  // namespace tutti
