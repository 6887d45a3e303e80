// SPDX-License-Identifier: Apache-2.0
// Runs a scenario in virtual time, with the production policies, stamps and striping. One seed, one outcome.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/scenario.h"

namespace tutti::sim {

// All times since the start of the run.
struct OperationRecord {
  std::uint32_t application = 0;  // index
  Duration issued{};
  Duration first_server{};  // the first server that had served all its pieces
  Duration last_server{};
  Duration completed{};  // the last byte is with the client
};

struct PhaseRecord {
  std::uint32_t application = 0;
  std::uint32_t iteration = 0;
  Duration begin{};   // the application is ready for it
  Duration issued{};  // the first operation is issued; later than `begin` where a gate made it wait
  Duration end{};
  Bytes bytes{};
  std::vector<Bytes> demand{};  // by server; empty unless asked for
};

// What an application did when: for timelines.
struct Segment {
  enum class Kind : std::uint8_t { kCompute, kWaiting, kInputOutput };
  std::uint32_t application = 0;
  Kind kind = Kind::kCompute;
  Duration from{};
  Duration to{};
  double bytes_per_second = 0;  // kInputOutput
};

struct Outcome {
  std::uint64_t events = 0;
  double wall_seconds = 0;  // how long the simulation took
  Duration makespan{};      // the last application is done
  Bytes bytes{};            // moved by all applications
  std::uint64_t failed_operations = 0;
  std::vector<OperationRecord> operations;  // in order of completion
  std::vector<PhaseRecord> phases;          // in order of completion
  std::vector<Segment> timeline;
  std::vector<Duration> application_end;  // by application
  std::vector<Duration> server_busy;      // by server
  std::uint64_t batches = 0;              // served by devices
  std::uint64_t pieces = 0;               // in those batches
  // Empty: everything finished. Else one line per application that never will, saying whom it waits for.
  std::vector<std::string> stuck;
};

struct RunOptions {
  bool demands = false;           // fill PhaseRecord::demand
  bool operation_records = true;  // fill Outcome::operations
  // Called now and then with simulated time and events so far.
  std::function<void(Duration, std::uint64_t)> progress{};
};

// kInvalid, kNotFound: the scenario is wrong. A scenario that cannot finish is an outcome, not an error.
Result<Outcome> run(const Scenario& scenario, const RunOptions& options = {});

}  // namespace tutti::sim
