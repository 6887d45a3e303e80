// SPDX-License-Identifier: Apache-2.0
// The time of a request relative to the start of its burst: what traced and actual arrivals are compared by.
#pragma once

#include <tutti/sched.h>

namespace tutti {

// The first request to a file starts a burst, and so does every request after a pause, or one that repeats the first
// request of the burst: the next iteration of a program. For a file that is accessed once, times are relative to the
// first request to the file, as in the AGIOS paper. Plain data.
class Burst {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(250);
  static constexpr std::uint32_t kFewest = 16;  // requests that a repeated request ends

  // A request arrived; true: it starts a burst. A clock that goes back starts one, too.
  bool arrived(TimePoint now, std::uint64_t offset, Bytes length) {
    const bool repeats = count_ >= kFewest && offset == offset_ && length == length_;
    const bool starts = count_ == 0 || now < last_ || now - last_ > kPause || repeats;
    if (starts) {
      start_ = now;
      offset_ = offset;
      length_ = length;
      count_ = 0;
    }
    last_ = now;
    ++count_;
    return starts;
  }
  TimePoint start() const { return start_; }
  TimePoint last() const { return last_; }

 private:
  TimePoint start_{}, last_{};
  std::uint64_t offset_ = 0;  // of the first request
  Bytes length_{};
  std::uint32_t count_ = 0;
};

}  // namespace tutti
