// SPDX-License-Identifier: Apache-2.0
// Receiving on a thread that waits for a reply, in place of the loop's.
#include <poll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "net/stream_connection.h"

namespace tutti::net {
namespace {

constexpr auto kLook = std::chrono::microseconds(400);  // at most, before going to sleep
constexpr auto kAlone = std::chrono::microseconds(10);  // who yields for longer shares his core

std::atomic<int> receiving_threads{0};  // of this process, in await_reply()

struct Counted {
  Counted() { ++receiving_threads; }
  ~Counted() { --receiving_threads; }
};

// To be woken on an idle core takes as long as many a reply, so a thread that is the only one to wait and has its core
// to itself looks for a while whether there is something to receive.
bool comes_soon(pollfd& input) {
  TimePoint now = steady_now();
  for (const TimePoint until = now + kLook; now < until && receiving_threads == 1;) {
    if (::poll(&input, 1, 0) != 0) return true;
    std::this_thread::yield();
    const TimePoint before = std::exchange(now, steady_now());
    if (now - before > kAlone) return false;
  }
  return false;
}

}  // namespace

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
  const Counted counted;
  std::array<std::byte, EventLoop::kScratch> scratch;
  while (waiting) {
    pollfd input{.fd = socket_, .events = POLLIN, .revents = 0};
    if (!comes_soon(input) && ::poll(&input, 1, -1) < 0 && errno != EINTR) break;
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
