// SPDX-License-Identifier: Apache-2.0
// One run of the fault campaign: production clients, nodes and gate in the simulated world, under the load and the
// faults of a plan, and checks of what they promise (docs/reliability.md).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/faults/fault_plan.h"

namespace tutti::sim {

struct FaultOutcome {
  std::uint64_t seed = 0;
  std::vector<std::string> violations;
  std::array<std::uint64_t, kLoadKinds> operations{};
  std::uint64_t failed_operations = 0;
  std::array<std::uint64_t, kFaultKinds> faults{};
  Duration simulated{};
  std::uint64_t events = 0;
  std::uint64_t hash = 0;  // equal runs have equal hashes

  std::uint64_t all_operations() const;
};

// `trace`: called for every fault and operation, with one line.
FaultOutcome run_faults(const FaultPlan& plan, const std::function<void(const std::string&)>& trace = {});

}  // namespace tutti::sim
