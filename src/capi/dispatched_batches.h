// SPDX-License-Identifier: Apache-2.0
// Batches that C callers have not completed yet, found by the ids of their requests.
#pragma once

#include <tutti/sched.h>
#include <tutti/tutti.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"

namespace tutti {

// Thread-safe. Reuses the memory of completed batches.
class DispatchedBatches {
 public:
  // The batch's requests, valid until all of them are completed.
  std::span<const tutti_request> open(const Scheduler::Dispatched& batch);

  // Marks these requests as done (only ids are used) and appends the batches that became complete to `completed`.
  // Returns the first id that belongs to none of these batches, if any; the other requests are marked nevertheless.
  std::optional<RequestId> complete(std::span<const tutti_request> requests,
                                    std::vector<Scheduler::Dispatched>& completed);

 private:
  struct DispatchedBatch {
    Scheduler::Dispatched batch;
    std::vector<tutti_request> requests;
    std::size_t left = 0;
  };

  Mutex mutex_;                                                   // guards everything below
  std::deque<DispatchedBatch> batches_ TUTTI_GUARDED_BY(mutex_);  // never shrinks: pointers stay valid
  std::vector<DispatchedBatch*> free_ TUTTI_GUARDED_BY(mutex_);
  boost::unordered_flat_map<RequestId, DispatchedBatch*> by_request_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
