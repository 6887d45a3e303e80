// SPDX-License-Identifier: Apache-2.0
// The waiting requests of a policy, found by id, by slot, or by age.
#pragma once

#include <tutti/sched.h>

#include <boost/circular_buffer.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/huge_pages.h"
#include "base/prefetch.h"
#include "sched/id_index.h"

namespace tutti {

// An index into a RequestStore. Small, so that queues and heaps of slots stay in the cache.
using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = ~Slot{0};

// A slot and how often it was reused: tells whether a slot that was noted earlier still holds the same request.
struct SlotVersion {
  Slot slot = kNoSlot;
  std::uint32_t generation = 0;
};

// Allocates in chunks and keeps them, so that nothing is allocated in steady state; a store that was large and becomes
// empty frees its memory. Not thread-safe.
class RequestStore {
 public:
  RequestStore() = default;
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

  SlotVersion version(Slot slot) const { return {slot, entry(slot).generation}; }
  bool holds(SlotVersion version) const {
    return version.slot < chunks_.size() * kChunk && entry(version.slot).generation == version.generation;
  }

  // The request that arrived first of those that wait; kNoSlot if none waits.
  Slot oldest();
  // The same, but kNoSlot unless it has waited longer than `patience`. Cheap while it has not.
  Slot overdue(TimePoint now, Duration patience);

  // A pair of links per slot, for the one list that the slot is in (see SlotList).
  struct Links {
    Slot previous = kNoSlot;
    Slot next = kNoSlot;
  };
  Links& links(Slot slot) { return entry(slot).links; }
  // The number of the request's account, for policies that have accounts and no SlotList.
  std::uint32_t& account(Slot slot) { return entry(slot).links.previous; }
  std::uint32_t account(Slot slot) const { return entry(slot).links.previous; }

  // The caller of the policy prefetches (Policy::prefetch()). Then this object does not: with many policies, what it
  // loads for later calls is out of the cache before they come.
  void caller_prefetches() { caller_prefetches_ = true; }

  // Prefetches what the dispatch of these requests will touch: of `later` the request itself, of `soon`, which was
  // `later` in an earlier call, the rest. Either may be null.
  void expect(const SlotVersion* soon, const SlotVersion* later) const {
    if (caller_prefetches_) return;
    if (soon && holds(*soon)) ids_.prefetch(request(soon->slot).id);
    if (later) expect(later->slot);
  }
  void expect(Slot slot) const {  // kNoSlot is allowed
    if (slot == kNoSlot) return;
    prefetch_line(&entry(slot));
    prefetch_line(&entry(slot).arrived);
  }

  void expect_removal(Slot slot) const { ids_.prefetch(request(slot).id, 2); }  // after expect(slot)

  // Prefetches what add() and the next removal will need, some time before expect(free_slot()).
  void expect_tables(const Request* arriving) const {
    prefetch_line(chunks_.data());
    if (!arriving) return;
    ids_.prefetch(arriving->id, 2);
    if (!arrivals_.empty()) prefetch_line(&arrivals_.back());
  }
  Slot free_slot() const { return free_; }  // that add() will use; kNoSlot: a new one

  // A number per slot for the policy: the queue or group the request is in.
  std::uint32_t& place(Slot slot) { return entry(slot).place; }

 private:
  struct alignas(64) Entry {  // two cache lines
    Request request;
    TimePoint arrived;
    Links links;  // `next` also chains free slots
    std::uint32_t place = 0;
    std::uint32_t generation = 0;  // odd while in use
  };
  struct Arrival {
    SlotVersion version;
    std::uint32_t milliseconds;  // when, modulo 49 days: enough to see that it is not long ago
  };

  static constexpr std::size_t kChunk = 256;
  static constexpr std::size_t kChunksPerBlock = 64;  // 2 MiB: a huge page, which saves most misses of the TLB
  static constexpr std::size_t kKeptChunks = 64;      // what an empty store keeps
  struct FreeBlock {
    bool huge;
    void operator()(Entry* block) const;
  };

  Entry& entry(Slot slot) { return chunks_[slot / kChunk][slot % kChunk]; }
  const Entry& entry(Slot slot) const { return chunks_[slot / kChunk][slot % kChunk]; }
  void grow();
  void note_arrival(Slot slot, TimePoint now);
  void shrink();

  void add_block(std::size_t chunks);

  std::vector<std::unique_ptr<Entry[], FreeBlock>> blocks_;  // single chunks first, then huge pages
  std::vector<Entry*> chunks_;
  Slot free_ = kNoSlot;
  bool caller_prefetches_ = false;
  IdIndex ids_;
  boost::circular_buffer<Arrival, HugePageAllocator<Arrival>>
      arrivals_;  // in order of arrival; those of requests that left are stale
};

// A queue of slots, linked through the store: nothing to allocate, O(1) removal from anywhere. The first one's link to
// the previous is not kept up to date, so that taking it off does not touch the next.
class SlotList {
 public:
  bool empty() const { return head_ == kNoSlot; }
  Slot front() const { return head_; }
  Slot back() const { return tail_; }
  void push_back(RequestStore& store, Slot slot);
  void push_front(RequestStore& store, Slot slot);
  void append(RequestStore& store, SlotList& other);  // moves all of `other` to the end of this list
  void pop_front(RequestStore& store);
  void remove(RequestStore& store, Slot slot);

 private:
  Slot head_ = kNoSlot;
  Slot tail_ = kNoSlot;
};

}  // namespace tutti
