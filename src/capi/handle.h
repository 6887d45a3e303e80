// SPDX-License-Identifier: Apache-2.0
// The struct behind tutti_scheduler*.
#pragma once

#include <tutti/sched.h>
#include <tutti/tutti.h>

#include <atomic>
#include <memory>
#include <span>

#include "capi/dispatched_batches.h"
#include "capi/dispatcher.h"
#include "trace/recorder.h"

// A scheduler for C callers: checks arguments and keeps the C++ objects. Thread-safe.
struct tutti_scheduler {
 public:
  // `callbacks` null: pull mode.
  static tutti::Result<std::unique_ptr<tutti_scheduler>> create(const tutti_config& config,
                                                                const tutti_callbacks* callbacks);
  // Drops waiting requests. Must not run inside a callback of this scheduler, see may_be_destroyed().
  ~tutti_scheduler();

  tutti::Result<void> add(const tutti_request& request);
  void name_file(std::uint64_t file, const char* name) { scheduler_->name_file(file, name); }
  tutti::Result<void> cancel(std::uint64_t id);
  tutti::Result<void> next(std::int64_t timeout, tutti_batch& batch);
  tutti::Result<void> complete(std::span<const tutti_request> requests);
  tutti::Result<void> switch_policy(const char* policy, std::span<const tutti_option> options);
  void stop(tutti::Scheduler::Stop how);

  tutti_statistics statistics() const;
  std::string statistics_json() const;
  bool may_be_destroyed() const { return !dispatcher_ || !dispatcher_->inside_callback(); }

 private:
  tutti_scheduler() = default;

  tutti::Result<void> record(const tutti_config& config);

  // kTimeout, kStopped. `timeout` as in tutti_next().
  tutti::Result<void> take(std::int64_t timeout, tutti::Scheduler::Dispatched& batch);
  bool exhausted() const { return stopped_ && scheduler_->state().waiting == 0; }

  // Both nullptr: nothing is recorded.
  std::unique_ptr<tutti::Workers> workers_;
  std::unique_ptr<tutti::trace::Recorder> recorder_;
  std::unique_ptr<tutti::Scheduler> scheduler_;
  tutti::DispatchedBatches dispatched_;
  std::atomic<bool> stopped_ = false;
  std::unique_ptr<tutti::Dispatcher> dispatcher_;  // callback mode only
};
