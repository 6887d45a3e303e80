// SPDX-License-Identifier: Apache-2.0
// Lets threads wait, for a limited time, until something has changed. Costs one load where nobody waits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tutti {

// Thread-safe. Make a Waiter, look whether there is something to do, and only if not, wait: a change announced after
// the Waiter was made is never missed.
class Changes {
 public:
  // After the change is visible to others.
  void announce() {
    if (waiters_.load() == 0) return;
    {
      std::lock_guard guard(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }

  class Waiter {
   public:
    explicit Waiter(Changes& changes) : changes_(changes) {
      ++changes_.waiters_;
      std::lock_guard guard(changes_.mutex_);
      seen_ = changes_.count_;
    }
    ~Waiter() { --changes_.waiters_; }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    // Until something changed that was not seen before, or that time.
    void wait(std::chrono::steady_clock::time_point until) {
      std::unique_lock lock(changes_.mutex_);
      changes_.changed_.wait_until(lock, until, [&] { return changes_.count_ != seen_; });
      seen_ = changes_.count_;
    }

   private:
    Changes& changes_;
    std::uint64_t seen_ = 0;
  };

 private:
  std::atomic<int> waiters_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;  // guarded by mutex_
};

}  // namespace tutti
