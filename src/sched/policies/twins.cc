// SPDX-License-Identifier: Apache-2.0
// twins: each forwarding node serves one target per time window, each node a different one.
// The target of a window is a function of the wall clock and the node's number, so nodes with synchronised clocks take
// turns without messages (TWINS, section 2). Requests of a target are served by file and offset, and adjoining ones are
// merged: the paper reports larger aggregated requests, and in our model offset order is most of the gain of other
// policies. In mode `lend`, a window without requests is given to the target with the fewest batches in flight from
// this node. Otherwise processes that read the stripes in the same order would stay together, all at one target at a
// time.
#include <bit>
#include <utility>

#include "sched/heaps.h"
#include "sched/merging.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"

namespace tutti {
namespace {

// Requests of one file, target and direction.
struct StreamKey {
  FileId file = 0;
  std::uint32_t target = 0;
  Direction direction = Direction::kRead;
  bool operator==(const StreamKey&) const = default;
  bool operator<(const StreamKey& other) const {  // of one target
    return file != other.file ? file < other.file : direction < other.direction;
  }
  friend std::size_t hash_value(const StreamKey& key) {
    return mix(key.file * 2 + static_cast<std::uint64_t>(key.direction)) + key.target;
  }
};

struct Stream {
  StreamKey key;
  SlotHeap<std::uint64_t> by_offset;
  std::size_t count = 0;
  std::uint32_t generation = 0;  // how often the number was opened
  void reset() {
    by_offset.clear();
    ++generation;
  }
};

struct StreamStamp {
  std::uint32_t number = 0;
  std::uint32_t generation = 0;
};

struct TargetQueue {
  LazyHeap<StreamKey, StreamStamp> streams;  // some of which may be closed
  std::size_t count = 0;                     // requests
  std::size_t under_way = 0;                 // batches
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

  void completed(const Batch& batch, TimePoint /*dispatched*/, TimePoint /*now*/) override {
    const std::uint32_t target = target_of(batch.requests.front());
    // Batches of a policy that was switched off end here, too, and overdue requests, which were not counted.
    if (target < queues_.size() && queues_[target].under_way > 0) --queues_[target].under_way, --under_way_;
  }

 private:
  void enqueue(Slot slot) override {
    const Request& request = store_.request(slot);
    const std::uint32_t target = target_of(request);
    if (target >= queues_.size()) make_room(target + 1);
    const std::uint32_t number = streams_.open({request.file, target, request.direction});
    Stream& stream = streams_[number];
    if (stream.count++ == 0) list(number, stream);
    stream.by_offset.push(request.offset, store_.version(slot));
    store_.place(slot) = number;
    ++queues_[target].count;
    busy_[target / 64] |= bit(target);
  }

  auto is_open() const {
    return [this](const StreamStamp& stamp) { return streams_[stamp.number].generation == stamp.generation; };
  }

  void list(std::uint32_t number, const Stream& stream) {
    TargetQueue& queue = queues_[stream.key.target];
    queue.streams.prune(queue.count, is_open());
    queue.streams.push(stream.key, {number, stream.generation});
  }

  void dequeue(Slot slot) override {
    Stream& stream = streams_[store_.place(slot)];
    stream.by_offset.prune(store_, stream.count - 1);
    left(store_.place(slot));
  }

  // A request has left the stream, or is about to leave the store.
  void left(std::uint32_t number) {
    const std::uint32_t target = streams_[number].key.target;
    if (--streams_[number].count == 0) streams_.close(number);
    if (--queues_[target].count > 0) return;
    queues_[target].streams.clear();
    busy_[target / 64] &= ~bit(target);
  }

