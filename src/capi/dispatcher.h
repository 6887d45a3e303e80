// SPDX-License-Identifier: Apache-2.0
// Callback mode: a thread that takes batches from a scheduler and calls the user's functions.
#pragma once

#include <tutti/sched.h>
#include <tutti/tutti.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "capi/flights.h"

namespace tutti {

// Thread-safe. Ends by itself when the scheduler is stopped and has handed out everything.
class Dispatcher {
 public:
  // Starts at once. All arguments outlive the dispatcher; neither callback is null.
  Dispatcher(Scheduler& scheduler, Flights& flights, const tutti_callbacks& callbacks);
  ~Dispatcher();  // the scheduler was stopped; waits for the thread, so never from a callback

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
  Flights& flights_;
  const tutti_callbacks callbacks_;
  std::vector<tutti_request> requests_;        // of the batch under way; used by the thread only
  std::vector<Scheduler::Dispatched> landed_;  // the same
  std::atomic<std::uint64_t> failures_ = 0;
  std::latch done_{1};
  std::atomic<std::thread::id> id_;  // of the thread, set by itself
  std::thread thread_;
};

}  // namespace tutti
