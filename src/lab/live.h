// SPDX-License-Identifier: Apache-2.0
// Runs a scenario with processes on this machine: nodes with modelled devices, a gate, and clients.
#pragma once

#include "sim/simulation.h"

namespace tutti::lab {

struct LiveOptions {
  // Devices, computation, jitter and the durations in the options of policies and backoff take this many times as long.
  // Times of the outcome are divided by it. All processes share the few cores of this machine; with slow motion the
  // cores are mostly idle, as they are if each process has its own machine.
  double slow_motion = 1;
  bool demands = false;                        // fill PhaseRecord::demand
  bool verify = false;                         // compare every byte that was read or written; kIo if one is wrong
  std::string traces{};                        // directory in which the nodes record; empty: none
  std::string predict{};                       // traces for policies with the option `prediction`; empty: none
  Duration limit = std::chrono::seconds(120);  // real time; then kTimeout
};

// Applications behave as in the simulator (sim/applications.h). The ranks of one client node are one process with one
// client. Only the jitter of the scenario's network is modelled: it delays the requests of one operation to different
// servers. The outcome has no times of single servers and no busy times.
//
// Calls fork(), so the calling process must have only one thread. kInvalid: the scenario has parts that a live run does
// not support.
Result<sim::Outcome> run_live(const sim::Scenario& scenario, const LiveOptions& options);

}  // namespace tutti::lab
