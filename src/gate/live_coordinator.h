// SPDX-License-Identifier: Apache-2.0
// Gets a job's turn from the gate, by probing and backoff, or by both. Used by `tutti turn` and the C API.
//
// With a gate, the job first asks for its turn. Then it probes the file system, if a directory to probe is set:
//   kFallback (default): if the turn was not granted;
//   kAlways: also with a turn, because of traffic that is not coordinated (future work in the thesis);
//   kNever.
// Without a gate (address "off") the job only probes: the backoff of the thesis.
#pragma once

#include <tutti/base.h>

#include <memory>
#include <optional>
#include <string>

#include "gate/live_client.h"
#include "gate/live_prober.h"

namespace tutti::gate {

enum class ProbeWhen { kNever, kFallback, kAlways };

struct CoordinatorOptions {
  LiveGateOptions client{};  // address "off": no gate
  ProberOptions prober{};    // directory empty: no probing
  ProbeWhen probe_when = ProbeWhen::kFallback;

  // From the environment (docs/gate.md lists the variables). kInvalid names the variable and its valid values.
  static Result<CoordinatorOptions> from_environment();
};

struct TurnResult {
  GateOutcome outcome = GateOutcome::kUnreachable;
  std::optional<ProbeReport> probe;  // empty: no probing
};

// Thread-safe.
class Coordinator {
 public:
  static Result<std::unique_ptr<Coordinator>> create(CoordinatorOptions options);

  // Returns when the phase may begin. Each begin() needs an end().
  TurnResult begin(const TargetList& targets, Bytes bytes);
  void end();
  bool holds() const { return client_ && client_->holds(); }
  LiveGateClient* client() { return client_.get(); }  // nullptr: no gate
  const CoordinatorOptions& options() const { return options_; }

 private:
  explicit Coordinator(CoordinatorOptions options) : options_(std::move(options)) {}

  CoordinatorOptions options_;
  std::unique_ptr<LiveGateClient> client_;
};

}  // namespace tutti::gate
