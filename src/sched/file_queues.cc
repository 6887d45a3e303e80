// SPDX-License-Identifier: Apache-2.0
#include "sched/file_queues.h"

namespace tutti {

void FileQueuedPolicy::enqueue(Slot slot) {
  const Request& request = store_.request(slot);
  const std::uint32_t number =
      queues_.open({request.file, queue_per_direction_ ? request.direction : Direction::kRead});
  FileQueue& queue = queues_[number];
  queue.by_offset.push(place_.start(request), store_.version(slot));
  queue.bytes += request.length;
  store_.place(slot) = number;
  if (queue.count++ == 0)
    opened(number);
  else
    changed(number);
}

void FileQueuedPolicy::dequeue(Slot slot) {
  const std::uint32_t number = store_.place(slot);
  queues_[number].by_offset.prune(store_, queues_[number].count);
  took(number, store_.request(slot).length);
}

void FileQueuedPolicy::take_run(std::uint32_t number, const MergeLimits& limits) {
  FileQueue& queue = queues_[number];
  Bytes size;
  Slot slot = queue.by_offset.top(store_);
  while (slot != kNoSlot) {
    const Request& request = store_.request(slot);
    if (!batch().empty()) {
      const Request& last = batch().back();
      const bool adjoins =
          place_.start(request) == place_.end(last) && request.file == last.file && request.direction == last.direction;
      if (!adjoins || !limits.admits(batch().size(), size, request.length)) break;
    }
    size += request.length;
    --queue.count;
    queue.bytes -= request.length;
    queue.by_offset.pop(store_);
    take(slot);
    slot = queue.by_offset.top(store_);
  }
  if (queue.count > 0) return changed(number);
  closing(number);
  queues_.close(number);
}

void FileQueuedPolicy::took(std::uint32_t number, Bytes length) {
  FileQueue& queue = queues_[number];
  queue.bytes -= length;
  if (--queue.count > 0) return changed(number);
  closing(number);
  queues_.close(number);
}

}  // namespace tutti
