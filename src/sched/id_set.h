// SPDX-License-Identifier: Apache-2.0
// The ids that are in use.
#pragma once

#include <tutti/sched.h>

#include <utility>

#include "sched/tag_index.h"

namespace tutti {

// Allocates nothing once it is large enough. Not thread-safe.
class IdSet {
 public:
  bool insert(RequestId id) {  // false: it is here already
    if (id == kHighest) return !std::exchange(highest_, true);
    return ids_.insert(Entry(id), Is{id + 1});
  }
  void erase(RequestId id) {  // does nothing if it is not here
    if (id == kHighest) highest_ = false;
    if (Entry* entry = ids_.find(place_of_id(id), Is{id + 1})) ids_.erase(entry);
  }

 private:
  static constexpr RequestId kHighest = ~RequestId{0};  // the one that does not fit into an entry
  struct Entry {
    RequestId above = 0;  // the id plus one; 0: vacant
    Entry() = default;
    explicit Entry(RequestId id) : above(id + 1) {}
    bool vacant() const { return above == 0; }
    std::size_t home() const { return place_of_id(above - 1); }
  };
  struct Is {
    RequestId above;
    bool operator()(const Entry& entry) const { return entry.above == above; }
  };

  ProbingTable<Entry> ids_;
  bool highest_ = false;
};

}  // namespace tutti
