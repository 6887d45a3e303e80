// SPDX-License-Identifier: Apache-2.0
// Where producers leave their requests, and all that they touch: adding one never waits for a decision of the policy,
// and the policy's memory stays with the thread that dispatches.
#pragma once

#include <tutti/sched.h>

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "sched/id_set.h"
#include "sched/policy.h"

namespace tutti {

// Critical sections here take well under a microsecond: trying a few times beats going to sleep over one.
std::unique_lock<std::mutex> lock_soon(std::mutex& mutex);

struct Load {
  std::size_t requests = 0;
  Bytes bytes{};
};

// Knows every request from its arrival to its end: by id until it is forgotten, by count until it leaves the queue.
// Thread-safe.
class Inbox {
 public:
  explicit Inbox(Load most) : most_(most) {}

  // kStopped after close(), kFull, kDuplicate. `crowded` is set when somebody should collect().
  Result<void> add(const Request& request, TimePoint now, bool& crowded);

  // Moves what came since the last call to `collected`, which has nothing in it.
  void collect(std::vector<Waiting>& collected);

  // Requests left the queue: there is room for others.
  void left(Load load);
  // Requests are over: their ids may be used again.
  void forget(std::span<const RequestId> ids);

  void close();

  Load waiting() const { return {waiting_, Bytes(waiting_bytes_)}; }  // from add() to left()

 private:
  static constexpr std::size_t kCrowded = 1024;

  void erase_finished();

  const Load most_;  // that may wait
  // These grow under the mutex and shrink without.
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::uint64_t> waiting_bytes_{0};

  std::mutex mutex_;  // guards what follows
  std::vector<Waiting> arrived_;
  IdSet ids_;
  // Ids to be erased. Left to the producers, who have them in their cache.
  std::vector<RequestId> finished_;
  bool closed_ = false;
};

}  // namespace tutti
