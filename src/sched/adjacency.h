// SPDX-License-Identifier: Apache-2.0
// Finds, among waiting requests, the ones that adjoin another: same file and direction, no gap.
#pragma once

#include "sched/keyed_set.h"
#include "sched/request_store.h"

namespace tutti {

// Where in which file, and which way: what two adjoining requests have in common.
struct Edge {
  FileId file = 0;
  std::uint64_t position = 0;
  Direction direction = Direction::kRead;
  bool operator==(const Edge&) const = default;
  std::size_t hash() const {
    return mix(mix(file * 2 + static_cast<std::uint64_t>(direction)) + position * 0x9e3779b97f4a7c15);
  }
};

// Of several requests that start (or end) at one edge only the first is found: the others go unmerged.
class Adjacency {
 public:
  explicit Adjacency(const RequestStore& store) : starts_(StartOf{&store}), ends_(EndOf{&store}) {}

  void add(Slot slot) {
    starts_.insert(slot);
    ends_.insert(slot);
  }
  void remove(Slot slot) {
    starts_.erase(slot);
    ends_.erase(slot);
  }

  Slot following(const Request& request) const { return starts_.find({request.file, request.end(), request.direction}); }
  Slot preceding(const Request& request) const { return ends_.find({request.file, request.offset, request.direction}); }

 private:
  struct StartOf {
    const RequestStore* store;
    Edge operator()(Slot slot) const {
      const Request& request = store->request(slot);
      return {request.file, request.offset, request.direction};
    }
  };
  struct EndOf {
    const RequestStore* store;
    Edge operator()(Slot slot) const {
      const Request& request = store->request(slot);
      return {request.file, request.end(), request.direction};
    }
  };
  KeyedSet<StartOf> starts_;
  KeyedSet<EndOf> ends_;
};

}  // namespace tutti
