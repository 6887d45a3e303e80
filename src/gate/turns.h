// SPDX-License-Identifier: Apache-2.0
// Implements the interface for turns (job/turns.h) with a gate.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "gate/client.h"
#include "job/turns.h"

namespace tutti::gate {

// Thread-safe. begin() is decided within GateClient::Options::max_wait. If the gate has no room, does not answer or
// cannot be reached, the outcome is kUnreachable. Targets that it does not have are an error.
class GateTurns final : public job::Turns {
 public:
  // The world must outlive this.
  GateTurns(World& world, std::unique_ptr<net::Transport> transport, GateClient::Options options);
  ~GateTurns() override;

  void begin(const job::TurnRequest& request, Done done) override;
  void end() override;
  // As GateClient::lease_left().
  Duration lease_left() const { return client_->lease_left(); }

 private:
  void decided(std::uint64_t turn, GateOutcome outcome);

  Mutex mutex_;                                      // guards what follows
  std::uint64_t turn_ TUTTI_GUARDED_BY(mutex_) = 0;  // counts begin()
  bool open_ TUTTI_GUARDED_BY(mutex_) = false;       // between begin() and end()
  Done waiting_ TUTTI_GUARDED_BY(mutex_);            // of the turn that is not decided yet
  std::unique_ptr<GateClient> client_;
};

}  // namespace tutti::gate
