// SPDX-License-Identifier: Apache-2.0
// aioli: multilevel feedback over all queues at once (AGIOS, section III). Every decision is a round for everything
// that waits; of each queue the first ready run by offset is a candidate, and the candidate that arrived first goes,
// after a short wait where an adjoining request is expected.
#include <algorithm>

#include "sched/feedback.h"
#include "sched/policies/policies.h"

namespace tutti {
namespace {

class Aioli final : public FeedbackPolicy {
 public:
  explicit Aioli(const OptionValues& options) : FeedbackPolicy(options) {}
  using FeedbackPolicy::option_infos;

 private:
  struct Arrival {
    TimePoint at;
    FileId file = 0;
    auto operator<=>(const Arrival&) const = default;
  };

  std::uint64_t round_of(const Queue& /*queue*/) const override { return round_; }

  void opened(Number number) override { changed(number); }

  void changed(Number number) override {
    if (queue(number).held) {
      if (still_held(number, queue(number).held_from)) return;  // looked at again when its wait is over
      held_.erase(number);
    }
    const Number run = candidate(number);
    if (run != kNone) {
      candidates_.set(number, {arrival_of(run), queue(number).key.file});
      if (growing_.contains(number)) growing_.erase(number);
    } else {
      growing_.set(number, next_ready_round(number));
      if (candidates_.contains(number)) candidates_.erase(number);
    }
  }

  void closing(Number number) override {
    if (growing_.contains(number)) growing_.erase(number);
    if (candidates_.contains(number)) candidates_.erase(number);
    if (held_.contains(number)) held_.erase(number);
  }

  Decision choose(TimePoint now) override {
    ++round_;
    end_holds(now);
    for (;;) {
      while (!growing_.empty() && growing_.top_key() <= round_) changed(growing_.top());
      if (candidates_.empty()) {
        if (growing_.empty()) return WaitUntil{held_.top_key()};
        round_ = growing_.top_key();  // nothing happens in the rounds between
        continue;
      }
      const Number number = candidates_.top();
      const Number run = candidate(number);
      if (!hold(run, now)) {
        serve(run);
        return dispatch();
      }
      candidates_.erase(number);
      held_.set(number, queue(number).held_until);
    }
  }

  void end_holds(TimePoint now) {
    const bool jumped_back = now < last_;
    last_ = now;
    while (!held_.empty() && (jumped_back || held_.top_key() <= now)) {
      const Number number = held_.top();
      held_.pop();
      end_hold(number, now);
      changed(number);
    }
  }

  std::uint64_t round_ = 0;
  IndexedHeap<Arrival> candidates_;     // queues with a ready run
  IndexedHeap<std::uint64_t> growing_;  // queues without, by the round in which they will have one
  IndexedHeap<TimePoint> held_;         // queues that wait for an adjoining request, by when that ends
  TimePoint last_{};
};

}  // namespace

PolicyInfo aioli_policy() {
  return {.name = "aioli",
          .summary = "multilevel feedback over all files: order of arrival between them, a short wait to merge more",
          .paper = "agios-prediction",
          .options = Aioli::option_infos("1ms"),
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) { return std::make_unique<Aioli>(options); }};
}

}  // namespace tutti
