// SPDX-License-Identifier: Apache-2.0
// The interface through which a process asks for its turn before a phase of I/O.
#pragma once

#include <tutti/job.h>

#include <functional>
#include <vector>

namespace tutti::job {

// The planned I/O of the phase. The gate orders jobs by it.
struct TurnRequest {
  std::vector<TargetId> targets;  // used by the phase; empty: all targets
  Bytes bytes{};                  // of all processes of the application; 0: unknown
};

// The result of begin(). The phase may begin in all three cases, because turns are advisory.
enum class TurnOutcome {
  kGranted,      // this process has the turn until end()
  kTimedOut,     // the turn was not granted within the limit on waiting
  kUnreachable,  // no gate is configured or none answers: jobs are not ordered
};

// The turns of one process, at most one at a time. Implementations use the gate or probe the file system, in real or in
// virtual time.
//
// Thread-safe. No call blocks; results are passed to a callback.
class Turns {
 public:
  using Done = std::function<void(Result<TurnOutcome>)>;

  virtual ~Turns() = default;  // calls a waiting callback with kStopped, and ends the turn

  // Asks for a turn. `done` is called exactly once, inside begin() or later on a thread of the implementation, within a
  // bound that the implementation states. `done` must not block. Errors: kInvalid (targets that the gate does not
  // have), kDuplicate (begin() before the end() of the previous turn), kStopped. An unreachable gate is not an error.
  virtual void begin(const TurnRequest& request, Done done) = 0;

  // Ends the turn. If `done` was not called yet, withdraws the request and calls `done` with kStopped. Call it after
  // every begin() whose result was not an error. Does nothing without a turn.
  virtual void end() = 0;
};

}  // namespace tutti::job
