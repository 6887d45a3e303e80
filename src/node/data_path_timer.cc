// SPDX-License-Identifier: Apache-2.0
// Part of DataPath: what its timer does, and statistics.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "node/data_path.h"

namespace tutti::node {

void DataPath::wake_at(TimePoint when) {
  Lock lock(timer_mutex_);
  if (when >= wake_at_ || timer_stopped_) return;
  wake_at_ = when;
  timer_->set(when);
}

// The timer's task may be running and set the timer again, so it is notified first.
void DataPath::stop_timer() {
  {
    Lock lock(timer_mutex_);
    timer_stopped_ = true;
  }
  timer_.reset();
}

void DataPath::wake() {
  {
    Lock lock(timer_mutex_);
    wake_at_ = TimePoint::max();
  }
  retry_memory();
  disconnect_late_peers();
  pump();
  report_progress();
}

DataPath::Progress DataPath::look() {
  Progress progress;
  progress.waiting = !requests_.empty() && requests_.front().look < looks_;
  const auto in_engine = [](const auto& engine_batch) { return engine_batch->unfinished > 0; };
  bool busy =
      !engine_batches_.empty() || !waiting_for_memory_.empty() || std::ranges::any_of(waiting_for_payload_, in_engine);
  for (const auto& [connection, parked] : parked_) busy = busy || std::ranges::any_of(parked, in_engine);
  progress.moving = std::exchange(some_completed_, false) || !busy;
  for (const ClientRequest& request : requests_)
    if (request.sync && request.look < looks_) progress.syncing.push_back(request.connection);
  ++looks_;
  return progress;
}

// Sets the timer again if there are requests.
void DataPath::report_progress() {
  const TimePoint now = clock_.steady();
  std::optional<Progress> progress;
  TimePoint next{};
  {
    Lock lock(mutex_);
    if (now >= next_look_) {
      progress = look();
      next_look_ = unanswered_ > 0 ? now + dependencies_.look_interval : TimePoint::max();
    }
    next = next_look_;
  }
  wake_at(next);
  if (progress && dependencies_.progress) dependencies_.progress(*progress);
}

bool DataPath::idle() const {
  Lock lock(mutex_);
  return unanswered_ == 0;
}

UsageTable::Page DataPath::usage(const wire::UsageKey& first) const {
  Lock lock(mutex_);
  return usage_.page(first);
}

DataPath::DispatchCounts DataPath::counts() const {
  Lock lock(mutex_);
  return counts_;
}

}  // namespace tutti::node
