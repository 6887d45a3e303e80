// SPDX-License-Identifier: Apache-2.0
// mlf: multilevel feedback, queue by queue. Queues are visited in turn, in the order in which they appeared; a visit is
// a round for that queue's requests and serves the first run whose quantum suffices.
//
// Section III of the AGIOS paper is exactly between=arrival, growth=request and no wait.
#include <algorithm>
#include <optional>

#include "sched/feedback.h"
#include "sched/policies/policies.h"

namespace tutti {
namespace {

class MultilevelFeedback final : public FeedbackPolicy {
 public:
  explicit MultilevelFeedback(const OptionValues& options) : FeedbackPolicy(options) {}
  using FeedbackPolicy::option_infos;

 private:
  std::uint64_t round_of(const Queue& queue) const override { return queue.round; }

  void opened(Number number) override {
    Queue& added = queue(number);
    if (current_ == kNone) {
      added.previous = added.next = current_ = number;
      return;
    }
    added.next = current_;
    added.previous = queue(current_).previous;
    queue(added.previous).next = number;
    queue(current_).previous = number;
  }

  void changed(Number /*number*/) override {}

  void closing(Number number) override {
    Queue& leaving = queue(number);
    queue(leaving.previous).next = leaving.next;
    queue(leaving.next).previous = leaving.previous;
    if (number == current_) current_ = leaving.next == number ? kNone : leaving.next;
  }

  Decision choose(TimePoint now) override {
    std::optional<TimePoint> soonest;  // end of the first hold
    for (;;) {
      std::optional<std::uint64_t> short_by;  // rounds until the next run of any queue is ready
      for (std::size_t visits = queues(); visits > 0; --visits) {
        const Number number = current_;
        current_ = queue(number).next;
        if (still_held(number, now)) {
          soonest = std::min(soonest.value_or(queue(number).held_until), queue(number).held_until);
          continue;
        }
        const Number run = candidate(number);
        ++queue(number).round;
        if (run == kNone) {
          const std::uint64_t rounds = next_ready_round(number) - queue(number).round;
          short_by = std::min(short_by.value_or(rounds), rounds);
        } else if (hold(run, now)) {
          soonest = std::min(soonest.value_or(queue(number).held_until), queue(number).held_until);
        } else {
          serve(run);
          return dispatch();
        }
      }
      if (!short_by) return WaitUntil{*soonest};
      pass_rounds(*short_by, now);
    }
  }

  void pass_rounds(std::uint64_t rounds, TimePoint now) {
    for (std::size_t visits = queues(); visits > 0; --visits, current_ = queue(current_).next)
      if (!still_held(current_, now)) queue(current_).round += rounds;
  }

  Number current_ = kNone;  // the queue to visit next
};

std::vector<OptionInfo> options() {
  std::vector<OptionInfo> infos = MultilevelFeedback::option_infos();
  infos.push_back(
      {.name = "between",
       .kind = OptionInfo::Kind::kChoice,
       .fallback = "turn",
       .help = "Order between files: one after the other (turn), or by arrival of their ready requests (arrival, "
               "as in the paper)",
       .choices = {"turn", "arrival"}});
  return infos;
}

}  // namespace

PolicyInfo mlf_policy() {
  return {.name = "mlf",
          .summary = "multilevel feedback: files in turn, quanta that grow; adjoining requests are merged",
          .paper = "agios-prediction",
          .options = options(),
          .bound = {OvertakingBound::Scope::kEverything, "patience"},
          .make = [](const OptionValues& options) -> Result<std::unique_ptr<Policy>> {
            if (options.text("between") == "arrival") return make_feedback_by_arrival(options);
            return std::make_unique<MultilevelFeedback>(options);
          }};
}

}  // namespace tutti
