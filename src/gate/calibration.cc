// SPDX-License-Identifier: Apache-2.0
#include "gate/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

namespace tutti::gate {
namespace {

std::int64_t day_of(TimePoint time) {
  return time.time_since_epoch() / Calibration::kDay;
}

}  // namespace

void Calibration::observe(double rate, TimePoint now) {
  if (!(rate > 0) || !std::isfinite(rate)) return;
  const std::int64_t today = day_of(now);
  std::erase_if(days_, [&](const Day& day) {
    return day.number + static_cast<std::int64_t>(kDays) <= today || day.number > today;
  });
  if (days_.empty() || days_.back().number != today) days_.push_back({today, 0, 0});
  Day& day = days_.back();
  if (rate > day.best)
    day.second = std::exchange(day.best, rate);
  else
    day.second = std::max(day.second, rate);
}

double Calibration::threshold(TimePoint now) const {
  double best = 0;
  const std::int64_t today = day_of(now);
  for (const Day& day : days_)
    if (day.number <= today && day.number + static_cast<std::int64_t>(kDays) > today)
      best = std::max(best, day.second > 0 ? day.second : day.best);
  return best * kShare;
}

std::string Calibration::text() const {
  std::string text;
  for (const Day& day : days_)
    text += fmt::format("day {} best {:.0f} second {:.0f}\n", day.number, day.best, day.second);
  return text;
}

Calibration Calibration::parse(std::string_view text) {
  Calibration calibration;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line) && calibration.days_.size() < kDays;) {
    std::istringstream words(line);
    std::string day_word, best_word, second_word;
    Day day;
    if (!(words >> day_word >> day.number >> best_word >> day.best >> second_word >> day.second)) continue;
    if (day_word != "day" || best_word != "best" || second_word != "second") continue;
    if (!(day.best > 0) || !(day.second >= 0) || day.second > day.best) continue;
    if (!calibration.days_.empty() && calibration.days_.back().number >= day.number) continue;
    calibration.days_.push_back(day);
  }
  return calibration;
}

}  // namespace tutti::gate
