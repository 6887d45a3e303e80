// SPDX-License-Identifier: Apache-2.0
// The prober's threshold, learned: 85% of the best rate seen on a file system in the last days, which is what the
// thesis measures by hand in quiet hours (section 3.1.1: 80-90% of the maximum during off-peak hours).
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::gate {

// Not thread-safe. Time comes in as an argument.
class Calibration {
 public:
  static constexpr double kShare = 0.85;
  static constexpr Duration kDay = std::chrono::hours(24);
  static constexpr std::size_t kDays = 7;

  void observe(double bytes_per_second, TimePoint now);

  // 0 while nothing was seen. Of each day the second best rate counts, if there were two: one write that only met a
  // cache must not raise the bar for everybody for a week.
  double threshold(TimePoint now) const;

  // One line per day; parse() skips what it does not understand, so a damaged file costs some history and no more.
  std::string text() const;
  static Calibration parse(std::string_view text);

 private:
  struct Day {
    std::int64_t number = 0;  // days since the epoch
    double best = 0;
    double second = 0;  // 0: only one was seen
  };
  std::vector<Day> days_;  // ascending
};

}  // namespace tutti::gate
