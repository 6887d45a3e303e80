// SPDX-License-Identifier: Apache-2.0
#include "collective/measured_choice.h"

#include <algorithm>
#include <utility>

namespace tutti::collective {
namespace {

constexpr double kNear = 1.25;   // estimates up to this factor above the best are tried
constexpr double kWorse = 1.25;  // a plan that is measured to be slower by this factor is not tried further
constexpr double kLate = 1.1;    // after the trials, the plan changes if it becomes slower than another by this factor
constexpr unsigned kTrials = 4;  // calls of each plan, one after the other

}  // namespace

PlanKind MeasuredChoice::choose(const std::vector<Estimate>& estimates) {
  std::vector<PlanKind> near;
  for (const Estimate& each : estimates)
    if (each.seconds <= kNear * estimates.front().seconds) near.push_back(each.kind);
  if (!std::is_permutation(near.begin(), near.end(), contenders_.begin(), contenders_.end())) {
    times_.clear();
    chosen_.reset();
    contenders_ = near;
  }
  const auto cost = [&](PlanKind kind) { return times_[kind].cost(); };
  const auto fastest = *std::min_element(contenders_.begin(), contenders_.end(),
                                         [&](PlanKind a, PlanKind b) { return cost(a) < cost(b); });
  for (const PlanKind kind : contenders_) {
    const bool slow = times_[kind].calls > 0 && cost(kind) > kWorse * cost(fastest);
    if (times_[kind].calls < kTrials && !slow) return kind;
  }
  if (!chosen_ || cost(*chosen_) > kLate * cost(fastest)) chosen_ = fastest;
  return *chosen_;
}

void MeasuredChoice::measured(PlanKind kind, double seconds, double bytes) {
  if (seconds <= 0 || bytes <= 0) return;
  if (std::exchange(last_, kind) != kind) return;  // the first call after a change is not like the ones that follow
  Times& times = times_[kind];
  ++times.calls;
  times.seconds += seconds;
  times.bytes += bytes;
}

}  // namespace tutti::collective
