// SPDX-License-Identifier: Apache-2.0
// Keeps repeated messages, such as those that clients can cause, from filling a log.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace tutti {

// At most kMost messages in each kPeriod. Thread-safe.
class LogLimit {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(10);
  static constexpr std::uint64_t kMost = 10;

  // Nothing: leave this message out. Else the number of messages that were left out since the last one.
  std::optional<std::uint64_t> allow(TimePoint now) {
    Lock lock(mutex_);
    if (now >= begin_ + kPeriod || now < begin_) {
      begin_ = now;
      count_ = 0;
    }
    if (++count_ > kMost) return ++left_out_, std::nullopt;
    return std::exchange(left_out_, 0);
  }

 private:
  Mutex mutex_;
  TimePoint begin_ TUTTI_GUARDED_BY(mutex_){};
  std::uint64_t count_ TUTTI_GUARDED_BY(mutex_) = 0, left_out_ TUTTI_GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti
