// SPDX-License-Identifier: Apache-2.0
// Blocking calls of the gate's client, in the live world. gate/client.h states the rules.
#pragma once

#include <memory>
#include <string>

#include "gate/client.h"
#include "job/identity.h"
#include "job/turns.h"

namespace tutti::gate {

struct LiveGateOptions {
  std::string address;          // as parse_address() takes it
  std::string job{};            // job name, the same in every run
  std::uint64_t number = 0;     // job number plus 1, because 0 is a valid one; 0: this process is a job of its own
  net::JobClaim claimed_job{};  // for gates that check job numbers
  std::string key_file{};       // for TCP: the key shared with the gate; empty: MUNGE
  Duration answer_bound = std::chrono::seconds(2);
  Duration max_wait = std::chrono::minutes(10);
  std::function<void(const std::string&)> say{};  // called once per problem: why the job proceeds

  // Sets job, number and claimed job.
  void set_job(const job::Identity& identity);
  // Sets key file, answer bound and maximum wait from TUTTI_GATE_KEY, TUTTI_GATE_ANSWER and TUTTI_GATE_MAX_WAIT.
  // kInvalid names the variable.
  Result<void> read_environment();
};

// Thread-safe. The destructor ends an open phase.
class LiveGateClient {
 public:
  // kInvalid, kDenied: the address, the answer bound or the key file. Does not connect.
  static Result<std::unique_ptr<LiveGateClient>> create(LiveGateOptions options);

  // Returns when the phase may begin. Each begin() needs an end(), for every outcome.
  GateOutcome begin(const TargetList& targets, Bytes bytes);
  void end() { core_->end(); }

  // The same as in GateClient.
  Duration lease_left() const { return core_->lease_left(); }
  bool holds() const { return lease_left() > Duration::zero(); }
  void abandon_after_fork() { core_->abandon_after_fork(); }

 private:
  explicit LiveGateClient(std::unique_ptr<GateClient> core) : core_(std::move(core)) {}

  const std::unique_ptr<GateClient> core_;
};

// Turns of this process at a gate, for src/client. kInvalid, kDenied: the same as in LiveGateClient::create().
Result<std::unique_ptr<job::Turns>> make_live_turns(const LiveGateOptions& options);

// The gate's status document (JSON); every user may read it. kUnreachable, kTimeout, kDenied, kProtocol.
Result<std::string> query_status(const LiveGateOptions& options, Duration timeout);

}  // namespace tutti::gate
