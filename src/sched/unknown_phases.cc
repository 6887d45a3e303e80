// SPDX-License-Identifier: Apache-2.0
#include "sched/unknown_phases.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace tutti {

void UnknownPhases::remove(Slot slot) {
  --count_;
  leave(slot);
  if (count_ == 0) clear();
}

void UnknownPhases::pop_early(Slot slot) {
  if (!backlog_) return remove(slot);
  --count_;
  pop_in_backlog(slot);
  if (count_ == 0) clear();
}

// ---- backlogs ----

void UnknownPhases::look_for_backlog(TimePoint now) {
  if (changes_ < count_ / 4) return;
  if (now >= looked_ && now - looked_ < options_.wait) return;
  looked_ = now;
  changes_ = 0;
  if (!sharing_pays()) return;
  backlog_ = true;
  by_issue_.each(store_, [&](const SweepPosition& position, Slot slot) { push_waiting(slot, position); });
}

// With equal shares, a phase has ended when each phase has been served as much as it, or all it has. In order of issue,
// it has ended when all that was issued before its last request has been served; a phase's requests count as evenly
// distributed between its first and its last one. Of many phases a sample is compared.
bool UnknownPhases::sharing_pays() {
  constexpr std::size_t kMost = 256;
  constexpr double kVariance = 1.5;
  waiting_.clear();
  by_issue_.each(store_, [&](const SweepPosition& position, Slot slot) {
    const Request& request = store_.request(slot);
    const auto [found, fresh] =
        waiting_.try_emplace(phase_of(request.stamp), Waiting{0, 0, position.turn, position.turn});
    Waiting& waiting = found->second;
    waiting.bytes += static_cast<double>(cost(request));
    waiting.first = std::min(waiting.first, position.turn);
    waiting.last = std::max(waiting.last, position.turn);
    waiting.shown = std::max(waiting.shown, static_cast<double>(std::min(shown(request.stamp).count(), kLargestSize)));
  });
  sample_.clear();
  const std::size_t every = waiting_.size() / kMost + 1;
  std::size_t number = 0;
  for (const auto& [phase, waiting] : waiting_)
    if (number++ % every == 0) sample_.push_back(waiting);
  double shared = 0, issued = 0, sum = 0, squares = 0;
  for (const Waiting& phase : sample_) {
    sum += phase.shown;
    squares += phase.shown * phase.shown;
    for (const Waiting& other : sample_) {
      shared += std::min(phase.bytes, other.bytes);
      const std::int64_t until = std::clamp(phase.last, other.first, other.last);
      const double part = phase.last < other.first    ? 0
                          : other.last == other.first ? 1
                                                      : static_cast<double>(until - other.first) /
                                                            static_cast<double>(other.last - other.first);
      issued += part * other.bytes;
    }
  }
  const auto count = static_cast<double>(sample_.size());
  if (squares * count - sum * sum < kVariance * (count - 1) / count * sum * sum) return false;
  return issued >= options_.gain * shared;
}

void UnknownPhases::push_waiting(Slot slot, const SweepPosition& position) {
  const Request& request = store_.request(slot);
  const std::uint32_t number = phases_.open(phase_of(request.stamp));
  store_.place(slot) = kPlace | number;
  UnknownPhase& phase = phases_[number];
  if (phase.count++ == 0) {
    const ServiceAccounts::History history = accounts_.of(store_.account(slot));
    phase.start = std::clamp(request.stamp.phase_start, history.began - options_.slack, history.began);
    phase.before = history.before;
  }
  phase.requests.push(position, store_.version(slot));
  positions_.push(position.turn, cost(request));
  levels_.set(number, level_of(number));
}

UnknownPhases::Level UnknownPhases::level_of(std::uint32_t number) {
  UnknownPhase& phase = phases_[number];
  const Stamp& stamp = store_.request(phase.requests.top(store_)).stamp;
  constexpr int kSmallest = 20;  // sizes below 1 MiB are equal
  const auto width = static_cast<std::int64_t>(
      std::bit_width((std::min(stamp.attained.count(), kLargestSize) + phase.before) >> kSmallest));
  return {width / 2, phase.start, (std::uint64_t{stamp.order} << 32) | stamp.application};
}

Slot UnknownPhases::next_in_backlog(Slot oldest) {
  if (share_.due(cost(store_.request(oldest)))) return oldest;
  return phases_[run_left_ > 0 ? running_ : levels_.top()].requests.top(store_);
}

std::int64_t UnknownPhases::position_in_backlog() {
  while (owed_ <= 0) {
    const std::int64_t* bytes = positions_.top([](std::int64_t) { return true; });
    assert(bytes && "positions have as many bytes as requests wait");
    owed_ += *bytes;
    position_ = positions_.top_key();
    positions_.pop();
  }
  return position_;
}

void UnknownPhases::pop_in_backlog(Slot slot) {
  const std::int64_t bytes = cost(store_.request(slot));
  const std::uint32_t number = store_.place(slot) & ~kPlace;
  const bool changed = running_ != number;
  share_.served(bytes, {.of_oldest = slot == by_issue_.top(store_), .changed = changed});
  if (run_left_ == 0 || changed) run_left_ = share_.run();
  running_ = number;
  run_left_ -= std::min(run_left_, static_cast<std::uint64_t>(bytes));
  leave(slot);
}

// The request leaves all queues. It is still in the store.
void UnknownPhases::leave(Slot slot) {
  if (by_issue_.top(store_) == slot)
    by_issue_.pop(store_);
  else
    by_issue_.prune(store_, count_ + 1);
  if (!backlog_) return;
  owed_ -= cost(store_.request(slot));
  const std::uint32_t number = store_.place(slot) & ~kPlace;
  UnknownPhase& phase = phases_[number];
  if (phase.requests.top(store_) == slot)
    phase.requests.pop(store_);
  else
    phase.requests.prune(store_, phase.count);
  if (--phase.count > 0) return levels_.set(number, level_of(number));
  if (running_ == number) run_left_ = 0;
  levels_.erase(number);
  phases_.close(number);
}

void UnknownPhases::clear() {
  by_issue_.clear();
  changes_ = 0;
  if (!backlog_) return;
  backlog_ = false;
  positions_.clear();
  owed_ = 0;
  run_left_ = 0;
  share_.clear();
}

}  // namespace tutti
