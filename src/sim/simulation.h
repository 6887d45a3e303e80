// SPDX-License-Identifier: Apache-2.0
// Runs a scenario in virtual time. Equal seeds give equal outcomes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sched/prediction/trace.h"
#include "sim/scenario.h"

namespace tutti::sim {

// All times are since the start of the run.
struct OperationRecord {
  std::uint32_t application = 0;  // index
  Duration issued{};
  Duration first_server{};  // first server that has served all its requests of the operation; 0: unknown
  Duration last_server{};
  Duration completed{};  // the client has received the last byte
};

struct PhaseRecord {
  std::uint32_t application = 0;
  std::uint32_t iteration = 0;
  Duration begin{};   // the application is ready for the phase
  Duration issued{};  // first operation; later than `begin` if the application waited for its turn
  Duration end{};
  Bytes bytes{};
  std::vector<Bytes> demand{};  // by server; empty unless RunOptions::demands
};

// What an application did in an interval of time, for timelines.
struct Activity {
  enum class Kind : std::uint8_t { kCompute, kWaiting, kInputOutput };
  std::uint32_t application = 0;
  Kind kind = Kind::kCompute;
  Duration from{};
  Duration to{};
  double bytes_per_second = 0;  // kInputOutput
};

// The size of the last phase of an application that a server knew from stamps: bytes on the busiest target.
struct AnnouncedSize {
  std::uint32_t application = 0;
  std::uint32_t server = 0;
  Bytes bytes{};

  friend bool operator==(const AnnouncedSize&, const AnnouncedSize&) = default;
};

// When a server had served its part of an operation, from the issue of the operation on.
struct ServerFinish {
  std::uint32_t application = 0;
  std::uint32_t server = 0;
  Duration after{};
};

struct Outcome {
  std::uint64_t events = 0;
  std::uint64_t hash = 0;   // of all events, in full runs only; equal runs have equal hashes
  double wall_seconds = 0;  // real time that the run took
  Duration makespan{};      // end of the last application
  Bytes bytes{};            // moved by all applications
  std::uint64_t failed_operations = 0;
  std::vector<OperationRecord> operations;  // in order of completion
  std::vector<PhaseRecord> phases;          // in order of completion
  std::vector<Activity> timeline;
  std::vector<Duration> application_end;  // by application
  std::vector<Duration> server_busy;      // by server
  std::uint64_t batches = 0;              // served by devices
  std::uint64_t batched_requests = 0;     // in those batches
  std::uint64_t refused = 0;              // by nodes with a full queue; clients retry these
  std::vector<Trace> traces;              // by server; empty unless RunOptions::traces
  std::vector<AnnouncedSize> announced;   // by application and server, without unknown sizes
  std::vector<ServerFinish> finishes;     // in order of completion; empty unless RunOptions::finishes
  // Empty: all applications finished. Else one line per application that cannot finish: what it waits for.
  std::vector<std::string> stuck;
};

struct RunOptions {
  // Full simulation: production clients and nodes exchange messages. Else fast simulation: only policies, stamps,
  // striping and the lock table are production code.
  bool full = false;
  std::uint64_t jitter = 0;       // seed of the random delays of messages
  bool demands = false;           // fill PhaseRecord::demand
  bool traces = false;            // fill Outcome::traces; fast simulation only
  bool operation_records = true;  // fill Outcome::operations
  bool finishes = false;          // fill Outcome::finishes; fast simulation only
  // Called from time to time with the simulated time and the number of events.
  std::function<void(Duration, std::uint64_t)> progress{};
};

// kInvalid, kNotFound: the scenario is wrong. A scenario that cannot finish is not an error (Outcome::stuck).
Result<Outcome> run(const Scenario& scenario, const RunOptions& options = {});

// The same with RunOptions::full. kInvalid: the scenario has parts that production code does not have.
Result<Outcome> run_full(const Scenario& scenario, const RunOptions& options);

}  // namespace tutti::sim
