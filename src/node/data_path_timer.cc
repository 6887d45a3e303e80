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

// A request that is refused when it is dispatched has used the limits of its job. Its client sends it again: with many
// such requests, a job with limits would not get on any more.
void DataPath::cancel_expired(TimePoint now, Effects& effects) {
  for (auto next = requests_.begin(); next != requests_.end();) {
    ClientRequest& request = *next++;
    if (!request.transfers() || request.payload != PayloadState::kHere || !request.expired(now)) continue;
    const bool fine = request.head.status == wire::kOk;
    cancel(request, {ErrorCode::kTimeout, kTooLate, wire::kExpired}, effects);
    if (fine && request.head.status != wire::kOk) ++counts_.refused;
  }
}

// Sets the timer again if there are requests.
void DataPath::report_progress() {
  const TimePoint now = clock_.steady();
  std::optional<Progress> progress;
  TimePoint next{};
  Effects effects;
  {
    Lock lock(mutex_);
    if (now >= next_look_) {
      progress = look();
      cancel_expired(now, effects);
      next_look_ = unanswered_ > 0 ? now + dependencies_.look_interval : TimePoint::max();
    }
    next = next_look_;
  }
  wake_at(next);
  carry_out(effects);
  if (!effects.ready.empty()) pump();
  if (progress && dependencies_.progress && dependencies_.progress(*progress)) look_soon();
}

void DataPath::look_soon() {
  TimePoint look_at = TimePoint::max();
  {
    Lock lock(mutex_);
    if (next_look_ == TimePoint::max()) look_at = next_look_ = clock_.steady() + dependencies_.look_interval;
  }
  wake_at(look_at);
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
