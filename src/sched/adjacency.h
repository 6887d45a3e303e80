// SPDX-License-Identifier: Apache-2.0
// Finds, among waiting requests, the ones that adjoin another: same file and direction, no gap.
#pragma once

#include "sched/merging.h"
#include "sched/request_store.h"
#include "sched/tag_index.h"

namespace tutti {

// File, position (MergePlace) and direction: the end of one request and the start of the one that adjoins it.
struct Edge {
  FileId file = 0;
  std::uint64_t position = 0;
  Direction direction = Direction::kRead;
  bool operator==(const Edge&) const = default;
  // Edges within one mebibyte get neighbouring tags, because sequential streams use them one after another.
  std::uint32_t tag() const {
    const std::uint64_t stream = mix(file * 2 + static_cast<std::uint64_t>(direction));
    const std::uint64_t place = (mix(stream + (position >> 20)) & ~std::uint64_t{15}) | ((position >> 16) & 15);
    return make_tag(((stream ^ position) * 0x9e3779b97f4a7c15) >> 32, place);
  }
};

// If several requests start (or end) at one edge, only the first is found; the others are not merged.
class Adjacency {
 public:
  Adjacency(const RequestStore& store, MergePlace place)
      : place_(place), start_of_{&store, place}, end_of_{&store, place}, starts_(start_of_), ends_(end_of_) {}

  void add(Slot slot) {
    starts_.insert(start_of_(slot), slot);
    ends_.insert(end_of_(slot), slot);
  }
  void remove(Slot slot) {
    starts_.erase(start_of_(slot), slot);
    ends_.erase(end_of_(slot), slot);
  }

  Slot following(const Request& request) const {
    return starts_.find({request.file, place_.end(request), request.direction});
  }
  // The request that probably follows two requests after `request`, without reading the ones between.
  Slot guess_later(const Request& request) const {
    return starts_.guess({request.file, place_.end(request) + 2 * request.length.count(), request.direction});
  }
  Slot preceding(const Request& request) const {
    return ends_.find({request.file, place_.start(request), request.direction});
  }

 private:
  struct StartOf {
    const RequestStore* store;
    MergePlace place;
    Edge operator()(Slot slot) const {
      const Request& request = store->request(slot);
      return {request.file, place.start(request), request.direction};
    }
  };
  struct EndOf {
    const RequestStore* store;
    MergePlace place;
    Edge operator()(Slot slot) const {
      const Request& request = store->request(slot);
      return {request.file, place.end(request), request.direction};
    }
  };
  MergePlace place_;
  StartOf start_of_;
  EndOf end_of_;
  TagIndex<StartOf> starts_;
  TagIndex<EndOf> ends_;
};

}  // namespace tutti
