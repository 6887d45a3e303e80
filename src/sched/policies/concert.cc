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
#include <tuple>

#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/promises.h"
#include "sched/queued_policy.h"

namespace tutti {
namespace {

struct PhaseKey {
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  bool known = false;  // what outgrew its size is a phase of its own
  bool operator==(const PhaseKey&) const = default;
  friend std::size_t hash_value(const PhaseKey& key) {
    return mix((std::uint64_t{key.application} << 32) | key.phase) + key.known;
  }
};

// Earlier in this order goes first; a function of stamps alone.
struct Rank {
  std::uint64_t left = 0;  // bytes on the busiest target; 0 where it is unknown
  TimePoint since;         // the start of the phase; where its size is unknown: the issue of its next request
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  bool operator<(const Rank& other) const {
    if (left != other.left) return left < other.left;
    if (since != other.since) return since < other.since;
    if (application != other.application) return application < other.application;
    return phase < other.phase;
  }
};

// Within a phase: in the order of issue, because it takes all its ranks to end it; then by place.
struct Place {
  TimePoint issued;
  std::uint64_t where = 0;  // file and offset
  bool operator<(const Place& other) const {
    return issued != other.issued ? issued < other.issued : where < other.where;
  }
};

struct Phase {
  PhaseKey key;
  SlotHeap<Place> requests;  // the first of them still waits: what leaves from there is taken out at once
  std::size_t count = 0;
  std::tuple<Bytes, Bytes, Bytes> progress;  // attained, bottleneck and total of the furthest stamp seen
  void reset() {
    requests.clear();
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
        slack_(options.duration("slack")) {}

 private:
  void enqueue(Slot slot) override {
    const Request& request = store_.request(slot);
    const Stamp& stamp = request.stamp;
    promises_.heard(stamp);
    const PhaseKey key{stamp.application, stamp.phase, known(stamp)};
    const std::uint32_t number = phases_.open(key);
    Phase& phase = phases_[number];
    store_.place(slot) = number;
    const Place place{issue_of(slot), (request.file << 48) + request.offset};
    const bool opened = phase.count++ == 0;
    const bool first = opened || place < phase.requests.top_key();
    phase.requests.push(place, store_.stamp(slot));
    if (!key.known) {
      if (first) wait_for_turn(number);
      return;
    }
    turns_.push(place.issued, cost(request));
    const std::tuple progress{stamp.attained, stamp.bottleneck, stamp.phase_total};
    if (!opened && progress <= phase.progress) return;
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
  TimePoint issue_of(Slot slot) const {
    const TimePoint arrived = store_.arrived(slot);
    return std::clamp(store_.request(slot).stamp.issued, arrived - slack_, arrived);
  }

  // To two binary digits: of phases alike, the one that began first goes on. What is left of them is not known better
  // than that, and passing each other back and forth would make them end together, compute together and leave servers
  // idle.
  static std::uint64_t left_of(const Stamp& stamp) {
    const std::uint64_t left = std::max(stamp.phase_total - stamp.attained, stamp.bottleneck).count();
    return left & ~(std::bit_floor(left) / 2 - 1);
  }

  void wait_for_turn(std::uint32_t number) {
    const Phase& phase = phases_[number];
    unknown_.set(number, {0, phase.requests.top_key().issued, phase.key.application, phase.key.phase});
  }

  void dequeue(Slot slot) override {
    const std::uint32_t number = store_.place(slot);
    Phase& phase = phases_[number];
    if (phase.requests.top(store_) == slot) phase.requests.pop(store_);  // it is still in the store
    phase.requests.prune(store_, --phase.count);
    settle(number, store_.request(slot));
  }

  Decision choose(TimePoint /*now*/) override {
    const std::uint32_t number = known_goes_first() ? next_known() : unknown_.top();
    Phase& phase = phases_[number];
    const Slot slot = phase.requests.top(store_);
    if (phase.key.known) note_run(number, store_.request(slot));
    phase.requests.pop(store_);
    --phase.count;
    settle(number, store_.request(slot));
    take(slot);
    return dispatch();
  }

  // After a request has left the phase.
  void settle(std::uint32_t number, const Request& request) {
    Phase& phase = phases_[number];
    const bool known = phase.key.known, over = phase.count == 0;
    if (known) owed_ -= cost(request);
    if (over) {
      (known ? known_ : unknown_).erase(number);
      phases_.close(number);
    } else if (!known) {
      phase.requests.top(store_);  // skips what has gone
      wait_for_turn(number);
    }
    if (!known_.empty() || !unknown_.empty()) return;
    turns_.clear();
    owed_ = 0;
  }

  // Takes the turns of known phases that are due: what they bring, any of these phases may use.
  bool known_goes_first() {
    if (known_.empty()) return false;
    const auto any = [](std::int64_t) { return true; };
    while (owed_ <= 0) {
      const std::int64_t* turn = turns_.top(any);
      if (!turn || (!unknown_.empty() && unknown_.top_key().since < turns_.top_key())) break;
      owed_ += *turn;
      turns_.pop();
    }
    return owed_ > 0 || may_pass();
  }

  // For certain smaller than the unknown phase whose turn it is: two digits are off by less than a half.
  bool may_pass() {
    if (-owed_ >= ahead_) return false;
    const Slot slot = phases_[unknown_.top()].requests.top(store_);
    const std::uint64_t left = known_.top_key().left;
    return left + left / 2 <= shown(store_.request(slot).stamp).count();
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
  const Duration slack_;
  Run run_;
  Promises promises_;
  Pool<PhaseKey, Phase> phases_;
  IndexedHeap<Rank> known_, unknown_;        // phases that have requests
  LazyHeap<TimePoint, std::int64_t> turns_;  // of known phases: since when, and what for; not taken yet
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
