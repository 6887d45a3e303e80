// SPDX-License-Identifier: Apache-2.0
// Callback mode: a thread that takes batches from a scheduler and calls the user's functions.
#pragma once

#include <tutti/sched.h>
#include <tutti/tutti.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "capi/dispatched_batches.h"

namespace tutti {

// Thread-safe. Its thread ends when the scheduler is stopped and has no requests left.
class Dispatcher {
 public:
  // Starts the thread. All arguments outlive the dispatcher; neither callback is null.
  Dispatcher(Scheduler& scheduler, DispatchedBatches& batches, const tutti_callbacks& callbacks);
  ~Dispatcher();  // waits for the thread: the scheduler must be stopped, and the caller must not be a callback

  bool inside_callback() const { return std::this_thread::get_id() == id_.load(); }
  void wait_until_done() { done_.wait(); }
  std::uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }

 private:
  using Callback = void (*)(const tutti_request*, std::size_t, void*);

  void run();
  void serve(const Scheduler::Dispatched& batch);
  void hand_over(const Scheduler::Dispatched& batch);
  bool call(Callback callback, std::span<const tutti_request> requests);

  Scheduler& scheduler_;
  DispatchedBatches& dispatched_;
  const tutti_callbacks callbacks_;
  std::vector<tutti_request> requests_;           // of the current batch; used by the thread only
  std::vector<Scheduler::Dispatched> completed_;  // used by the thread only
  std::atomic<std::uint64_t> failures_ = 0;
  std::latch done_{1};
  std::atomic<std::thread::id> id_;  // of the thread, set by itself
  std::thread thread_;
};

}  // namespace tutti
