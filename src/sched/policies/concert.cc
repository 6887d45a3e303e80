// SPDX-License-Identifier: Apache-2.0
// concert: the same order on every server without a word between them, smallest remaining phase first.
//
// Mean completion over several servers is the concurrent open shop problem: serve whole phases, in one common order,
// the one whose busiest target has least left to do first (Varys, Sincronia). That takes sizes that are right. So a
// phase whose size is known goes by what is left of it, and everybody else by the issue of his requests, as under fifo:
//
// - Every request brings a turn, in order of issue. Phases of known size exchange theirs among each other: when it is
//   the turn of any of them, the smallest is served. A phase of unknown size keeps its turns.
// - A known phase may also go before an unknown one that has shown more than all that is left of the known one, but
//   the known phases are never further ahead of their turns than `ahead`.
//
// So a request of an unknown phase waits for what was issued before it and `ahead` more, whatever others say of
// themselves; and where no size is known, this is fifo. docs/design/concert.md has the figures.
#include <algorithm>
#include <bit>
#include <cassert>
#include <tuple>

#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/promises.h"
#include "sched/queued_policy.h"
#include "sched/sweep.h"

namespace tutti {
namespace {

struct PhaseKey {
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  bool operator==(const PhaseKey&) const = default;
  friend std::size_t hash_value(const PhaseKey& key) { return mix((std::uint64_t{key.application} << 32) | key.phase); }
};

// Of phases of known size. Earlier in this order goes first; a function of stamps alone.
struct Rank {
  std::uint64_t left = 0;  // bytes on the busiest target
  TimePoint since;         // the start of the phase
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  bool operator<(const Rank& other) const {
    if (left != other.left) return left < other.left;
    if (since != other.since) return since < other.since;
    if (application != other.application) return application < other.application;
    return phase < other.phase;
  }
};

struct Phase {
  PhaseKey key;
  SlotHeap<Place> requests;  // in the order of issue, because it takes all its ranks to end it, or swept over
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

// An operation that goes on for a while though others may come first by now: a disk that leaves it in the middle has
// to come back for the rest.
struct Run {
  std::uint32_t phase = 0;
  PhaseKey key;
  OperationId operation = 0;
  std::uint64_t left = 0;  // bytes; 0: no run
};

// What a request takes of the service its class is owed.
std::int64_t cost(const Request& request) {
  constexpr std::uint64_t kLeast = 4096;  // so that tiny requests do not pass for nothing
  return static_cast<std::int64_t>(std::max(kLeast, request.length.count()));
}

Bytes shown(const Stamp& stamp) {
  return stamp.attained + stamp.bottleneck;
}

class Concert final : public QueuedPolicy {
 public:
  explicit Concert(const OptionValues& options)
      : QueuedPolicy(options.duration("patience"), options.duration("gather")),
        longest_run_(options.bytes("run").count()),
        ahead_(static_cast<std::int64_t>(options.bytes("ahead").count())),
        sweeps_(options.text("order") == "offset"),
        slack_(options.duration("slack")) {}

 private:
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};  // place of requests whose phase has no known size

  void enqueue(Slot slot) override {
    const Request& request = store_.request(slot);
    const Stamp& stamp = request.stamp;
    promises_.heard(stamp);
    const std::int64_t issued = issue_of(slot);
    if (!known(stamp)) {
      store_.place(slot) = kUnknown;
      unknown_.push({issued, by_application(request)}, store_.stamp(slot));
      ++unknown_count_;
      return;
    }
    const PhaseKey key{stamp.application, stamp.phase};
    const std::uint32_t number = phases_.open(key);
    store_.place(slot) = number;
    Phase& phase = phases_[number];
    phase.requests.push(sweeps_ ? phase.sweep.of(request) : Place{issued, where(request)}, store_.stamp(slot));
    turns_.push(issued, cost(request));
    const std::tuple progress{stamp.attained, stamp.bottleneck, stamp.phase_total};
    if (phase.count++ > 0 && progress <= phase.progress) return;
    phase.progress = progress;
    known_.set(number, {left_of(stamp), stamp.phase_start, key.application, key.phase});
  }

  // Whether the stamp tells how large its phase is: all of it has been asked for, or the application has been right
  // about the phase before (else it would not say, src/sched/stamper.h), or words of strangers are kept these days.
  bool known(const Stamp& stamp) const {
    if (stamp.phase_total <= stamp.attained) return false;
    return shown(stamp) >= stamp.phase_total || stamp.phase > 1 || promises_.are_kept();
  }

  // By the client's clock, unless that is further off than a request can have been under way.
  std::int64_t issue_of(Slot slot) const {
    const TimePoint arrived = store_.arrived(slot);
    return std::clamp(store_.request(slot).stamp.issued, arrived - slack_, arrived).time_since_epoch().count();
  }

