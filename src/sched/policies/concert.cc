// SPDX-License-Identifier: Apache-2.0
// concert: the same order on every server without a word between them, smallest remaining phase first.
//
// Mean completion over several servers is the concurrent open shop problem: serve whole phases, in one common order,
// the one whose busiest target has least left to do first (Varys, Sincronia). What is left is known when the phase's
// size was announced or learned. When it is not, a phase counts as large as what it has shown so far, in exponentially
// growing levels (Aalo), and phases of one level go in the order they started.
#include <limits>
#include <tuple>

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
  TimePoint start;
  PhaseKey phase;
  bool operator<(const Rank& other) const {
    if (left != other.left) return left < other.left;
    if (start != other.start) return start < other.start;
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
  SlotHeap<Place> requests;
  std::size_t count = 0;
  std::tuple<Bytes, Bytes, Bytes> progress;  // attained, bottleneck and total of the furthest stamp seen
  void reset() {
    requests.clear();
    count = 0;
    progress = {};
  }
};

class Concert final : public QueuedPolicy {
 public:
  explicit Concert(const OptionValues& options)
      : QueuedPolicy(options.duration("patience")),
        first_level_(std::max<std::uint64_t>(1, options.bytes("first_level").count())),
        growth_(static_cast<std::uint64_t>(options.integer("growth"))) {}

 private:
  void enqueue(Slot slot) override {
    const Request& request = store_.request(slot);
    const PhaseKey key{request.stamp.application, request.stamp.phase};
    const std::uint32_t number = phases_.open(key);
    Phase& phase = phases_[number];
    phase.requests.push({request.file, request.offset}, store_.stamp(slot));
    store_.place(slot) = number;
    const std::tuple progress{request.stamp.attained, request.stamp.bottleneck, request.stamp.phase_total};
    if (phase.count++ == 0 || progress > phase.progress) {
      phase.progress = progress;
      order_.set(number, {left_of(request.stamp), request.stamp.phase_start, key});
    }
  }

  void dequeue(Slot slot) override {
    const std::uint32_t number = store_.place(slot);
    Phase& phase = phases_[number];
    phase.requests.prune(store_, --phase.count);
    if (phase.count == 0) close(number);
  }

  Decision choose(TimePoint /*now*/) override {
    const std::uint32_t number = order_.top();
    Phase& phase = phases_[number];
    const Slot slot = phase.requests.top(store_);
    phase.requests.pop(store_);
    if (--phase.count == 0) close(number);
    take(slot);
    return dispatch();
  }

  void close(std::uint32_t number) {
    order_.erase(number);
    phases_.close(number);
  }

  std::uint64_t left_of(const Stamp& stamp) const {
    if (stamp.phase_total > stamp.attained) return (stamp.phase_total - stamp.attained).count();
    // A phase that outgrew what it was said to be: expected to go on for as much again as it is over.
    if (stamp.phase_total > Bytes{}) return (stamp.attained - stamp.phase_total + stamp.bottleneck).count();
    return level_of(stamp.attained.count() + stamp.bottleneck.count());
  }

  std::uint64_t level_of(std::uint64_t shown) const {
    std::uint64_t level = first_level_;
    while (level < shown && level < std::numeric_limits<std::uint64_t>::max() / growth_) level *= growth_;
    return level;
  }

  std::uint64_t first_level_;
  std::uint64_t growth_;
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
                       .fallback = "1MiB",
                       .help = "phases of unknown size count as this large until they have shown more"},
                      {.name = "growth",
                       .kind = Kind::kInteger,
                       .fallback = "8",
                       .help = "each level of unknown phases is this many times the one before",
                       .choices = {},
                       .low = 2,
                       .high = 1024},
                      patience_option("60s")},
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) { return std::make_unique<Concert>(options); }};
}

}  // namespace tutti
