// SPDX-License-Identifier: Apache-2.0
// Lets a command clean up before SIGINT, SIGTERM or SIGHUP ends it.
#pragma once

#include <signal.h>

#include <atomic>
#include <thread>

namespace tutti::cli {

// Receives the three signals on a thread of its own, so that nothing runs in a signal handler.
//
// Before protect() a signal ends the process at once, as if this object did not exist. After protect() the first signal
// only makes number() non-zero: the command stops its work, cleans up and calls end_process(). If that takes more than
// a second, a message says so, and the next signal ends the process at once. Signals that are ignored when the object
// is created (nohup) stay ignored.
//
// At most one object per process. Create it before any other thread: threads inherit the signal mask that it sets.
// number() and wait_until_readable() are thread-safe.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // restores the signal mask of the calling thread
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void protect() { protected_ = true; }
  // The signal that arrived after protect(); 0: none.
  int number() const { return number_; }
  // Waits until `descriptor` can be read without blocking, is closed by its peer, or has failed. False: a signal
  // arrived.
  bool wait_until_readable(int descriptor) const;
  // Ends the process with the default action of the signal that arrived, so that a shell sees 128 + number(). Returns
  // if none arrived.
  void end_process() const;

 private:
  void receive();
  bool wait_for_repeats() const;

  sigset_t watched_{}, mask_before_{};
  int signals_ = -1;                   // signalfd
  int stopped_ = -1, destroyed_ = -1;  // eventfd: a signal arrived; the thread shall end
  std::atomic<bool> protected_ = false;
  std::atomic<int> number_ = 0;
  std::thread receiver_;
};

}  // namespace tutti::cli
