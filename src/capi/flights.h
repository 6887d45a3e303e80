// SPDX-License-Identifier: Apache-2.0
// Batches that C callers hold, found by the ids of their requests.
#pragma once

#include <tutti/sched.h>
#include <tutti/tutti.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace tutti {

// Thread-safe. Keeps the memory of completed batches for later ones.
class Flights {
 public:
  // The batch's requests, valid until all of them are completed.
  std::span<const tutti_request> open(const Scheduler::Dispatched& batch);

  // Notes these requests as done (only ids are looked at) and appends the batches that are complete by that to
  // `landed`. Returns the first id that is not in flight, if there is one; the others are done all the same.
  std::optional<RequestId> complete(std::span<const tutti_request> requests,
                                    std::vector<Scheduler::Dispatched>& landed);

 private:
  struct Flight {
    Scheduler::Dispatched batch;
    std::vector<tutti_request> requests;
    std::size_t left = 0;
  };

  std::mutex mutex_;            // guards everything below
  std::deque<Flight> flights_;  // never shrinks: pointers stay valid
  std::vector<Flight*> free_;
  boost::unordered_flat_map<RequestId, Flight*> by_request_;
};

}  // namespace tutti
