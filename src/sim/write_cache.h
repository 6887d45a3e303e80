// SPDX-License-Identifier: Apache-2.0
// The write cache of a simulated server or of its disk controller.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <deque>
#include <optional>

namespace tutti::sim {

// Writes get room in order of arrival, and are passed to the device in the same order. A write that is larger than the
// cache gets room when the cache is empty. Only keeps records. Not thread-safe.
class WriteCache {
 public:
  struct Write {
    std::uint32_t ticket = 0;
    std::uint64_t position = 0;  // on the device
    Bytes length{};
  };

  explicit WriteCache(Bytes size) : size_(size) {}

  // The write waits for room.
  void add(const Write& write) { waiting_.push_back(write); }

  // The ticket of the next write that has room now, and is therefore complete.
  std::optional<std::uint32_t> admit() {
    if (waiting_.empty() || (used_ > Bytes{} && used_ + waiting_.front().length > size_)) return std::nullopt;
    const Write write = waiting_.front();
    waiting_.pop_front();
    used_ += write.length;
    kept_.push_back(write);
    return write.ticket;
  }

  // The next write to pass on, if the device has fewer than `most` of them.
  std::optional<Write> next_for_device(unsigned most) {
    if (kept_.empty() || at_device_ >= most) return std::nullopt;
    const Write write = kept_.front();
    kept_.pop_front();
    ++at_device_;
    return write;
  }

  // The device has written one of this length.
  void on_device(Bytes length) {
    --at_device_;
    used_ -= length;
  }

 private:
  Bytes size_;
  Bytes used_{};            // kept or at the device
  unsigned at_device_ = 0;  // number of writes
  std::deque<Write> waiting_, kept_;
};

}  // namespace tutti::sim
