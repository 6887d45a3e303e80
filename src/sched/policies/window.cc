// SPDX-License-Identifier: Apache-2.0
// window: all servers serve one application at a time (server-side coordination, SC11, section 3.1).
// Requests go by time window of their issue, then by application, then in order of arrival or, which suits disks, of
// offset: then a disk needs no queue of its own to move its head little, and what waits here can still be overtaken by
// an application that comes first.
#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"
#include "sched/sweep.h"

namespace tutti {
namespace {

struct GroupKey {
  std::int64_t window = 0;
  ApplicationId application = 0;
  auto operator<=>(const GroupKey&) const = default;
  friend std::size_t hash_value(const GroupKey& key) {
    return mix(static_cast<std::uint64_t>(key.window) * 0x9e3779b97f4a7c15 + key.application);
  }
};

// Requests of one application, swept over by file and offset.
class SweepQueue {
 public:
  bool empty() const { return count_ == 0; }

  void push(const RequestStore& store, Slot slot) {
    requests_.push(sweep_.of(store.request(slot)), store.stamp(slot));
    ++count_;
  }
  // Takes the next one that waits; there is one.
  Slot pop(const RequestStore& store) {
    const Slot slot = requests_.top(store);
    sweep_.reached(requests_.top_key());
    requests_.pop(store);
    if (--count_ == 0) clear();
    return slot;
  }
  // One of them is about to leave the store by another way.
  void lose_one(const RequestStore& store) {
    if (--count_ == 0) return clear();
    requests_.prune(store, count_);
  }
  void clear() {
    requests_.clear();
    count_ = 0;
    sweep_ = {};
  }

 private:
  Sweep sweep_;
  SlotHeap<Place> requests_;  // some of which may have left
  std::size_t count_ = 0;
};

template <typename Queue>
class Window final : public QueuedPolicy {
 public:
  explicit Window(const OptionValues& options)
      : QueuedPolicy(options.duration("patience"), options.duration("gather")),
        width_(options.duration("width").count()) {}

 private:
  void enqueue(Slot slot) override {
    const Stamp& stamp = store_.request(slot).stamp;
    const GroupKey key{window_of(stamp.issued), stamp.application};
    const std::uint32_t group = groups_.open(key);
    if (groups_[group].queue.empty()) order_.set(group, key);
    groups_[group].queue.push(store_, slot);
    store_.place(slot) = group;
  }

  void dequeue(Slot slot) override {
    const std::uint32_t group = store_.place(slot);
    groups_[group].queue.lose_one(store_);
    close_if_empty(group);
  }

  void close_if_empty(std::uint32_t group) {
    if (!groups_[group].queue.empty()) return;
    order_.erase(group);
    groups_.close(group);
  }

  Decision choose(TimePoint /*now*/) override {
    const std::uint32_t group = order_.top();
    const Slot slot = groups_[group].queue.pop(store_);
    close_if_empty(group);
    take(slot);
    return dispatch();
  }

  struct Group {
    GroupKey key;
    Queue queue;
    void reset() { queue.clear(); }
  };

  std::int64_t window_of(TimePoint issued) const {
    const std::int64_t time = issued.time_since_epoch().count();
    return time / width_ - (time % width_ < 0);  // rounds down, also before 1970
  }

  std::int64_t width_;
  Pool<GroupKey, Group> groups_;
  IndexedHeap<GroupKey> order_;  // of groups that have requests
};

}  // namespace

PolicyInfo window_policy() {
  using Kind = OptionInfo::Kind;
  return {.name = "window",
          .summary = "one application at a time, by time window of issue and application id",
          .paper = "server-side-coordination-sc11",
          .options = {{.name = "width",
                       .kind = Kind::kDuration,
                       .fallback = "1000ms",
                       .help = "of a time window; the paper's best: 1000ms on disks, 250ms on flash"},
                      {.name = "order",
                       .kind = Kind::kChoice,
                       .fallback = "arrival",
                       .help = "of an application's requests: arrival, as the paper has it; offset: for disks",
                       .choices = {"arrival", "offset"}},
                      gather_option(),
                      patience_option("60s")},
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) -> Result<std::unique_ptr<Policy>> {
            if (options.duration("width") == Duration::zero())
              return fail(ErrorCode::kInvalid, "policy 'window': option 'width': must be longer than 0");
            if (options.text("order") == "offset") return std::make_unique<Window<SweepQueue>>(options);
            return std::make_unique<Window<SlotQueue>>(options);
          }};
}

}  // namespace tutti
