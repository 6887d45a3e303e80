// SPDX-License-Identifier: Apache-2.0
// Access patterns of the resonant I/O paper in real time: MPI programs over nodes with modelled disks, on this machine.
#pragma once

#include <string>
#include <vector>

#include "base/temporary_directory.h"
#include "engine/device.h"
#include "lab/children.h"
#include "lab/collective_patterns.h"

namespace tutti::lab {

struct LivePatternOptions {
  DeviceFigures device{};
  unsigned targets = 4;
  std::size_t depth = 1;   // requests that a node has in flight at its device
  double slow_motion = 1;  // as LiveOptions::slow_motion
};

// One run of a program: `method` is "alone" or the name of a plan.
struct PatternRun {
  std::string pattern;
  std::string method;
  PatternSize size{};
};

// Nodes that order requests by arrival, one process each, over a temporary directory. The calling process must have
// only one thread. Not thread-safe.
class LivePatterns {
 public:
  explicit LivePatterns(const LivePatternOptions& options) : options_(options) {}

  // Starts the nodes. kInvalid: this tree was built without an MPI.
  Result<void> start();
  // Carries out the runs one after the other in one MPI program, which compares every byte. All have the same number of
  // ranks. Returns MB/s by run, at the devices' own speed. kIo: a call failed or data was wrong; the message has the
  // program's output.
  Result<std::vector<double>> run(const std::vector<PatternRun>& runs);

 private:
  int run_node(unsigned number, const std::string& endpoint) const;

  const LivePatternOptions options_;
  TemporaryDirectory directory_;
  std::string mpi_, program_;
  unsigned files_ = 0;
  Children nodes_;
};

}  // namespace tutti::lab
