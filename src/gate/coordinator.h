// SPDX-License-Identifier: Apache-2.0
// A job's turn, by lock, by backoff, or by both: what `tutti turn` and the C API do.
//
// With a gate: the lock is taken first. Then the file system is probed, if a place to probe is known,
//   kFallback (default): when the lock was not granted, as a job without a turn looks before it leaps;
//   kAlways: with the lock, too, against traffic that does not take part (the thesis's future work);
//   kNever.
// Without a gate (address "off") only the probing is left: the thesis's backoff.
#pragma once

#include <tutti/base.h>

#include <memory>
#include <optional>
#include <string>

#include "gate/client.h"
#include "gate/prober.h"

namespace tutti::gate {

enum class ProbeWhen { kNever, kFallback, kAlways };

struct CoordinatorOptions {
  ClientOptions client{};  // address "off": no gate
  ProberOptions prober{};  // directory empty: nothing to probe
  ProbeWhen probe_when = ProbeWhen::kFallback;

  // From the environment (docs/gate.md lists the variables). kInvalid names the variable and what it takes.
  static Result<CoordinatorOptions> from_environment();
};

// What the job is called from run to run: TUTTI_JOB, else the batch system's job name, else TUTTI_APP, else the
// program's name.
std::string job_name();

struct Turn {
  Outcome outcome = Outcome::kUnreachable;
  std::optional<ProbeReport> probe;  // if there was one
};

// Thread-safe, as Client is.
class Coordinator {
 public:
  static Result<std::unique_ptr<Coordinator>> create(CoordinatorOptions options);

  // Returns when the phase may begin. Each begin() needs its end().
  Turn begin(const TargetList& targets, Bytes bytes);
  void end();
  bool holds() const { return client_ && client_->holds(); }
  Client* client() { return client_.get(); }  // nullptr: no gate
  const CoordinatorOptions& options() const { return options_; }

 private:
  explicit Coordinator(CoordinatorOptions options) : options_(std::move(options)) {}

  CoordinatorOptions options_;
  std::unique_ptr<Client> client_;
};

}  // namespace tutti::gate
