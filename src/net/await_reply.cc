// SPDX-License-Identifier: Apache-2.0
// Connection::await_reply(): the thread that waits for a reply receives it, instead of the loop's thread.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/mutex.h"
#include "net/stream_connection.h"

namespace tutti::net {
namespace {

constexpr Duration kPollTime = std::chrono::microseconds(100);

}  // namespace

void StreamConnection::await_reply(std::uint64_t tag, const std::function<bool()>& wanted) {
  if (loop_->on_loop() || node_side()) return;
  const auto self = shared_from_this();
  bool between = false;  // frames
  {
    Lock receiving(receiving_);  // if another thread is just delivering it, that is over then
    if (!wanted() || !begin_awaiting(tag)) return;
    between = reader_.state() == FrameReader::State::kHeader;
  }
  std::array<std::byte, EventLoop::kScratch> scratch;
  do {
    // No other thread reads from the socket now. The lock is not held while waiting, so that close() can take it.
    ssize_t got = 0;
    pollfd input{.fd = socket_, .events = POLLIN, .revents = 0};
    if (between && !sends_by_reference())
      got = receive_awaited(scratch);
    else
      (void)::poll(&input, 1, -1);
    Lock receiving(receiving_);
    if (got > 0)
      (void)process(std::span(scratch).first(static_cast<std::size_t>(got)));
    else
      receive(scratch, false);
    between = reader_.state() == FrameReader::State::kHeader;
  } while (still_awaiting(tag));
}

// As recv(2). Polls first if the last reply was fast, because waking a sleeping thread takes longer than such a reply.
ssize_t StreamConnection::receive_awaited(std::span<std::byte> scratch) {
  const TimePoint begun = steady_now();
  ssize_t got = -1;
  if (established_.watch && last_reply_was_fast_) do
      got = ::recv(socket_, scratch.data(), scratch.size(), MSG_DONTWAIT);
    while (got < 0 && errno == EAGAIN && steady_now() - begun < kPollTime);
  if (got < 0) got = ::recv(socket_, scratch.data(), scratch.size(), 0);
  last_reply_was_fast_ = steady_now() - begun < kPollTime;
  return got;
}

// False: another thread receives the reply, the request cannot be sent yet, or the connection is closed.
bool StreamConnection::begin_awaiting(std::uint64_t tag) {
  Lock lock(mutex_);
  if (stage_ != Stage::kOpen) return false;
  awaited_tags_.push_back(tag);
  if (receiving_thread_ != std::thread::id() || loop_deliveries_ > 0 || pause_ != Pause::kNone) return false;
  if (!may_be_answered(tag)) return false;
  receiving_thread_ = std::this_thread::get_id();
  update_interest();
  return true;
}

// False: the reply was received or cannot be; the loop receives again.
bool StreamConnection::still_awaiting(std::uint64_t tag) {
  Lock lock(mutex_);
  const bool awaits = std::ranges::find(awaited_tags_, tag) != awaited_tags_.end();
  if (awaits && stage_ == Stage::kOpen && pause_ == Pause::kNone) return true;
  receiving_thread_ = {};
  update_interest();
  return false;
}

// The loop's thread will call received().
void StreamConnection::deliver_on_loop(Incoming message) {
  ++loop_deliveries_;
  loop_->post([self = shared_from_this(), shared = std::make_shared<Incoming>(std::move(message))] {
    Lock receiving(self->receiving_);
    {
      Lock lock(self->mutex_);
      --self->loop_deliveries_;
      if (self->stage_ == Stage::kEnded) return;
    }
    self->handler_.received(self, std::move(*shared));
  });
}

}  // namespace tutti::net
