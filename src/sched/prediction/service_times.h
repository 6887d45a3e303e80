// SPDX-License-Identifier: Apache-2.0
// The time to process a request, TTP(x) in the AGIOS paper, from traces.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "sched/prediction/trace.h"
#include "sched/service_profile.h"

namespace tutti {

// Before anything was measured. If all requests have one size, latency and bandwidth keep this relation.
inline constexpr ServiceProfile::Figures kUnmeasuredService{std::chrono::microseconds(100), 500e6};

// By direction; nothing: the traces do not show it.
using ServiceTimes = std::array<std::optional<ServiceProfile::Figures>, 2>;

// Fitted to requests that were alone: nothing else was unfinished in their trace from their arrival to their end. At
// least 32 of them. The later ones count more, and of several traces the later trace.
ServiceTimes measure_service(std::span<const Trace> traces);

}  // namespace tutti
