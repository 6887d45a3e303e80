// SPDX-License-Identifier: Apache-2.0
// concert: the same order on every server without a word between them, smallest remaining phase first.
//
// Mean completion over several servers is the concurrent open shop problem: serve whole phases, in one common order,
// the one whose busiest target has least left to do first (Varys, Sincronia). What is left is known when the phase's
// size was announced or learned. When it is not, a phase counts as large as what it has shown so far, in a few
// exponentially growing levels (Aalo), and phases of one level take turns, in the order in which they asked.
//
// The levels end early on purpose. A newcomer of unknown size passes a running phase by the bytes of the levels below
// the last; were that more, phases of like size would catch up with each other, end together, compute together and
// leave the servers idle, and the mix as a whole would take longer than in order of arrival. For the same reason the
// last level also holds the first phases of applications that are said to be larger: if that is wrong, they wait for
// the small ones, but not until everybody else is done.
#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <vector>

#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"

namespace tutti {
namespace {

struct PhaseKey {
  ApplicationId application = 0;
  PhaseNumber phase = 0;
  bool operator==(const PhaseKey&) const = default;
  friend std::size_t hash_value(const PhaseKey& key) { return mix((std::uint64_t{key.application} << 32) | key.phase); }
};

// Earlier in this order goes first; a function of stamps alone.
struct Rank {
  std::uint64_t left = 0;  // bytes on the busiest target
  TimePoint since;         // the start of the phase; where phases take turns: the issue of its next request
  PhaseKey phase;
  bool operator<(const Rank& other) const {
    if (left != other.left) return left < other.left;
    if (since != other.since) return since < other.since;
    if (phase.application != other.phase.application) return phase.application < other.phase.application;
    return phase.phase < other.phase.phase;
  }
};

struct Place {
  FileId file = 0;
  std::uint64_t offset = 0;
  bool operator<(const Place& other) const { return file != other.file ? file < other.file : offset < other.offset; }
};

struct Phase {
  PhaseKey key;
  SlotHeap<Place> requests;  // the first of them still waits: what leaves from there is taken out at once
  std::size_t count = 0;
  std::tuple<Bytes, Bytes, Bytes> progress;  // attained, bottleneck and total of the furthest stamp seen
  Rank rank;
  TimePoint next_issue;      // of its first request by place
  bool takes_turns = false;  // its size is unknown, or a promise as large as the last level
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

std::vector<std::uint64_t> levels_from(const OptionValues& options) {
  const auto growth = static_cast<std::uint64_t>(options.integer("growth"));
  std::vector<std::uint64_t> levels = {std::max<std::uint64_t>(1, options.bytes("first_level").count())};
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  while (levels.size() < static_cast<std::size_t>(options.integer("levels")) && levels.back() <= kLargest / growth)
    levels.push_back(levels.back() * growth);
  return levels;
}

class Concert final : public QueuedPolicy {
 public:
  explicit Concert(const OptionValues& options)
      : QueuedPolicy(options.duration("patience")),
        levels_(levels_from(options)),
        last_level_(levels_.back()),
        longest_run_(options.bytes("run").count()) {}

 private:
  void enqueue(Slot slot) override {
    const Request& request = store_.request(slot);
    const PhaseKey key{request.stamp.application, request.stamp.phase};
    const std::uint32_t number = phases_.open(key);
    Phase& phase = phases_[number];
    store_.place(slot) = number;
    const Place place{request.file, request.offset};
    const bool opened = phase.count++ == 0;
    const bool first = opened || place < phase.requests.top_key();
    phase.requests.push(place, store_.stamp(slot));
    if (first) phase.next_issue = request.stamp.issued;
    const std::tuple progress{request.stamp.attained, request.stamp.bottleneck, request.stamp.phase_total};
    Rank rank = phase.rank;
    if (opened || progress > phase.progress) {
      phase.progress = progress;
      rank = judge(phase, request.stamp);
    }
    if (phase.takes_turns) rank.since = phase.next_issue;
    if (!opened && rank.left == phase.rank.left && rank.since == phase.rank.since) return;
    phase.rank = rank;
    order_.set(number, rank);
  }

  // Where a stamp puts its phase, and whether it takes turns there.
  Rank judge(Phase& phase, const Stamp& stamp) const {
    const bool known = stamp.phase_total > Bytes{};
    const std::uint64_t left = known ? left_of(stamp) : level_of(stamp);
    phase.takes_turns = !known || (left >= last_level_ && promised(stamp));
    return {phase.takes_turns ? std::min(left, last_level_) : left, stamp.phase_start, phase.key};
  }

