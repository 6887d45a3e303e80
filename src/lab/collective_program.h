// SPDX-License-Identifier: Apache-2.0
// Runs programs that read or write one file in collective calls, on simulated machines, by their plans.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collective/plan.h"
#include "lab/collective_cluster.h"

namespace tutti::lab {

// What a program does. Rank i of a program runs on machine first_rank + i.
struct CollectiveProgram {
  std::string name;
  std::size_t ranks = 4;
  unsigned calls = 1;
  std::function<collective::Collective(unsigned call)> call;
  Duration compute{};  // of every rank, between calls
};

// How its calls are executed.
struct CollectiveMethod {
  // False: the program does not call collective I/O. Every rank makes one blocking call per extent and does not wait
  // for other ranks.
  bool collective = true;
  collective::Options options{};
  Duration call_cost{};  // of every rank per collective call, besides I/O and messages
};

struct ProgramTime {
  double seconds = 0;                       // from the start until the last rank has ended
  double bytes = 0;                         // requested by the ranks
  std::vector<collective::PlanKind> kinds;  // by call

  double megabytes_per_second() const { return seconds > 0 ? bytes / 1e6 / seconds : 0; }
};

struct ProgramOnCluster {
  CollectiveProgram program;
  CollectiveMethod method;
  Layout layout;
};

// Runs programs at the same time. `until_first`: stops when the first program has ended; the times of the others then
// cover what they have done until then.
Result<std::vector<ProgramTime>> run_programs(const ClusterFigures& figures,
                                              const std::vector<ProgramOnCluster>& programs, std::uint64_t seed,
                                              bool until_first = false);

}  // namespace tutti::lab
