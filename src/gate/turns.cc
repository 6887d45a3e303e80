// SPDX-License-Identifier: Apache-2.0
#include "gate/turns.h"

#include <cerrno>
#include <utility>

#include "base/mutex.h"

namespace tutti::gate {
namespace {

job::TurnOutcome to_turn(GateOutcome outcome) {
  if (outcome == GateOutcome::kGranted) return job::TurnOutcome::kGranted;
  return outcome == GateOutcome::kTimedOut ? job::TurnOutcome::kTimedOut : job::TurnOutcome::kUnreachable;
}

}  // namespace

GateTurns::GateTurns(World& world, std::unique_ptr<net::Transport> transport, GateClient::Options options)
    : client_(std::make_unique<GateClient>(world, std::move(transport), std::move(options))) {}

GateTurns::~GateTurns() {
  end();
  client_.reset();  // no more calls of decided()
}

void GateTurns::begin(const job::TurnRequest& request, Done done) {
  std::uint64_t turn = 0;
  {
    Lock lock(mutex_);
    if (!open_) {
      open_ = true;
      turn = ++turn_;
      waiting_ = std::move(done);
    }
  }
  if (turn == 0) return done(fail(ErrorCode::kDuplicate, "begin() before the end() of the previous turn"));
  const TargetList targets = request.targets.empty() ? TargetList::everything() : TargetList::of(request.targets);
  client_->begin(targets, request.bytes, [this, turn](GateOutcome outcome) { decided(turn, outcome); });
}

void GateTurns::decided(std::uint64_t turn, GateOutcome outcome) {
  Done done;
  const bool wrong = outcome == GateOutcome::kInvalid;
  {
    Lock lock(mutex_);
    if (open_ && turn == turn_) {
      done = std::exchange(waiting_, nullptr);
      if (wrong) open_ = false;
    }
  }
  if (!done || wrong) client_->end();  // end() was called before the outcome, or will not be called
  if (!done) return;
  if (wrong) return done(fail(ErrorCode::kInvalid, "the gate does not have these targets", EINVAL));
  done(to_turn(outcome));
}

void GateTurns::end() {
  Done done;
  {
    Lock lock(mutex_);
    if (!std::exchange(open_, false)) return;
    done = std::exchange(waiting_, nullptr);
  }
  if (done) return done(fail(ErrorCode::kStopped, "the turn is no longer wanted"));
  client_->end();
}

}  // namespace tutti::gate
