// SPDX-License-Identifier: Apache-2.0
// A job's side of the gate. Coordination is never allowed to be the problem: every wait is bounded, and when a bound is
// reached the job goes ahead.
//
//  - The gate cannot be reached or does not answer within `answer_bound`: the job goes ahead. From then on phases begin
//    at once, until a thread in the background has got an answer from the gate again.
//  - The turn does not come within `max_wait`: the job goes ahead.
//  - The gate is restarted: a waiter reconnects within `answer_bound` and keeps its place, a holder keeps its lock.
//
// A process has one phase at a time. A begin() while a phase is open joins it if the open phase covers its targets,
// else waits for the phase to end; the phase ends with the last end().
#pragma once

#include <tutti/base.h>

#include <functional>
#include <memory>
#include <string>

#include "gate/targets.h"

namespace tutti::gate {

enum class Outcome {
  kGranted,      // holds the targets
  kUnreachable,  // goes ahead: no gate
  kSilent,       // goes ahead: the gate does not answer
  kTooLong,      // goes ahead: the turn did not come within max_wait
  kRefused,      // goes ahead: the gate said no, e.g. a target it does not have
};
const char* explain(Outcome outcome);

struct ClientOptions {
  std::string address;  // as Address::parse() takes it
  std::string job;      // what the job is called from run to run
  Duration answer_bound = std::chrono::seconds(2);
  Duration max_wait = std::chrono::minutes(10);
  std::function<void(const std::string&)> say{};  // told, once per trouble, why the job goes ahead
};

// All members are thread-safe. The destructor ends an open phase.
class Client {
 public:
  static Result<std::unique_ptr<Client>> create(ClientOptions options);
  virtual ~Client() = default;

  // Returns when the phase may begin. Each begin() needs its end(), whatever the outcome.
  virtual Outcome begin(const TargetList& targets, Bytes bytes) = 0;
  virtual void end() = 0;

  // How long the open phase keeps its lock if nothing more is heard of the gate, as far as this side can prove; zero if
  // there is no phase, it was not granted, or the lease has run out.
  virtual Duration lease_left() const = 0;
  bool holds() const { return lease_left() > Duration::zero(); }

  // In the child after a fork, before any other call: forget the parent's connection without a word to the gate.
  virtual void abandon_after_fork() = 0;
};

// The gate's status document (JSON). kUnreachable, kTimeout, kProtocol.
Result<std::string> query_status(const std::string& address, Duration timeout);

}  // namespace tutti::gate
