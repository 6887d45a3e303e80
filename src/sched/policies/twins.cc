// SPDX-License-Identifier: Apache-2.0
// twins: each forwarding node serves one target per time window, each node a different one.
// The target of a window is a function of the wall clock and the node's number, so that nodes that share a clock
// take turns without a word (TWINS, section 2). A target's requests go in offset order, those that adjoin as one: the
// paper reports larger aggregated requests, and in our model order by offset is most of what other policies gain.
#include <bit>

#include "sched/heaps.h"
#include "sched/merging.h"
#include "sched/policies/policies.h"
#include "sched/queued_policy.h"

namespace tutti {
namespace {

// Where a request lies: adjoining ones follow each other in this order.
struct Place {
  FileId file = 0;
  Direction direction = Direction::kRead;
  std::uint64_t offset = 0;
  bool operator<(const Place& other) const {
    if (file != other.file) return file < other.file;
    return direction != other.direction ? direction < other.direction : offset < other.offset;
  }
};

struct TargetQueue {
  SlotHeap<Place> by_place;
  std::size_t count = 0;
};

class Twins final : public QueuedPolicy {
 public:
  explicit Twins(const OptionValues& options)
      : QueuedPolicy(options.duration("patience")),
        limits_(options),
        width_(options.duration("width").count()),
        node_(options.integer("node")),
        fixed_targets_(static_cast<std::size_t>(options.integer("targets"))),
        lend_(options.text("mode") == "lend") {
    if (fixed_targets_ > 0) make_room(fixed_targets_);
  }

 private:
  void enqueue(Slot slot) override {
    const std::size_t target = queue_of(slot);
    if (target >= queues_.size()) make_room(target + 1);
    const Request& request = store_.request(slot);
    queues_[target].by_place.push({request.file, request.direction, request.offset}, store_.stamp(slot));
    ++queues_[target].count;
    busy_[target / 64] |= bit(target);
  }

  void dequeue(Slot slot) override {
    const std::size_t target = queue_of(slot);
    TargetQueue& queue = queues_[target];
    queue.by_place.prune(store_, --queue.count);
    note_if_empty(target);
  }

  Decision choose(TimePoint now) override {
    const std::int64_t time = now.time_since_epoch().count();
    const std::int64_t window = time / width_ - (time % width_ < 0);
    const auto targets = static_cast<std::int64_t>(queues_.size());
    const std::int64_t turn = (window % targets + targets + node_) % targets;
    const auto own = static_cast<std::size_t>(turn);
    const std::size_t target = next_busy(own);
    if (target != own && !lend_) {
      const std::size_t windows = target > own ? target - own : target + queues_.size() - own;
      return WaitUntil{TimePoint(Duration((window + static_cast<std::int64_t>(windows)) * width_))};
    }
    take_run(target);
    note_if_empty(target);
    return dispatch();
  }

  // The first request of the target's queue and those that adjoin it.
  void take_run(std::size_t target) {
    TargetQueue& queue = queues_[target];
    Bytes size;
    for (Slot slot = queue.by_place.top(store_); slot != kNoSlot; slot = queue.by_place.top(store_)) {
      const Request& request = store_.request(slot);
      if (!batch().empty() &&
          !(adjoins(batch().back(), request) && limits_.admits(batch().size(), size, request.length)))
        return;
      size += request.length;
      queue.by_place.pop(store_);
      --queue.count;
      take(slot);
    }
  }

  static bool adjoins(const Request& before, const Request& after) {
    return before.file == after.file && before.direction == after.direction && before.end() == after.offset;
  }

  std::size_t queue_of(Slot slot) const {
    const std::size_t target = store_.request(slot).target;
    return fixed_targets_ > 0 ? target % fixed_targets_ : target % kMostTargets;
  }

  void note_if_empty(std::size_t target) {
    if (queues_[target].count > 0) return;
    queues_[target].by_place.clear();
    busy_[target / 64] &= ~bit(target);
  }

  void make_room(std::size_t targets) {
    queues_.resize(targets);
    busy_.resize((targets + 63) / 64);
  }

  // The first target from `from` on, around the ring, that has requests; there is one.
  std::size_t next_busy(std::size_t from) const {
    std::size_t word = from / 64;
    std::uint64_t bits = busy_[word] & (~std::uint64_t{0} << (from % 64));
    while (bits == 0) {
      word = word + 1 == busy_.size() ? 0 : word + 1;
      bits = busy_[word];
    }
    return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }

  static std::uint64_t bit(std::size_t target) { return std::uint64_t{1} << (target % 64); }

  static constexpr std::size_t kMostTargets = 65536;

  MergeLimits limits_;
  std::int64_t width_;
  std::int64_t node_;
  std::size_t fixed_targets_;  // 0: as many as the requests name
  bool lend_;
  std::vector<TargetQueue> queues_;  // by target
  std::vector<std::uint64_t> busy_;  // a bit per target that has requests
};

}  // namespace

PolicyInfo twins_policy() {
  using Kind = OptionInfo::Kind;
  return {.name = "twins",
          .summary = "forwarding nodes: one target per time window, each node a different one",
          .paper = "twins-forwarding-layer",
          .options = {{.name = "width", .kind = Kind::kDuration, .fallback = "1ms", .help = "of a time window"},
                      {.name = "node",
                       .kind = Kind::kInteger,
                       .fallback = "0",
                       .help = "this node's number among the forwarding nodes",
                       .choices = {},
                       .low = 0,
                       .high = 1'000'000},
                      {.name = "targets",
                       .kind = Kind::kInteger,
                       .fallback = "0",
                       .help = "how many targets there are, the same on all nodes; 0: as many as requests name",
                       .choices = {},
                       .low = 0,
                       .high = 65536},
                      {.name = "mode",
                       .kind = Kind::kChoice,
                       .fallback = "lend",
                       .help = "strict: idle when the window's target has no requests; lend: serve the next one's",
                       .choices = {"lend", "strict"}},
                      max_requests_option(),
                      max_bytes_option(),
                      patience_option("10s")},
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) -> Result<std::unique_ptr<Policy>> {
            if (options.duration("width") == Duration::zero())
              return fail(ErrorCode::kInvalid, "policy 'twins': option 'width': must be longer than 0");
            return std::make_unique<Twins>(options);
          }};
}

}  // namespace tutti
