// SPDX-License-Identifier: Apache-2.0
// The queue between producers and the dispatcher. Producers touch nothing else, so adding a request never waits for a
// decision of the policy, and the policy's memory stays in the dispatcher's cache.
#pragma once

#include <tutti/sched.h>

#include <atomic>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "sched/id_set.h"
#include "sched/policy.h"

namespace tutti {

struct Load {
  std::size_t requests = 0;
  Bytes bytes{};

  // As a bound: whether another request of this length may wait beside `waiting`.
  bool admits(const Load& waiting, Bytes length) const {
    return waiting.requests < requests && waiting.bytes + length <= bytes;
  }
};

// Knows every request from its arrival to its end: by id until it is forgotten, by count until it leaves the queue.
// Thread-safe.
class Inbox {
 public:
  explicit Inbox(Load most) : most_(most) {}

  // kStopped after close(), kFull, kDuplicate. `crowded` is set when the caller should collect().
  Result<void> add(const Request& request, TimePoint now, bool& crowded);

  // Moves the requests added since the last call to `collected`, which must be empty.
  void collect(std::vector<WaitingRequest>& collected);

  // Requests left the queue (dispatched, cancelled, dropped): there is room for others.
  void left(Load load);
  // Requests have ended: their ids may be used again.
  void forget(std::span<const RequestId> ids);

  void close();

  Load waiting() const { return {waiting_, Bytes(waiting_bytes_)}; }  // from add() to left()

 private:
  static constexpr std::size_t kCrowded = 1024;

  void erase_finished() TUTTI_REQUIRES(mutex_);

  const Load most_;  // that may wait
  // These grow under the mutex and shrink without.
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::uint64_t> waiting_bytes_{0};

  Mutex mutex_;  // guards what follows
  std::vector<WaitingRequest> arrived_ TUTTI_GUARDED_BY(mutex_);
  IdSet ids_ TUTTI_GUARDED_BY(mutex_);
  // Ids to be erased by the producers, which have them in their cache.
  std::vector<RequestId> finished_ TUTTI_GUARDED_BY(mutex_);
  bool closed_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti
