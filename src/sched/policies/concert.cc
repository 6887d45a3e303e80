// SPDX-License-Identifier: Apache-2.0
// concert: smallest remaining phase first, in the same order on every server, without messages between servers.
//
// Minimising the mean completion over several servers is the concurrent open shop problem: serve whole phases, in one
// common order, the phase first whose busiest target has least left (Varys, Sincronia). This needs correct sizes. So
// phases of known size are ordered by remaining bytes, and requests of unknown phases by issue time, as under fifo:
//
// - Each request has a turn, in order of issue. Phases of known size share their turns: when a turn of any of them
//   comes up, the smallest phase is served. A phase of unknown size keeps its own turns.
// - A known phase may also overtake an unknown one that has already issued more than the known one has left, but known
//   phases together are never ahead of their turns by more than `ahead` bytes.
// - Of the bytes of known phases, one part in `stretch` is served from the known phase that began first.
//
// So a request of an unknown phase waits at most for what was issued before it plus `ahead` bytes, whatever other
// applications announce. A known phase ends before `stretch` times the bytes of the known phases that began no later
// have been served while it waits. If no size is known, the order is that of fifo. docs/design/concert.md has the
// figures.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <tuple>

#include "sched/announcements.h"
#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"
#include "sched/sweep.h"

namespace tutti {
namespace {

struct PhaseKey {
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  UserId user = 0;
  bool operator==(const PhaseKey&) const = default;
  friend std::size_t hash_value(const PhaseKey& key) {
    return mix((std::uint64_t{key.application} << 32 | key.phase) + key.user * 0x9e3779b97f4a7c15);
  }
};

// The order of phases of known size, smallest first. A function of stamps alone.
struct Rank {
  std::uint64_t left = 0;  // bytes on the busiest target
  TimePoint since;         // the start of the phase
  OrderId order = 0;
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  UserId user = 0;
  bool operator<(const Rank& other) const {
    if (left != other.left) return left < other.left;
    if (since != other.since) return since < other.since;
    if (order != other.order) return order < other.order;
    if (application != other.application) return application < other.application;
    if (phase != other.phase) return phase < other.phase;
    return user < other.user;
  }
};

struct PhaseQueue {
  PhaseKey key;
  SlotHeap<SweepPosition> requests;  // by issue time, so that its ranks end together, or in elevator order
  Sweep sweep;
  std::size_t count = 0;
  std::tuple<Bytes, Bytes, Bytes> progress;  // attained, bottleneck and total of the furthest stamp seen
  void reset() {
    requests.clear();
    sweep = {};
    count = 0;
    progress = {};
  }
};

// The operation being served. It continues for up to `run` bytes although a smaller phase may have arrived: switching
// in the middle would cost a disk two extra seeks.
struct ContinuedOperation {
  std::uint32_t phase = 0;
  PhaseKey key;
  OperationId operation = 0;
  std::uint64_t left = 0;  // bytes it may still be served; 0: none
};

// Sizes come from clients: larger ones count as this, so that sums and products do not overflow.
constexpr std::uint64_t kLargest = std::uint64_t{1} << 42;

// What a request takes of the bytes that turns have brought.
std::int64_t cost(const Request& request) {
  constexpr std::uint64_t kLeast = 4096;  // so that tiny requests are not free
  return static_cast<std::int64_t>(std::clamp(request.length.count(), kLeast, kLargest));
}

Bytes shown(const Stamp& stamp) {
  return stamp.attained + stamp.bottleneck;
}

class Concert final : public QueuedPolicy {
 public:
  explicit Concert(const OptionValues& options)
      : QueuedPolicy(Duration::zero(), options.duration("gather")),
        longest_run_(options.bytes("run").count()),
        ahead_(static_cast<std::int64_t>(options.bytes("ahead").count())),
        sweeps_(options.text("order") == "offset"),
        slack_(options.duration("slack")),
        stretch_(options.integer("stretch")) {}

 private:
  static constexpr std::uint32_t kUnknown =
      ~std::uint32_t{0};  // RequestStore::place() of requests whose phase has no known size

  void enqueue(Slot slot) override {
    const Request& request = store_.request(slot);
    const Stamp& stamp = request.stamp;
    accuracy_.observe(stamp);
    const std::int64_t issued = issue_of(slot, slack_).time_since_epoch().count();
    if (!known(stamp)) {
      store_.place(slot) = kUnknown;
      unknown_.push({issued, by_order(request)}, store_.stamp(slot));
      ++unknown_count_;
      return;
    }
    const PhaseKey key{stamp.application, stamp.phase, stamp.user};
    const std::uint32_t number = phases_.open(key);
    store_.place(slot) = number;
    PhaseQueue& phase = phases_[number];
    phase.requests.push(sweeps_ ? phase.sweep.of(request) : SweepPosition{issued, where(request)}, store_.stamp(slot));
    turns_.push(issued, cost(request));
    const std::tuple progress{stamp.attained, stamp.bottleneck, stamp.phase_total};
    if (phase.count++ == 0) oldest_.set(number, {0, start_of(slot), stamp.order, key.application, key.phase, key.user});
    if (phase.count > 1 && progress <= phase.progress) return;
    phase.progress = progress;
    known_.set(number, {left_of(stamp), start_of(slot), stamp.order, key.application, key.phase, key.user});
  }

  // Whether the stamp's phase size is reliable: all of it has been issued, or the application's previous announcement
  // was right (else it would not announce, src/job/stamper.h), or first-phase announcements have recently been
  // accurate.
  bool known(const Stamp& stamp) const {
    if (stamp.phase_total <= stamp.attained) return false;
    return shown(stamp) >= stamp.phase_total || stamp.phase > 1 || accuracy_.trusted();
  }

  // The start of the phase by the client's clock, but not after its arrival: a clock that is ahead must not make it the
  // youngest for ever.
  TimePoint start_of(Slot slot) const { return std::min(store_.request(slot).stamp.phase_start, store_.arrived(slot)); }

  // Requests issued in the same nanosecond: by order id, application and operation, to 16 bits each, then by offset. So
  // operations are not interleaved.
  static std::uint64_t by_order(const Request& request) {
    const Stamp& stamp = request.stamp;
    return (std::min<std::uint64_t>(stamp.order, 0xffff) << 48) | (std::uint64_t{stamp.application & 0xffff} << 32) |
           ((stamp.operation & 0xffff) << 16) | ((request.offset >> 12) & 0xffff);
  }

  // Rounded to two binary digits, so that among similar phases the one that began first continues. With exact values,
  // similar phases would alternate, end together, compute together and leave servers idle.
  static std::uint64_t left_of(const Stamp& stamp) {
    const std::uint64_t left = std::max(stamp.phase_total - stamp.attained, stamp.bottleneck).count();
    return left & ~(std::bit_floor(left) / 2 - 1);
  }

  void dequeue(Slot slot) override {
    const std::uint32_t number = store_.place(slot);
    if (number == kUnknown) {
      unknown_.prune(store_, --unknown_count_);
    } else {
      PhaseQueue& phase = phases_[number];
      phase.requests.prune(store_, --phase.count);
      settle(number, store_.request(slot));
    }
    reset_if_empty();
  }

  Decision choose(TimePoint /*now*/) override {
    Slot slot = unknown_.top(store_);
    if (known_goes_first(slot)) {
      const std::uint32_t number = next_known();
      PhaseQueue& phase = phases_[number];
      slot = phase.requests.top(store_);
      note_continued(number, store_.request(slot));
      phase.sweep.reached(phase.requests.top_key());
      phase.requests.pop(store_);
      --phase.count;
      note_age(number, cost(store_.request(slot)));
      settle(number, store_.request(slot));
    } else {
      unknown_.pop(store_);
      --unknown_count_;
    }
    reset_if_empty();
    take(slot);
    return dispatch();
  }

  // After a request has left its phase.
  void settle(std::uint32_t number, const Request& request) {
    owed_ -= cost(request);
    if (phases_[number].count > 0) return;
    oldest_.erase(number);
    known_.erase(number);
    phases_.close(number);
  }

  void reset_if_empty() {
    if (!known_.empty() || unknown_count_ > 0) return;
    turns_.clear();
    unknown_.clear();
    owed_ = 0;
  }

  // Takes the due turns of known phases; any known phase may use the bytes they bring.
  bool known_goes_first(Slot unknown) {
    if (known_.empty()) return false;
    const auto any = [](std::int64_t) { return true; };
    while (owed_ <= 0) {
      const std::int64_t* turn = turns_.top(any);
      if (!turn || (unknown != kNoSlot && unknown_.top_key().turn < turns_.top_key())) break;
      owed_ += *turn;
      turns_.pop();
    }
    assert(owed_ > 0 || unknown != kNoSlot);
    return owed_ > 0 || may_pass(store_.request(unknown));
  }

  // Whether the smallest known phase is smaller than the unknown phase whose turn it is, also with the rounding of
  // left_of(), which is less than a half.
  bool may_pass(const Request& unknown) const {
    if (-owed_ >= ahead_) return false;
    const std::uint64_t left = known_.top_key().left;
    return left + left / 2 <= shown(unknown.stamp).count();
  }

  // The smallest phase or, if its share is due, the oldest one; unless the operation being served may continue.
  std::uint32_t next_known() {
    const std::uint32_t first = oldest_is_due() ? oldest_.top() : known_.top();
    if (continued_.left == 0 || continued_.phase == first || !known_.contains(continued_.phase)) return first;
    PhaseQueue& running = phases_[continued_.phase];
    if (running.key != continued_.key) return first;  // another phase has this number now
    return store_.request(running.requests.top(store_)).stamp.operation == continued_.operation ? continued_.phase
                                                                                                : first;
  }

  bool oldest_is_due() {
    const Slot slot = phases_[oldest_.top()].requests.top(store_);
    return younger_ >= (stretch_ - 1) * cost(store_.request(slot));
  }

  // A request of this phase and cost is served.
  void note_age(std::uint32_t number, std::int64_t cost) {
    if (number != oldest_.top()) {
      younger_ += cost;
      return;
    }
    const std::int64_t most_ahead = std::max(cost, static_cast<std::int64_t>(std::min(longest_run_, kLargest)));
    younger_ = std::max(younger_ - (stretch_ - 1) * cost, -(stretch_ - 1) * most_ahead);
  }

  void note_continued(std::uint32_t number, const Request& request) {
    const PhaseKey& key = phases_[number].key;
    if (continued_.left == 0 || continued_.operation != request.stamp.operation || continued_.key != key)
      continued_ = {number, key, request.stamp.operation, longest_run_};
    continued_.left -= std::min(continued_.left, static_cast<std::uint64_t>(cost(request)));
  }

  const std::uint64_t longest_run_;
  const std::int64_t ahead_;
  const bool sweeps_;
  const Duration slack_;
  const std::int64_t stretch_;
  ContinuedOperation continued_;
  AnnouncementAccuracy accuracy_;
  Pool<PhaseKey, PhaseQueue> phases_;
  IndexedHeap<Rank> known_;                     // phases that have requests
  LazyHeap<std::int64_t, std::int64_t> turns_;  // of known phases, not taken yet: issue time and cost
  SlotHeap<SweepPosition> unknown_;             // requests
  std::size_t unknown_count_ = 0;
  // Bytes that turns have brought and known phases have not used; below zero: how far known phases are ahead.
  // Invariant: plus the cost of the turns not taken yet, it is the cost of all waiting requests of known phases.
  std::int64_t owed_ = 0;
  IndexedHeap<Rank> oldest_;  // the same phases as in known_, with `left` 0: by their start
  // Bytes served of other phases than the oldest, less stretch - 1 times the bytes served of the oldest one.
  std::int64_t younger_ = 0;
};

}  // namespace

PolicyInfo concert_policy() {
  using Kind = OptionInfo::Kind;
  return {
      .name = "concert",
      .summary = "smallest remaining phase first, in the same order on every server (the default)",
      .paper = "",
      .options =
          {{.name = "ahead",
            .kind = Kind::kBytes,
            .fallback = "64MiB",
            .help = "Maximum number of bytes by which phases of known size may overtake phases of unknown size"},
           {.name = "run",
            .kind = Kind::kBytes,
            .fallback = "512KiB",
            .help = "Bytes of an operation that are served together before a smaller phase may interrupt it"},
           {.name = "order",
            .kind = Kind::kChoice,
            .fallback = "issue",
            .disk_fallback = "offset",
            .help =
                "Order of requests inside a phase of known size: issue (its ranks end together) or offset. Default: "
                "offset on rotating disks, else issue",
            .choices = {"issue", "offset"}},
           slack_option(),
           {.name = "stretch",
            .kind = Kind::kInteger,
            .fallback = "8",
            .help =
                "Of the bytes of phases of known size, one part in this many is served from the oldest phase. Larger: "
                "small phases gain more, large ones may end later",
            .low = 2,
            .high = 1000},
           gather_option()},
      .bound = {OvertakingBound::Scope::kPhase, "stretch"},
      .make = [](const OptionValues& options) { return std::make_unique<Concert>(options); }};
}

}  // namespace tutti
