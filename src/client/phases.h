// SPDX-License-Identifier: Apache-2.0
// When phases begin and end, and how large they are: announced, or a pause tells them apart and the last one's size is
// expected again. Time comes in as an argument. Not thread-safe.
#pragma once

#include <tutti/client.h>

#include <set>
#include <string>
#include <vector>

#include "sched/stamper.h"

namespace tutti {

class Phases {
 public:
  struct Options {
    ApplicationId application = 0;
    Duration gap = std::chrono::seconds(1);
    std::uint32_t targets = 1;    // that an announced total is spread over
    std::uint32_t processes = 1;  // of the application: each issues what this one does
    std::string memory_file{};    // sizes learned by earlier runs; empty: none
  };

  explicit Phases(Options options);

  void begin(const PhaseAnnouncement& announcement, TimePoint now);
  void end();

  // The stamp of an operation that begins now. Every issue() is followed by one completed().
  Stamp issue(OperationId operation, std::vector<TargetShare> shares, TimePoint now);
  void completed(TimePoint now);

  Bytes learned(std::uint64_t kind) const { return stamper_.learned(kind); }

  // Ends the phase and writes down what was learned. Nothing to write to, nothing learned: does nothing.
  Result<void> save();

 private:
  void load();

  Options options_;
  Stamper stamper_;
  bool announced_ = false;     // between begin() and end()
  std::uint64_t running_ = 0;  // operations
  TimePoint last_{};           // something was issued or completed
  std::set<std::uint64_t> kinds_;
};

}  // namespace tutti
