// SPDX-License-Identifier: Apache-2.0
// fifo: order of arrival. What a server does without a scheduler; the baseline.
#include "sched/policies/policies.h"
#include "sched/queued_policy.h"

namespace tutti {
namespace {

class Fifo final : public QueuedPolicy {
 private:
  void enqueue(Slot slot) override { queue_.push_back(store_, slot); }
  void dequeue(Slot slot) override { queue_.remove(store_, slot); }

  Decision choose(TimePoint /*now*/) override {
    const Slot slot = queue_.front();
    queue_.remove(store_, slot);
    take(slot);
    return dispatch();
  }

  SlotList queue_;
};

}  // namespace

PolicyInfo fifo_policy() {
  return {.name = "fifo",
          .summary = "order of arrival",
          .paper = "",
          .options = {},
          .bound = {},
          .make = [](const OptionValues&) { return std::make_unique<Fifo>(); }};
}

}  // namespace tutti
