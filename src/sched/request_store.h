// SPDX-License-Identifier: Apache-2.0
// Where a policy keeps the requests that wait: found by id, by slot, or by age.
#pragma once

#include <tutti/sched.h>

#include <boost/circular_buffer.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "sched/keyed_set.h"

namespace tutti {

// A place in a RequestStore. Small, so that queues and heaps of them stay in the cache.
using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = ~Slot{0};

// Slots are reused; a stamp tells whether a slot noted down earlier still holds the same request.
struct SlotStamp {
  Slot slot = kNoSlot;
  std::uint32_t generation = 0;
};

// Allocates in chunks and keeps what it has, so that nothing is allocated once warm; a store that was large and
// becomes empty gives its memory back. Not thread-safe.
class RequestStore {
 public:
  RequestStore() : ids_(IdOf{this}) {}
  RequestStore(const RequestStore&) = delete;
  RequestStore& operator=(const RequestStore&) = delete;

  // kNoSlot if a request with that id is here already.
  Slot add(const Request& request, TimePoint now);
  void remove(Slot slot);
  Slot find(RequestId id) const { return ids_.find(id); }  // kNoSlot: not here

  const Request& request(Slot slot) const { return entry(slot).request; }
  TimePoint arrived(Slot slot) const { return entry(slot).arrived; }
  std::size_t size() const { return ids_.size(); }
  bool empty() const { return ids_.empty(); }

  SlotStamp stamp(Slot slot) const { return {slot, entry(slot).generation}; }
  bool holds(SlotStamp stamp) const { return entry(stamp.slot).generation == stamp.generation; }

  // The request that has waited longest; kNoSlot if none waits.
  Slot oldest();

  // A pair of links per slot, for the one list that its policy keeps it in (see SlotList).
  struct Links {
    Slot previous = kNoSlot;
    Slot next = kNoSlot;
  };
  Links& links(Slot slot) { return entry(slot).links; }

  // A word per slot for the policy: the number of the queue or group the request is in.
  std::uint32_t& place(Slot slot) { return entry(slot).place; }

 private:
  struct Entry {
    Request request;
    TimePoint arrived;
    Links links;                   // `next` also chains free slots
    std::uint32_t generation = 0;  // odd while in use
    std::uint32_t place = 0;
  };
  struct IdOf {
    const RequestStore* store;
    RequestId operator()(Slot slot) const { return store->request(slot).id; }
  };

  static constexpr std::size_t kChunk = 1024;
  static constexpr std::size_t kKeptChunks = 16;  // what an empty store keeps

  Entry& entry(Slot slot) { return chunks_[slot / kChunk][slot % kChunk]; }
  const Entry& entry(Slot slot) const { return chunks_[slot / kChunk][slot % kChunk]; }
  void grow();
  void note_arrival(Slot slot);
  void shrink();

  std::vector<std::unique_ptr<Entry[]>> chunks_;
  Slot free_ = kNoSlot;
  KeyedSet<IdOf> ids_;
  boost::circular_buffer<SlotStamp> arrivals_;  // in order of arrival; entries of requests that left are stale
};

// A queue of slots, linked through the store: nothing to allocate, O(1) removal from anywhere.
class SlotList {
 public:
  bool empty() const { return head_ == kNoSlot; }
  Slot front() const { return head_; }
  Slot back() const { return tail_; }
  void push_back(RequestStore& store, Slot slot);
  void push_front(RequestStore& store, Slot slot);
  void append(RequestStore& store, SlotList& other);  // moves all of `other` behind what is here
  void remove(RequestStore& store, Slot slot);

 private:
  Slot head_ = kNoSlot;
  Slot tail_ = kNoSlot;
};

}  // namespace tutti
