// SPDX-License-Identifier: Apache-2.0
#include "sim/event_queue.h"

#include <algorithm>

namespace tutti::sim {

void EventQueue::add(const Event& event) {
  if (count_ == kAhead || !heap_.empty() || !heads_.empty()) {
    if (at(count_ - 1) < event) return heap_.push(event);
    heap_.push(at(--count_));
  }
  std::size_t place = count_++;
  for (; place > 0 && event < at(place - 1); --place) at(place) = at(place - 1);
  at(place) = event;
}

void EventQueue::end_many() {
  constexpr std::size_t kFew = 8;
  collecting_ = false;
  if (collected_.size() > kFew)
    add_run();
  else
    for (const Event& event : collected_) add(event);
  collected_.clear();
}

// Those that come before what is in `near_` go there, the others become a run.
void EventQueue::add_run() {
  std::sort(collected_.begin(), collected_.end());
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<std::uint32_t>(runs_.size()));
    runs_.emplace_back();
  }
  std::size_t early = 0;
  while (early < collected_.size() && (count_ < kAhead || collected_[early] < at(count_ - 1))) add(collected_[early++]);
  if (early == collected_.size()) return;
  const std::uint32_t number = free_runs_.back();
  free_runs_.pop_back();
  runs_[number].events.assign(collected_.begin() + static_cast<std::ptrdiff_t>(early), collected_.end());
  runs_[number].next = 0;
  in_runs_ += runs_[number].events.size();
  heads_.push({runs_[number].events.front(), number});
}

// The first event that is not in `near_`; there is one.
Event EventQueue::take() {
  if (heads_.empty() || (!heap_.empty() && heap_.top() < heads_.top().event)) return heap_.pop();
  const Head head = heads_.top();
  Run& run = runs_[head.run];
  --in_runs_;
  if (++run.next < run.events.size()) {
    heads_.replace(0, {run.events[run.next], head.run});
  } else {
    heads_.pop();
    run.events.clear();
    free_runs_.push_back(head.run);
  }
  return head.event;
}

}  // namespace tutti::sim
