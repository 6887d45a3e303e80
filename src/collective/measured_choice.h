// SPDX-License-Identifier: Apache-2.0
// Chooses among plans of nearly equal estimate by the measured times of earlier calls.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "collective/plan.h"

namespace tutti::collective {

// One object per file. All ranks that call it with the same values get the same choices. A program that repeats its
// calls tries each plan whose estimate is at most a quarter above the best, and then stays with the fastest.
// Not thread-safe.
class MeasuredChoice {
 public:
  // The plan of the next call. `estimates` are those of its lists, the fastest first; at least one.
  PlanKind choose(const std::vector<Estimate>& estimates);
  // A call by plan `kind` has ended. `seconds` and `bytes` are those of all ranks, the slowest one's time.
  void measured(PlanKind kind, double seconds, double bytes);

 private:
  struct Times {
    unsigned calls = 0;
    double seconds = 0;
    double bytes = 0;
    double cost() const { return calls > 0 ? seconds / bytes : std::numeric_limits<double>::max(); }
  };
  std::vector<PlanKind> contenders_;  // by estimate
  std::optional<PlanKind> last_;      // of measured()
  std::optional<PlanKind> chosen_;    // after the trials
  std::map<PlanKind, Times> times_;
};

}  // namespace tutti::collective
