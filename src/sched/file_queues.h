// SPDX-License-Identifier: Apache-2.0
// Queues per file in offset order, from which adjoining requests are taken as one batch: what sjf and hbrr share.
#pragma once

#include "sched/heaps.h"
#include "sched/merging.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"

namespace tutti {

struct FileQueueKey {
  FileId file = 0;
  Direction direction = Direction::kRead;
  bool operator==(const FileQueueKey&) const = default;
  friend std::size_t hash_value(const FileQueueKey& key) {
    return mix(key.file * 2 + static_cast<std::uint64_t>(key.direction));
  }
};

struct FileQueue {
  FileQueueKey key;
  SlotHeap<std::uint64_t> by_offset;
  std::size_t count = 0;
  Bytes bytes{};
  std::uint32_t previous = 0, next = 0;  // for a policy that keeps its queues in a ring
  void reset() {
    by_offset.clear();
    count = 0;
    bytes = Bytes();
  }
};

class FileQueuedPolicy : public QueuedPolicy {
 protected:
  FileQueuedPolicy(const OptionValues& options, bool queue_per_direction)
      : QueuedPolicy(options.duration("patience")),
        limits_(options),
        place_(options),
        queue_per_direction_(queue_per_direction) {}

  // A queue got its first request; got or lost others; is about to be removed because it is empty.
  virtual void opened(std::uint32_t queue) = 0;
  virtual void changed(std::uint32_t queue) = 0;
  virtual void closing(std::uint32_t queue) = 0;

  // Takes the request with the smallest offset (or place in the object) and those that adjoin it into the batch, within
  // `limits`.
  void take_run(std::uint32_t number, const MergeLimits& limits);

  const MergeLimits& limits() const { return limits_; }
  FileQueue& queue(std::uint32_t number) { return queues_[number]; }

 private:
  void enqueue(Slot slot) final;
  void dequeue(Slot slot) final;
  void took(std::uint32_t number, Bytes length);

  MergeLimits limits_;
  MergePlace place_;
  bool queue_per_direction_;
  Pool<FileQueueKey, FileQueue> queues_;
};

}  // namespace tutti
