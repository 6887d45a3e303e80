// SPDX-License-Identifier: Apache-2.0
// sjf: queues per file and direction; the queue with the fewest waiting bytes goes first, merging inside it.
#include "sched/file_queues.h"
#include "sched/policies/policies.h"
#include "sched/prediction/predicting_policy.h"

namespace tutti {
namespace {

class ShortestJobFirst final : public FileQueuedPolicy {
 public:
  explicit ShortestJobFirst(const OptionValues& options) : FileQueuedPolicy(options, /*queue_per_direction=*/true) {}

 private:
  struct Size {
    Bytes waiting;
    FileId file = 0;  // breaks ties the same way on every run
    auto operator<=>(const Size&) const = default;
  };

  void opened(std::uint32_t number) override { changed(number); }
  void changed(std::uint32_t number) override { order_.set(number, {queue(number).bytes, queue(number).key.file}); }
  void closing(std::uint32_t number) override { order_.erase(number); }

  Decision choose(TimePoint /*now*/) override {
    take_run(order_.top(), limits());
    return dispatch();
  }

  IndexedHeap<Size> order_;
};

}  // namespace

PolicyInfo sjf_policy() {
  return {.name = "sjf",
          .summary = "the file with the fewest waiting bytes first; adjoining requests are merged",
          .paper = "twins-forwarding-layer",
          .options = with_prediction_options(
              {max_requests_option(), max_bytes_option(), adjoin_option(), patience_option("10s")}),
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) { return std::make_unique<ShortestJobFirst>(options); }};
}

}  // namespace tutti