  Decision choose(TimePoint now) override {
    const std::int64_t time = now.time_since_epoch().count();
    const std::int64_t window = time / width_ - (time % width_ < 0);
    const auto targets = static_cast<std::int64_t>(queues_.size());
    const std::int64_t turn = (window % targets + targets + node_) % targets;
    const auto own = static_cast<std::size_t>(turn);
    std::size_t target = next_busy(own);
    if (target != own && !lend_) {
      const std::size_t windows = target > own ? target - own : target + queues_.size() - own;
      return WaitUntil{TimePoint(Duration((window + static_cast<std::int64_t>(windows)) * width_))};
    }
    if (target != own && under_way_ > 0 && under_way_ <= kFew) target = least_busy(target);
    ++queues_[target].under_way, ++under_way_;
    take_run(queues_[target].streams.top(is_open())->number);
    return dispatch();
  }

  // Of the targets that have requests, from `first` on, the one with the fewest batches under way; of equals the one
  // whose next request comes first in the files, so that processes that lag behind catch up.
  std::size_t least_busy(std::size_t first) {
    std::size_t best = first, target = first;
    for (int looks = 0; looks < kMostLooks; ++looks) {
      target = next_busy(target + 1 == queues_.size() ? 0 : target + 1);
      if (target == first) break;
      const std::size_t its = queues_[target].under_way, least = queues_[best].under_way;
      if (its < least || (its == least && head(target) < head(best))) best = target;
    }
    return best;
  }

  // File and offset of the request that the target would be served next; it has one.
  std::pair<FileId, std::uint64_t> head(std::size_t target) {
    Stream& stream = streams_[queues_[target].streams.top(is_open())->number];
    return {stream.key.file, store_.request(stream.by_offset.top(store_)).offset};
  }

  // Takes the first request of the stream and those that adjoin it.
  void take_run(std::uint32_t number) {
    Bytes size;
    for (bool more = true; more;) {
      Stream& stream = streams_[number];
      const Slot slot = stream.by_offset.top(store_);
      const Request& request = store_.request(slot);
      if (!batch().empty() &&
          !(batch().back().end() == request.offset && limits_.admits(batch().size(), size, request.length)))
        return;
      size += request.length;
      stream.by_offset.pop(store_);
      more = stream.count > 1;
      left(number);
      take(slot);
    }
  }

  std::uint32_t target_of(const Request& request) const {
    return static_cast<std::uint32_t>(request.target % (fixed_targets_ > 0 ? fixed_targets_ : kMostTargets));
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
  static constexpr std::size_t kFew = 64;  // batches under way: with more of them every target has some
  static constexpr int kMostLooks = 8;     // at targets, for one to lend to

  MergeLimits limits_;
  std::int64_t width_;
  std::int64_t node_;
  std::size_t fixed_targets_;  // 0: as many as the requests name
  bool lend_;
  Pool<StreamKey, Stream> streams_;
  std::vector<TargetQueue> queues_;  // by target
  std::vector<std::uint64_t> busy_;  // a bit per target that has requests
  std::size_t under_way_ = 0;        // batches, to all targets
};

}  // namespace

PolicyInfo twins_policy() {
  using Kind = OptionInfo::Kind;
  return {
      .name = "twins",
      .summary = "forwarding nodes: one target per time window, each node a different one",
      .paper = "twins-forwarding-layer",
      .options = {{.name = "width", .kind = Kind::kDuration, .fallback = "1ms", .help = "Width of a time window"},
                  {.name = "node",
                   .kind = Kind::kInteger,
                   .fallback = "0",
                   .help = "This node's number among the forwarding nodes",
                   .choices = {},
                   .low = 0,
                   .high = 1'000'000},
                  {.name = "targets",
                   .kind = Kind::kInteger,
                   .fallback = "0",
                   .help = "Number of targets, the same on all nodes; 0: the largest one seen in a request, plus one",
                   .choices = {},
                   .low = 0,
                   .high = 65536},
                  {.name = "mode",
                   .kind = Kind::kChoice,
                   .fallback = "lend",
                   .help = "If the window's target has no requests: strict stays idle, lend serves another target",
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
