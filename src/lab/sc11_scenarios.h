// SPDX-License-Identifier: Apache-2.0
// The set-ups of figures 6, 7 and 8 of the sc11 paper.
#pragma once

#include <string>

#include "lab/tools.h"

namespace tutti::lab {

// The policy of the servers, and by whose method the scenario is run.
//
// The paper's: order of arrival inside an application; one request per server and operation, as PVFS2's flows make it;
// the ranks start spread in time. PVFS2's queues per file are first come, first served, and let requests for data pass
// at once (PINT_req_sched_post, "allow another concurrent I/O request"), so they wait only for one of the 16 places of
// TroveMaxConcurrentIO, in order of arrival: that is `fifo` at a depth of 16.
// Ours: `window` and `concert` by offset on disk, one request per stripe, all ranks start together.
struct Sc11Run {
  bool flash = false;
  bool paper = false;
  std::string policy = "fifo";
  unsigned depth = 16;
  std::string width{};  // of `window`
  std::uint64_t seed = kFirstSeed;
};

// The starts of ranks are spread over this time. Chosen in figure 5 so that `fifo` has about the paper's difference
// between servers (4.4 and 3.1), which is therefore printed as fitted. If all start in the same nanosecond, it is
// larger.
Duration start_spread(bool flash);

// The width that the paper recommends.
std::string recommended_width(bool flash);

// The part of figure 6 to run.
struct Figure6Size {
  std::vector<unsigned> processes{8, 16, 32};
  std::vector<unsigned> instances{2, 4, 6, 8, 10, 12, 14, 16};
  unsigned operations = 8;
  bool one_client = false;  // the processes of an application share one client node
};

struct Figure6Cell {
  unsigned instances = 2;
  unsigned processes = 8;
};
Scenario figure6_scenario(const Sc11Run& run, const Figure6Cell& cell, const Figure6Size& size);

struct Figure7Cell {
  unsigned servers = 2;
  unsigned processes = 8;
  Direction direction = Direction::kRead;
};
Scenario figure7_scenario(const Sc11Run& run, const Figure7Cell& cell);

Scenario figure8_scenario(const Sc11Run& run, unsigned processes);

// Figures 6 to 8 by the paper's method: `fifo` at depth 16 against `window` at depths 1 and 16, ten seeds. They add
// rows, charts and claims with `paper` in their ids.
Result<void> figure6_by_paper(bool flash, const LabOptions& options, const Figure6Size& size, ExperimentResult& result);
Result<void> figure7_by_paper(bool flash, const LabOptions& options, ExperimentResult& result);
Result<void> figure8_by_paper(bool flash, const LabOptions& options, ExperimentResult& result);

}  // namespace tutti::lab
