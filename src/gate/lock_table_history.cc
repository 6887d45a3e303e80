// SPDX-License-Identifier: Apache-2.0
// What the lock table learns about jobs.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"
#include "gate/lock_table.h"

namespace tutti::gate {

// Called when the job asks for another phase.
Measurements LockTable::learn_period(JobHistory& history, TimePoint asked) {
  history.used = true;
  if (history.hold && history.ended) {
    constexpr std::uint32_t kRemembered = 8;  // phases in the mean
    const Duration sample = (asked - *history.ended) + *history.hold;
    history.periods = std::min(history.periods + 1, kRemembered);
    const Duration mean = history.period.value_or(Duration::zero());
    history.period = mean + (sample - mean) / history.periods;
    constexpr double kFading = 0.9;
    period_logarithms_ = period_logarithms_ * kFading + std::log10(std::max(seconds(sample), 1e-9));
    periods_ = periods_ * kFading + 1;
  }
  return {.period = history.period,
          .hold = history.expected_hold,
          .bytes_per_second = typical_rate_,
          .typical_magnitude = periods_ > 0 ? std::optional(period_logarithms_ / periods_) : std::nullopt};
}

void LockTable::learn_hold(JobHistory& history, Bytes announced, const EndedTurn& turn) {
  const Duration hold = turn.held, before = history.hold.value_or(hold);
  const Duration shorter = std::min(hold, before), longer = std::max(hold, before);
  history.expected_hold = longer - shorter > shorter / 2 ? longer : hold;
  history.hold = hold;
  history.ended = turn.ended;
  if (announced.count() == 0) return;
  // The median: a few wrong sizes among the last ones do not change it.
  constexpr std::size_t kRemembered = 9;
  rates_.push_back(static_cast<double>(announced.count()) / std::max(seconds(hold), 1e-9));
  if (rates_.size() > kRemembered) rates_.pop_front();
  std::vector<double> rates(rates_.begin(), rates_.end());
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>((rates.size() - 1) / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  typical_rate_ = *middle;
}

void LockTable::learn(const std::vector<PastEvent>& past) {
  for (const PastEvent& event : past) {
    const auto known = histories_.find({event.user, event.job});
    JobHistory& history = known != histories_.end() ? *known->second : add_history(event.user, event.job);
    if (event.held)
      learn_hold(history, event.announced, {.held = *event.held, .ended = event.time});
    else
      learn_period(history, event.time);
  }
  // The time since then is no compute time.
  for (const auto& [key, history] : histories_) history->ended = std::nullopt;
}

LockTable::JobHistory& LockTable::history_of(SessionEntry& session, const Ask& ask) {
  JobHistory*& last = session.history;
  if (last && last->job == ask.job && last->user == ask.id.user) return *last;
  if (last) --last->uses;
  const auto it = histories_.find({ask.id.user, ask.job});
  last = it != histories_.end() ? it->second.get() : &add_history(ask.id.user, ask.job);
  ++last->uses;
  return *last;
}

LockTable::JobHistory& LockTable::add_history(std::uint32_t user, const std::string& job) {
  if (histories_.size() >= options_.max_jobs) evict_one();
  auto added = std::make_unique<JobHistory>();
  added->user = user;
  added->job = job;
  round_.push_back(added.get());
  const HistoryKey key(added->user, added->job);
  return *histories_.emplace(key, std::move(added)).first->second;
}

// Skips histories in use, and those used since the last check. Checks at most 8; the next call continues.
void LockTable::evict_one() {
  for (int tries = 8; tries > 0; --tries) {
    JobHistory* const history = round_.front();
    round_.pop_front();
    if (history->uses == 0 && !std::exchange(history->used, false)) {
      histories_.erase({history->user, history->job});
      return;
    }
    round_.push_back(history);
  }
}

}  // namespace tutti::gate
