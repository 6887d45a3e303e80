// SPDX-License-Identifier: Apache-2.0
// Receiving on a thread that waits for a reply, in place of the loop's.
#include <poll.h>

#include <array>
#include <cerrno>
#include <utility>

#include "net/stream_connection.h"

namespace tutti::net {

void StreamConnection::await_reply(std::uint64_t tag, const std::function<bool()>& wanted) {
  if (loop_->on_loop() || node_side()) return;
  const auto self = shared_from_this();
  const bool mine = begin_awaiting();
  bool waiting = false;
  {
    std::lock_guard receiving(receiving_);  // if somebody is just delivering it, that is over then
    waiting = wanted();
    std::lock_guard lock(mutex_);
    if (waiting && stage_ == Stage::kOpen) awaited_.insert(tag);
  }
  if (!mine) return;
  std::array<std::byte, EventLoop::kScratch> scratch;
  while (waiting) {
    pollfd input{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, -1) < 0 && errno != EINTR) break;
    std::lock_guard receiving(receiving_);
    receive(scratch);
    waiting = still_awaiting(tag);
  }
  end_awaiting();
}

// False: the loop has to go on with it.
bool StreamConnection::begin_awaiting() {
  std::lock_guard lock(mutex_);
  if (awaiting_ != std::thread::id() || handed_over_ > 0 || stage_ != Stage::kOpen || parking_ != Parking::kNone)
    return false;
  awaiting_ = std::this_thread::get_id();
  update_interest();
  return true;
}

bool StreamConnection::still_awaiting(std::uint64_t tag) {
  std::lock_guard lock(mutex_);
  return awaited_.contains(tag) && stage_ == Stage::kOpen && parking_ == Parking::kNone;
}

void StreamConnection::end_awaiting() {
  std::lock_guard lock(mutex_);
  awaiting_ = {};
  update_interest();
}

// Locked.
void StreamConnection::hand_over(Incoming message) {
  ++handed_over_;
  loop_->post([self = shared_from_this(), shared = std::make_shared<Incoming>(std::move(message))] {
    std::lock_guard receiving(self->receiving_);
    {
      std::lock_guard lock(self->mutex_);
      --self->handed_over_;
      if (self->stage_ == Stage::kEnded) return;
    }
    self->handler_.received(self, std::move(*shared));
  });
}

}  // namespace tutti::net
