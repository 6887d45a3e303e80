// SPDX-License-Identifier: Apache-2.0
// hbrr: queues per file, visited in turn; each visit serves at most a quantum of requests or bytes, merging inside it.
#include <algorithm>

#include "sched/file_queues.h"
#include "sched/policies/policies.h"
#include "sched/prediction/predicting_policy.h"

namespace tutti {
namespace {

class HandleRoundRobin final : public FileQueuedPolicy {
 public:
  explicit HandleRoundRobin(const OptionValues& options)
      : FileQueuedPolicy(options, /*queue_per_direction=*/false),
        quantum_requests_(static_cast<std::size_t>(options.integer("quantum"))),
        quantum_bytes_(options.bytes("quantum_bytes")) {
    start_visit();
  }

 private:
  // The ring: a new queue comes last, that is, just before the one being visited.
  void opened(std::uint32_t number) override {
    FileQueue& added = queue(number);
    if (current_ == kNone) {
      added.previous = added.next = current_ = number;
      return start_visit();
    }
    added.next = current_;
    added.previous = queue(current_).previous;
    queue(added.previous).next = number;
    queue(current_).previous = number;
  }

  void changed(std::uint32_t /*number*/) override {}

  void closing(std::uint32_t number) override {
    FileQueue& leaving = queue(number);
    queue(leaving.previous).next = leaving.next;
    queue(leaving.next).previous = leaving.previous;
    if (number != current_) return;
    current_ = leaving.next == number ? kNone : leaving.next;
    start_visit();
  }

  Decision choose(TimePoint /*now*/) override {
    const std::uint32_t visited = current_;
    MergeLimits limits = this->limits();
    limits.requests = std::min(limits.requests, requests_left_);
    limits.bytes = std::min(limits.bytes, bytes_left_);
    take_run(visited, limits);
    if (current_ == visited) use_quantum();  // else the visit ended with the queue
    return dispatch();
  }

  void use_quantum() {
    Bytes served;
    for (const Request& request : batch()) served += request.length;
    requests_left_ -= std::min(requests_left_, batch().size());
    bytes_left_ -= std::min(bytes_left_, served);
    if (requests_left_ > 0 && bytes_left_ > Bytes()) return;
    current_ = queue(current_).next;
    start_visit();
  }

  void start_visit() {
    requests_left_ = quantum_requests_;
    bytes_left_ = quantum_bytes_;
  }

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::size_t quantum_requests_;
  Bytes quantum_bytes_;
  std::uint32_t current_ = kNone;
  std::size_t requests_left_ = 0;
  Bytes bytes_left_;
};

}  // namespace

PolicyInfo hbrr_policy() {
  using Kind = OptionInfo::Kind;
  return {.name = "hbrr",
          .summary = "files in turn, a quantum of requests or bytes each; adjoining requests are merged",
          .paper = "twins-forwarding-layer",
          .options = with_prediction_options({{.name = "quantum",
                                               .kind = Kind::kInteger,
                                               .fallback = "8",
                                               .help = "Requests per visit of a file",
                                               .choices = {},
                                               .low = 1,
                                               .high = 1'000'000},
                                              {.name = "quantum_bytes",
                                               .kind = Kind::kBytes,
                                               .fallback = "16MiB",
                                               .help = "Bytes per visit of a file; a single request may be larger"},
                                              max_requests_option(),
                                              max_bytes_option(),
                                              adjoin_option(),
                                              patience_option("10s")}),
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) { return std::make_unique<HandleRoundRobin>(options); }};
}

}  // namespace tutti
