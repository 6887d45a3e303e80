// SPDX-License-Identifier: Apache-2.0
// The order of requests whose phases have no known size.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>

#include "sched/heaps.h"
#include "sched/phase_queue.h"
#include "sched/pool.h"
#include "sched/service_accounts.h"

namespace tutti {

// Requests are served in order of issue, except in a backlog: if a few large phases keep many small ones waiting, the
// phase that has attained least is served first:
//
// - A backlog begins if the oldest request has waited for `wait`, and if the requests that wait would then end earlier:
//   the mean end of their phases in order of issue is at least `gain` times their mean end with equal shares. Also,
//   what the phases have issued must differ (variance at least 1.5 times the square of the mean): phases of similar
//   size gain nothing, even if they have different numbers of requests here. A backlog ends when no request of unknown
//   size waits.
// - What a phase has attained includes what its application was served recently (sched/service_accounts.h). Sizes
// attained are
//   compared in steps of four. Among equals the phase that began first is served.
// - A phase continues for `run` bytes before another one interrupts it, if it has requests here.
// - One byte in `stretch` is served in order of issue.
//
// So a request is served before `stretch` times the bytes that were issued no later than it, and 2 * stretch * `run`,
// have been served of requests of unknown size.
//
// Not thread-safe. `store` holds the requests.
class UnknownPhases {
 public:
  struct Options {
    Duration wait{};
    double gain = 1.5;
    Duration slack{};  // a phase started at most this long before its first request arrived
    OldestShare::Options share{};
  };
  // Both must outlive this object.
  UnknownPhases(RequestStore& store, ServiceAccounts& accounts, const Options& options)
      : store_(store), accounts_(accounts), options_(options), share_(options.share) {}

  // RequestStore::place() of requests in here has this bit.
  static constexpr std::uint32_t kPlace = std::uint32_t{1} << 31;

  bool empty() const { return count_ == 0; }

  // `issued`: after limits for wrong clocks.
  void push(Slot slot, TimePoint issued) {
    const SweepPosition position{issued.time_since_epoch().count(), order_of_equals(store_.request(slot))};
    by_issue_.push(position, store_.version(slot));
    store_.place(slot) = kPlace;
    ++count_;
    ++changes_;
    if (backlog_) push_waiting(slot, position);
  }
  // It is about to leave the store without having been served.
  void remove(Slot slot);

  // The request to serve next; kNoSlot if there is none. Does not take it.
  Slot next(TimePoint now) {
    const Slot oldest = by_issue_.top(store_);
    if (oldest == kNoSlot) return kNoSlot;
    if (!backlog_ && now - store_.arrived(oldest) >= options_.wait) look_for_backlog(now);
    return backlog_ ? next_in_backlog(oldest) : oldest;
  }
  // The issue time of the position in which next() is served: positions are exchanged by the byte. After next().
  std::int64_t position() { return backlog_ ? position_in_backlog() : by_issue_.top_key().turn; }
  // Takes the request that next() returned; it is about to leave the store.
  void pop(Slot slot) {
    --count_;
    if (backlog_)
      pop_in_backlog(slot);
    else
      by_issue_.pop(store_);
    if (count_ == 0) clear();
  }
  // Takes any request; it is about to leave the store because it is served.
  void pop_early(Slot slot);
  // Prefetches what push() and next() will need, except in backlogs.
  void expect_object() const {
    prefetch_bytes(
        this, static_cast<std::size_t>(reinterpret_cast<const char*>(&looked_) - reinterpret_cast<const char*>(this)));
  }
  void expect() const { by_issue_.expect(); }
  void expect_level(unsigned level) const { by_issue_.expect_level(level); }  // as Heap
  Slot likely_next() const { return by_issue_.likely_top(); }                 // kNoSlot: not easily told

 private:
  // A phase's position in a backlog: the level of what it has attained, then its start.
  struct Level {
    std::int64_t level = 0;
    TimePoint start;
    std::uint64_t order = 0;
    auto operator<=>(const Level&) const = default;
  };
  struct UnknownPhase {
    PhaseKey key;
    SlotHeap<SweepPosition> requests;  // by issue
    std::size_t count = 0;
    TimePoint start;
    std::uint64_t before = 0;  // ServiceAccounts::History
    void reset() {
      requests.clear();
      count = 0;
    }
  };

  // Requests issued in the same nanosecond: by order id, application and operation, to 16 bits each, then by offset. So
  // operations are not interleaved.
  static std::uint64_t order_of_equals(const Request& request) {
    const Stamp& stamp = request.stamp;
    return (std::min<std::uint64_t>(stamp.order, 0xffff) << 48) | (std::uint64_t{stamp.application & 0xffff} << 32) |
           ((stamp.operation & 0xffff) << 16) | ((request.offset >> 12) & 0xffff);
  }

  void look_for_backlog(TimePoint now);
  Slot next_in_backlog(Slot oldest);
  std::int64_t position_in_backlog();
  void pop_in_backlog(Slot slot);
  bool sharing_pays();
  void push_waiting(Slot slot, const SweepPosition& position);
  Level level_of(std::uint32_t number);
  void leave(Slot slot);
  void clear();

  RequestStore& store_;
  ServiceAccounts& accounts_;
  const Options options_;
  SlotHeap<SweepPosition> by_issue_;
  std::size_t count_ = 0;

  // Of backlogs:
  bool backlog_ = false;
  TimePoint looked_{};       // when sizes were last compared
  std::size_t changes_ = 0;  // requests that came since then
  // Used by sharing_pays() only: what waits of each phase.
  struct Waiting {
    double bytes = 0;                  // that wait
    double shown = 0;                  // bytes issued on the busiest target
    std::int64_t first = 0, last = 0;  // issue times
  };
  boost::unordered_flat_map<PhaseKey, Waiting, boost::hash<PhaseKey>> waiting_;
  std::vector<Waiting> sample_;
  Pool<PhaseKey, UnknownPhase> phases_;
  IndexedHeap<Level> levels_;                       // of the phases
  LazyHeap<std::int64_t, std::int64_t> positions_;  // not taken yet: issue time and cost
  std::int64_t position_ = 0, owed_ = 0;            // the position taken last, and its bytes that were not served
  OldestShare share_;
  std::uint32_t running_ = 0;   // phase that was served last
  std::uint64_t run_left_ = 0;  // bytes that it may still be served before another one; 0: none
};

}  // namespace tutti
