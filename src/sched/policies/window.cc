// SPDX-License-Identifier: Apache-2.0
// window: all servers serve one application at a time (server-side coordination, SC11, section 3.1).
// Requests are ordered by the time window of their issue, then by order id, then by application (two applications may
// have the same order id), then by arrival or, for disks, by offset. Ordering by offset here instead of in the disk's
// own queue keeps requests in this policy, where an application with a lower order id can still overtake them.
#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"
#include "sched/sweep.h"

namespace tutti {
namespace {

struct WindowKey {
  std::int64_t window = 0;
  OrderId order = 0;
  ApplicationId application = 0;
  UserId user = 0;
  auto operator<=>(const WindowKey&) const = default;
  friend std::size_t hash_value(const WindowKey& key) {
    return mix(static_cast<std::uint64_t>(key.window) * 0x9e3779b97f4a7c15 + (std::uint64_t{key.user} << 32) +
               key.application);
  }
};

// Requests of one application in elevator order.
class SweepQueue {
 public:
  bool empty() const { return count_ == 0; }

  void push(const RequestStore& store, Slot slot) {
    requests_.push(sweep_.of(store.request(slot)), store.version(slot));
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
  // One of them is about to leave the store by another way (cancelled, overdue).
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
  SlotHeap<SweepPosition> requests_;  // some of which may have left
  std::size_t count_ = 0;
};

template <typename Queue>
class Window final : public QueuedPolicy {
 public:
  explicit Window(const OptionValues& options)
      : QueuedPolicy(options.duration("patience"), options.duration("gather")),
        width_(options.duration("width").count()),
        slack_(options.duration("slack")) {}

 private:
  void enqueue(Slot slot) override {
    const Stamp& stamp = store_.request(slot).stamp;
    const WindowKey key{window_of(issue_of(slot, slack_)), stamp.order, stamp.application, stamp.user};
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

  struct WindowQueue {
    WindowKey key;
    Queue queue;
    void reset() { queue.clear(); }
  };

  std::int64_t window_of(TimePoint issued) const {
    const std::int64_t time = issued.time_since_epoch().count();
    return time / width_ - (time % width_ < 0);  // rounds down, also before 1970
  }

  const std::int64_t width_;
  const Duration slack_;
  Pool<WindowKey, WindowQueue> groups_;
  IndexedHeap<WindowKey> order_;  // of groups that have requests
};

}  // namespace

PolicyInfo window_policy() {
  using Kind = OptionInfo::Kind;
  return {.name = "window",
          .summary = "one application at a time, by time window of issue and order id",
          .paper = "server-side-coordination-sc11",
          .options = {{.name = "width",
                       .kind = Kind::kDuration,
                       .fallback = "1000ms",
                       .flash_fallback = "250ms",
                       .help = "Length of a time window. Default: 1000ms on rotating disks, 250ms on flash"},
                      {.name = "order",
                       .kind = Kind::kChoice,
                       .fallback = "arrival",
                       .help = "Order of requests inside an application: arrival (as in the paper) or offset (disks)",
                       .choices = {"arrival", "offset"}},
                      slack_option(),
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
