// SPDX-License-Identifier: Apache-2.0
// The machines of a fault run, and what faults do to them.
#pragma once

#include <memory>
#include <vector>

#include "sim/faults/load_client.h"

namespace tutti::sim {

// Machines are numbered as in FaultPlan. Faults of one machine may overlap: it runs when the last one that stops it is
// over. Not thread-safe.
class FaultMachines {
 public:
  explicit FaultMachines(FaultRunState& state);

  std::vector<std::unique_ptr<LoadClient>>& clients() { return clients_; }
  void begin(const PlannedFault& fault);
  void end(const PlannedFault& fault);
  // Of all nodes, which keep running.
  void cut_all_power();

 private:
  struct Machine {
    int down = 0;                     // faults that keep it down
    int paused = 0;                   // faults that pause it
    bool fenced = false;              // killed by the watchdog; starts again at the end of the pause
    std::uint64_t pauses = 0;         // changes with each pause
    std::vector<net::Buffer> memory;  // taken away from it
    bool running() const { return down == 0 && !fenced; }
  };

  bool is_node(std::size_t machine) const { return machine < state_.plan.nodes; }
  bool is_gate(std::size_t machine) const { return machine == state_.plan.gate(); }
  LoadClient& client(std::size_t machine) { return *clients_[machine - state_.plan.nodes]; }
  Process& process(std::size_t machine);

  void stop(std::size_t machine, bool silent);
  void restart(std::size_t machine);
  void pause(std::size_t machine);
  void resume(std::size_t machine);
  void kill(std::size_t machine, bool silent);
  void start(std::size_t machine);
  void begin_pause(std::size_t machine);
  void restart_all(const PlannedFault& fault, bool ends);
  void set_cut(std::size_t from, std::size_t to, bool lost);
  void connections(const PlannedFault& fault, bool ends);
  void slow_down(const PlannedFault& fault, bool ends);
  void disk(const PlannedFault& fault, bool ends);
  void clock(const PlannedFault& fault, bool ends);
  void memory(const PlannedFault& fault, bool ends);
  void apply(const PlannedFault& fault, bool ends);

  FaultRunState& state_;
  std::vector<Machine> machines_;
  std::vector<std::unique_ptr<LoadClient>> clients_;
  int lossy_ = 0;                                            // faults of kind kLostConnections
  std::map<std::pair<std::size_t, std::size_t>, int> cuts_;  // faults between two machines
};

}  // namespace tutti::sim
