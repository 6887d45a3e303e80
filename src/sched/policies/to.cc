// SPDX-License-Identifier: Apache-2.0
// to: order of arrival; adjoining requests of the same file and direction that already wait go along.
#include <algorithm>

#include "sched/adjacency.h"
#include "sched/merging.h"
#include "sched/policies/policies.h"
#include "sched/prediction/predicting_policy.h"
#include "sched/queued_policy.h"

namespace tutti {
namespace {

class TimeOrder final : public QueuedPolicy {
 public:
  explicit TimeOrder(const OptionValues& options)
      : QueuedPolicy(options.duration("patience")), limits_(options), adjacency_(store_, MergePlace(options)) {}

 private:
  void enqueue(Slot slot) override { adjacency_.add(slot); }
  void dequeue(Slot slot) override { adjacency_.remove(slot); }

  Decision choose(TimePoint /*now*/) override {
    gather(store_.oldest());
    for (const Slot slot : run_) {
      dequeue(slot);
      take(slot);
    }
    return dispatch();
  }

  // Into run_, in offset order: `first` and what adjoins it, backwards and then forwards.
  void gather(Slot first) {
    run_.assign(1, first);
    Bytes size = store_.request(first).length;
    const auto join = [&](Slot slot) {
      if (slot == kNoSlot || !limits_.admits(run_.size(), size, store_.request(slot).length)) return false;
      size += store_.request(slot).length;
      run_.push_back(slot);
      store_.expect(adjacency_.guess_later(store_.request(slot)));
      return true;
    };
    while (join(adjacency_.preceding(store_.request(run_.back())))) continue;
    std::reverse(run_.begin(), run_.end());
    while (join(adjacency_.following(store_.request(run_.back())))) continue;
  }

  MergeLimits limits_;
  Adjacency adjacency_;
  std::vector<Slot> run_;
};

}  // namespace

PolicyInfo to_policy() {
  return {.name = "to",
          .summary = "order of arrival; adjoining requests that wait are merged",
          .paper = "twins-forwarding-layer",
          .options = with_prediction_options(
              {max_requests_option(), max_bytes_option(), adjoin_option(), patience_option("10s")}),
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) { return std::make_unique<TimeOrder>(options); }};
}

}  // namespace tutti
