// SPDX-License-Identifier: Apache-2.0
// Limits of policy `fair` while nodes die, restart, stand still and are partitioned from each other: the cluster serves
// no more than the bound of docs/design/cluster-limits.md, and as much as the limits when the faults are over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace tutti::sim {

// What nodes began to serve, and when.
struct ServedRequest {
  Nanoseconds when = 0;
  double amount = 0;  // bytes or requests
};

// The most that was served in one second. `served` is in order of time.
double most_in_a_second(const std::vector<ServedRequest>& served);

struct LimitOutcome {
  std::vector<std::string> violations{};
  std::uint64_t requests = 0;  // that nodes served
  std::uint64_t faults = 0;
  double most = 0;  // of what the bound allows, in one second
};
// Equal seeds give equal outcomes. `trace`: called for every fault, with one line.
LimitOutcome run_limits(std::uint64_t seed, const std::function<void(const std::string&)>& trace = {});

}  // namespace tutti::sim
