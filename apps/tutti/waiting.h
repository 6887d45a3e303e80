// SPDX-License-Identifier: Apache-2.0
// Tells the user what a command waits for.
#pragma once

#include <tutti/base.h>

#include <condition_variable>
#include <functional>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace tutti::cli {

// A command that waits for longer than this says so.
inline constexpr Duration kSilence = std::chrono::seconds(2);

// What a command does now, and since when. Thread-safe.
class Activity {
 public:
  // "reading FILE"; each call counts as progress.
  void set(std::string doing);
  // What it has been doing for at least kSilence; empty: there was progress.
  std::string stuck() const;

 private:
  mutable Mutex mutex_;
  std::string doing_ TUTTI_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point since_ TUTTI_GUARDED_BY(mutex_){};
};

// While it exists, a thread asks `query` every second and prints "tutti: waiting: TEXT" to standard error if the text
// is not empty: at once, then every 10 s.
class WaitingMessages {
 public:
  explicit WaitingMessages(std::function<std::string()> query);
  ~WaitingMessages();
  WaitingMessages(const WaitingMessages&) = delete;
  WaitingMessages& operator=(const WaitingMessages&) = delete;

 private:
  void work();

  const std::function<std::string()> query_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool ending_ TUTTI_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti::cli
