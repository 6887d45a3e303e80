// SPDX-License-Identifier: Apache-2.0
// aioli: multilevel feedback over all queues at once (AGIOS, section III). Every decision is a round for everything
// that waits; of each queue the first ready run by offset is a candidate, and the candidate that arrived first goes,
// with the option `wait` after a short wait where an adjoining request is expected.
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

  struct Listing {
    Number queue = kNone;
    std::uint32_t number = 0;
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
      list(number, arrival_of(run));
      if (growing_.contains(number)) growing_.erase(number);
    } else {
      growing_.set(number, next_ready_round(number));
      queue(number).listed = false;
    }
  }

  void closing(Number number) override {
    if (growing_.contains(number)) growing_.erase(number);
    if (held_.contains(number)) held_.erase(number);
    queue(number).listed = false;
    if (queues() == 1) candidates_.clear();
  }

  auto is_listed() {
    return [this](const Listing& listing) {
      const Queue& queue = this->queue(listing.queue);
      return queue.listed && queue.listing == listing.number;
    };
  }

  void list(Number number, TimePoint arrival) {
    Queue& queue = this->queue(number);
    if (queue.listed && queue.listed_at == arrival) return;
    queue.listed = true;
    queue.listed_at = arrival;
    candidates_.prune(queues(), is_listed());
    candidates_.push({arrival, queue.key.file}, {number, ++queue.listing});
  }

  Decision choose(TimePoint now) override {
    end_holds(now);
    const Decision decision = decide(now);
    ++round_;
    return decision;
  }

  Decision decide(TimePoint now) {
    for (;;) {
      while (!growing_.empty() && growing_.top_key() <= round_) changed(growing_.top());
      const Listing* first = candidates_.top(is_listed());
      if (!first) {
        if (growing_.empty()) return WaitUntil{held_.top_key()};
        round_ = growing_.top_key();  // nothing happens in the rounds between
        continue;
      }
      const Number number = first->queue;
      candidates_.pop();
      queue(number).listed = false;
      const Number run = candidate(number);
      if (!hold(run, now)) {
        serve(run);
        return dispatch();
      }
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

  std::uint64_t round_ = kFirstRound;
  LazyHeap<Arrival, Listing> candidates_;  // queues with a ready run, by its arrival
  IndexedHeap<std::uint64_t> growing_;     // queues without, by the round in which they will have one
  IndexedHeap<TimePoint> held_;            // queues that wait for an adjoining request, by when that ends
  TimePoint last_{};
};

}  // namespace

std::unique_ptr<Policy> make_feedback_by_arrival(const OptionValues& options) {
  return std::make_unique<Aioli>(options);
}

PolicyInfo aioli_policy() {
  return {.name = "aioli",
          .summary = "multilevel feedback over all files: order of arrival between them",
          .paper = "agios-prediction",
          .options = Aioli::option_infos(),
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) { return make_feedback_by_arrival(options); }};
}

}  // namespace tutti