  // A phase that takes turns stands in the order of its level where the request stands that it would send next.
  void turn(std::uint32_t number) {
    Phase& phase = phases_[number];
    phase.next_issue = store_.request(phase.requests.top(store_)).stamp.issued;
    if (!phase.takes_turns) return;
    phase.rank.since = phase.next_issue;
    order_.set(number, phase.rank);
  }

  void dequeue(Slot slot) override {
    const std::uint32_t number = store_.place(slot);
    Phase& phase = phases_[number];
    if (phase.requests.top(store_) == slot) phase.requests.pop(store_);  // it is still in the store
    phase.requests.prune(store_, --phase.count);
    settle(number);
  }

  Decision choose(TimePoint /*now*/) override {
    const std::uint32_t number = next_phase();
    Phase& phase = phases_[number];
    const Slot slot = phase.requests.top(store_);
    note_run(number, store_.request(slot));
    phase.requests.pop(store_);
    --phase.count;
    settle(number);
    take(slot);
    return dispatch();
  }

  // The first in the order, unless an operation is in the middle of its run.
  std::uint32_t next_phase() {
    const std::uint32_t first = order_.top();
    if (run_.left == 0 || run_.phase == first || !order_.contains(run_.phase)) return first;
    Phase& running = phases_[run_.phase];
    if (running.key != run_.key) return first;  // the number is another phase's by now
    return store_.request(running.requests.top(store_)).stamp.operation == run_.operation ? run_.phase : first;
  }

  void note_run(std::uint32_t number, const Request& request) {
    const PhaseKey key{request.stamp.application, request.stamp.phase};
    if (run_.left == 0 || run_.operation != request.stamp.operation || run_.key != key)
      run_ = {number, key, request.stamp.operation, longest_run_};
    run_.left -= std::min(run_.left, request.length.count());
  }

  // After a request has left the phase.
  void settle(std::uint32_t number) {
    if (phases_[number].count == 0) {
      order_.erase(number);
      phases_.close(number);
    } else {
      turn(number);
    }
  }

  // Known sizes are compared in powers of two: of phases alike, the one that began first goes on. What is left of
  // them is not known better than that, and passing each other back and forth would make them end together.
  static std::uint64_t left_of(const Stamp& stamp) {
    if (stamp.phase_total > stamp.attained) return std::bit_floor((stamp.phase_total - stamp.attained).count());
    // A phase that outgrew what it was said to be: expected to go on for as much again as it is over.
    return std::bit_floor((stamp.attained - stamp.phase_total + stamp.bottleneck).count());
  }

  // Whether some of the phase is still a promise, of an application that nobody has seen keep one: later phases come
  // with a size only if what was said of the one before was right (src/sched/stamper.h).
  static bool promised(const Stamp& stamp) {
    return stamp.phase <= 1 && stamp.phase_total > stamp.attained + stamp.bottleneck;
  }

  std::uint64_t level_of(const Stamp& stamp) const {
    const std::uint64_t shown = stamp.attained.count() + stamp.bottleneck.count();
    return *std::find_if(levels_.begin(), levels_.end() - 1, [=](std::uint64_t level) { return level >= shown; });
  }

  std::vector<std::uint64_t> levels_;  // their sizes, ascending; at least one
  std::uint64_t last_level_;
  std::uint64_t longest_run_;
  Run run_;
  Pool<PhaseKey, Phase> phases_;
  IndexedHeap<Rank> order_;  // of phases that have requests
};

}  // namespace

PolicyInfo concert_policy() {
  using Kind = OptionInfo::Kind;
  return {.name = "concert",
          .summary = "smallest remaining phase first, in the same order on every server (the default)",
          .paper = "",
          .options = {{.name = "first_level",
                       .kind = Kind::kBytes,
                       .fallback = "512KiB",
                       .help = "phases of unknown size count as this large until they have shown more"},
                      {.name = "growth",
                       .kind = Kind::kInteger,
                       .fallback = "8",
                       .help = "each level of unknown phases is this many times the one before",
                       .choices = {},
                       .low = 2,
                       .high = 1024},
                      {.name = "levels",
                       .kind = Kind::kInteger,
                       .fallback = "3",
                       .help = "of unknown phases; those of one level take turns, however much larger than the last",
                       .choices = {},
                       .low = 1,
                       .high = 64},
                      {.name = "run",
                       .kind = Kind::kBytes,
                       .fallback = "512KiB",
                       .help = "an operation that was begun goes on for so much before another may come first"},
                      patience_option("60s")},
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) { return std::make_unique<Concert>(options); }};
}

}  // namespace tutti
