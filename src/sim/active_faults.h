// SPDX-License-Identifier: Apache-2.0
// The faults of a scenario that are active at the moment. Faults of one kind may overlap.
#pragma once

#include <vector>

#include "sim/scenario.h"

namespace tutti::sim {

// The scenario must outlive this object. Not thread-safe.
class ActiveFaults {
 public:
  explicit ActiveFaults(const Scenario& scenario) : scenario_(scenario), active_(scenario.faults.size(), false) {}

  void set(std::size_t fault, bool active) { active_[fault] = active; }

  bool gate_stopped() const {
    bool stopped = false;
    each(ScenarioFault::Kind::kCoordinator, [&](const ScenarioFault&) { stopped = true; });
    return stopped;
  }
  bool stopped(unsigned server) const {
    bool stopped = false;
    each(ScenarioFault::Kind::kStop, [&](const ScenarioFault& fault) { stopped |= concerns(fault, server); });
    return stopped;
  }
  // The product of all factors.
  double slowdown(unsigned server) const {
    double factor = 1;
    each(ScenarioFault::Kind::kSlow, [&](const ScenarioFault& fault) {
      if (concerns(fault, server)) factor *= fault.factor;
    });
    return factor;
  }
  // The error of a clock: the sum of all.
  Duration server_skew(unsigned server) const {
    Duration sum{};
    each(ScenarioFault::Kind::kSkew, [&](const ScenarioFault& fault) {
      if (!fault.application && concerns(fault, server)) sum += fault.skew;
    });
    return sum;
  }
  Duration application_skew(unsigned application) const {
    Duration sum{};
    each(ScenarioFault::Kind::kSkew, [&](const ScenarioFault& fault) {
      if (fault.application == application) sum += fault.skew;
    });
    return sum;
  }

  // Calls `use` for each active fault of this kind, in order of the scenario.
  template <typename Use>
  void each(ScenarioFault::Kind kind, const Use& use) const {
    for (std::size_t i = 0; i < active_.size(); ++i)
      if (active_[i] && scenario_.faults[i].kind == kind) use(scenario_.faults[i]);
  }

 private:
  static bool concerns(const ScenarioFault& fault, unsigned server) { return fault.server.value_or(server) == server; }

  const Scenario& scenario_;
  std::vector<bool> active_;
};

}  // namespace tutti::sim
