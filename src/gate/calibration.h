// SPDX-License-Identifier: Apache-2.0
// Learns the prober's threshold: 85% of the best rate measured on a file system in the last 7 days. The thesis measures
// it by hand (section 3.1.1: 80-90% of the maximum during off-peak hours).
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::gate {

// Time is an argument. Not thread-safe.
class Calibration {
 public:
  static constexpr double kShare = 0.85;
  static constexpr Duration kDay = std::chrono::hours(24);
  static constexpr std::size_t kDays = 7;

  void observe(double bytes_per_second, TimePoint now);

  // In bytes per second; 0: nothing was measured. Uses the second best rate of each day, if there were two, so that one
  // write that only reached a cache does not raise the threshold for a week.
  double threshold(TimePoint now) const;

  // One line per day. parse() skips lines that it cannot read, so a damaged file only loses history.
  std::string text() const;
  static Calibration parse(std::string_view text);

 private:
  struct Day {
    std::int64_t number = 0;  // days since the epoch
    double best = 0;
    double second = 0;  // 0: there was only one rate
  };
  std::vector<Day> days_;  // ascending
};

}  // namespace tutti::gate
