// SPDX-License-Identifier: Apache-2.0
// window: all servers serve one application at a time (server-side coordination, SC11, section 3.1).
// Requests go by time window of their issue, then by application, then in order of arrival.
#include "sched/heaps.h"
#include "sched/policies/policies.h"
#include "sched/pool.h"
#include "sched/queued_policy.h"

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

struct Group {
  GroupKey key;
  SlotQueue queue;
  void reset() { queue.clear(); }
};

class Window final : public QueuedPolicy {
 public:
  explicit Window(const OptionValues& options)
      : QueuedPolicy(options.duration("patience")), width_(options.duration("width").count()) {}

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
                      patience_option("60s")},
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) -> Result<std::unique_ptr<Policy>> {
            if (options.duration("width") == Duration::zero())
              return fail(ErrorCode::kInvalid, "policy 'window': option 'width': must be longer than 0");
            return std::make_unique<Window>(options);
          }};
}

}  // namespace tutti