  // Where what was issued at the same time is: with its application, and there by offset.
  static std::uint64_t by_application(const Request& request) {
    return (std::uint64_t{request.stamp.application} << 32) | static_cast<std::uint32_t>(request.offset >> 12);
  }

  // To two binary digits: of phases alike, the one that began first goes on. What is left of them is not known better
  // than that, and passing each other back and forth would make them end together, compute together and leave servers
  // idle.
  static std::uint64_t left_of(const Stamp& stamp) {
    const std::uint64_t left = std::max(stamp.phase_total - stamp.attained, stamp.bottleneck).count();
    return left & ~(std::bit_floor(left) / 2 - 1);
  }

  void dequeue(Slot slot) override {
    const std::uint32_t number = store_.place(slot);
    if (number == kUnknown) {
      unknown_.prune(store_, --unknown_count_);
    } else {
      Phase& phase = phases_[number];
      phase.requests.prune(store_, --phase.count);
      settle(number, store_.request(slot));
    }
    reset_if_empty();
  }

  Decision choose(TimePoint /*now*/) override {
    Slot slot = unknown_.top(store_);
    if (known_goes_first(slot)) {
      const std::uint32_t number = next_known();
      Phase& phase = phases_[number];
      slot = phase.requests.top(store_);
      note_run(number, store_.request(slot));
      phase.sweep.reached(phase.requests.top_key());
      phase.requests.pop(store_);
      --phase.count;
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
    known_.erase(number);
    phases_.close(number);
  }

  void reset_if_empty() {
    if (!known_.empty() || unknown_count_ > 0) return;
    turns_.clear();
    unknown_.clear();
    owed_ = 0;
  }

  // Takes the turns of known phases that are due: what they bring, any of these phases may use.
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

  // For certain smaller than the phase of the unknown request whose turn it is: two digits are off by less than a half.
  bool may_pass(const Request& unknown) const {
    if (-owed_ >= ahead_) return false;
    const std::uint64_t left = known_.top_key().left;
    return left + left / 2 <= shown(unknown.stamp).count();
  }

  // The first in the order, unless an operation is in the middle of its run.
  std::uint32_t next_known() {
    const std::uint32_t first = known_.top();
    if (run_.left == 0 || run_.phase == first || !known_.contains(run_.phase)) return first;
    Phase& running = phases_[run_.phase];
    if (running.key != run_.key) return first;  // the number is another phase's by now
    return store_.request(running.requests.top(store_)).stamp.operation == run_.operation ? run_.phase : first;
  }

  void note_run(std::uint32_t number, const Request& request) {
    const PhaseKey& key = phases_[number].key;
    if (run_.left == 0 || run_.operation != request.stamp.operation || run_.key != key)
      run_ = {number, key, request.stamp.operation, longest_run_};
    run_.left -= std::min(run_.left, request.length.count());
  }

  const std::uint64_t longest_run_;
  const std::int64_t ahead_;
  const bool sweeps_;
  const Duration slack_;
  Run run_;
  Promises promises_;
  Pool<PhaseKey, Phase> phases_;
  IndexedHeap<Rank> known_;                     // phases that have requests
  LazyHeap<std::int64_t, std::int64_t> turns_;  // theirs: since when, and what for; not taken yet
  SlotHeap<Place> unknown_;                     // requests
  std::size_t unknown_count_ = 0;
  // What turns have brought and known phases not used; below zero: by how much they are ahead. Together with the turns
  // not taken yet it is the cost of all their requests that wait.
  std::int64_t owed_ = 0;
};

}  // namespace

PolicyInfo concert_policy() {
  using Kind = OptionInfo::Kind;
  return {.name = "concert",
          .summary = "smallest remaining phase first, in the same order on every server (the default)",
          .paper = "",
          .options = {{.name = "ahead",
                       .kind = Kind::kBytes,
                       .fallback = "64MiB",
                       .help = "phases of known size go before larger ones of unknown size by at most so much"},
                      {.name = "run",
                       .kind = Kind::kBytes,
                       .fallback = "512KiB",
                       .help = "an operation that was begun goes on for so much before another may come first"},
                      {.name = "order",
                       .kind = Kind::kChoice,
                       .fallback = "issue",
                       .help = "of a known phase's requests: issue, so that its ranks end together; offset: for disks",
                       .choices = {"issue", "offset"}},
                      {.name = "slack",
                       .kind = Kind::kDuration,
                       .fallback = "100ms",
                       .help = "clocks that are further off than this are not believed",
                       .choices = {}},
                      gather_option(),
                      patience_option("60s")},
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) { return std::make_unique<Concert>(options); }};
}

}  // namespace tutti
