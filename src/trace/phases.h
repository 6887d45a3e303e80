// SPDX-License-Identifier: Apache-2.0
// The phases of the applications of a trace, found by the pauses between their requests.
#pragma once

#include <vector>

#include "sched/prediction/phase_sizes.h"

namespace tutti::trace {

inline constexpr Duration kDefaultGap = kPhaseGap;

// One phase of one application.
struct TracePhase {
  ApplicationId application = 0;
  std::vector<std::size_t> requests{};  // indexes in the trace, in order of arrival
  Duration begin{};                     // first arrival
  Duration end{};                       // last completion, or last arrival if completions are not known
  Bytes bytes{};
  bool completions_known = true;  // of all its requests
};

// A phase ends if the application has no unfinished request for at least `gap`. Ordered by application, then by begin.
std::vector<TracePhase> find_phases(const Trace& trace, Duration gap = kDefaultGap);

}  // namespace tutti::trace
