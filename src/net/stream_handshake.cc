// SPDX-License-Identifier: Apache-2.0
// The handshake of a connection, on the node's side.
#include <memory>
#include <utility>

#include "base/live_world.h"
#include "base/mutex.h"
#include "base/world.h"
#include "net/stream_connection.h"

namespace tutti::net {
namespace {

// Threads that check credentials, which may block. The connections that wait for them are limited by
// ListenerState::add_user() and by the handshake timeout. Never destroyed: a thread may be blocked at the end of the
// process.
Workers& verifiers() {
  static Workers* const workers = make_live_workers(2).release();
  return *workers;
}

}  // namespace

void StreamConnection::continue_handshake(Incoming message) {
  if (handshake_->blocks(message.header)) return verify(std::move(message));
  take_step(handshake_->receive(message.header, message.body));
}

// Nothing is received meanwhile, so only the worker uses the handshake.
void StreamConnection::verify(Incoming message) {
  {
    Lock lock(mutex_);
    pause_ = Pause::kVerifying;
  }
  verifiers().post(
      Workers::kProcess, [self = shared_from_this(), shared = std::make_shared<Incoming>(std::move(message))] {
        auto step = std::make_shared<NodeHandshake::Step>(self->handshake_->receive(shared->header, shared->body));
        self->loop_->post([self, step] {
          {
            Lock receiving(self->receiving_);
            if (self->stage_ >= Stage::kEnding) return;
            self->take_step(std::move(*step));
          }
          self->resume();
        });
      });
}

void StreamConnection::take_step(NodeHandshake::Step step) {
  {
    Lock lock(mutex_);
    enqueue({.frame = std::move(step.answer)});
    if (!sending_) drain(lock);
  }
  if (step.state == NodeHandshake::Step::State::kRefused) return refuse(step.why);
  if (step.state != NodeHandshake::Step::State::kAccepted) return;
  auto address = std::move(established_.peer.address);
  established_.peer = handshake_->peer();
  established_.peer.address = std::move(address);
  handshake_.reset();
  if (!user_) {
    if (!listener_->add_user(established_.peer.identity.uid))
      return refuse({ErrorCode::kFull, "this user has too many connections"});
    listener_->remove_user({});
    user_ = established_.peer.identity.uid;
  }
  reader_.limit_body(listener_->options.max_body);
  {
    Lock lock(mutex_);
    if (stage_ != Stage::kHandshake) return;
    stage_ = Stage::kOpen;
  }
  reported_ = accounted_ = true;
  listener_->connections++;
  handler_.connected(shared_from_this());
}

}  // namespace tutti::net
