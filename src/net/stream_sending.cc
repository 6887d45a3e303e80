// SPDX-License-Identifier: Apache-2.0
// QueuedMessage on a connection, from any thread.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/mutex.h"
#include "net/stream_connection.h"

namespace tutti::net {
namespace {

// Uses the bare system call because of sanitizers: their wrapper reads the memory again after the call. By then the
// peer may have replied, and the owner may have changed the memory.
ssize_t send_message(int socket, const msghdr& message) {
  if (message.msg_iovlen == 1) {  // faster than sendmsg
    const iovec& part = *message.msg_iov;
    return ::syscall(SYS_sendto, socket, part.iov_base, part.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
  }
  return ::syscall(SYS_sendmsg, socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

void StreamConnection::send(Outgoing message) {
  Lock lock(mutex_);
  if (stage_ >= Stage::kEnding) return;
  enqueue(std::move(message));
  if (sending_ || want_write_) return;
  if (loop_->on_loop()) {
    if (!std::exchange(flush_later_, true)) loop_->flush_later(shared_from_this());
    return;
  }
  drain(lock);
}

void StreamConnection::flush() {
  Lock lock(mutex_);
  flush_later_ = false;
  if (!sending_ && !want_write_) drain(lock);
}

bool StreamConnection::has_unsent() {
  Lock lock(mutex_);
  return stage_ < Stage::kEnding && !queue_.empty();
}

void StreamConnection::enqueue(Outgoing&& message) {
  if (queue_.empty()) progress_ = {};
  QueuedMessage& entry = queue_.emplace_back();
  entry.message = std::move(message);
  Outgoing& out = entry.message;
  entry.size = out.frame.size() + out.payload.size() + out.pages.size();
  for (const auto& part : out.borrowed) entry.size += part.size();
  const wire::Type type = wire::frame_type(out.frame);
  if (!wire::is_notice(type)) entry.charge = admission_.answered(wire::frame_tag(out.frame));
  if (type == wire::Type::kPull && owed_payloads_++ == 0 && pause_ == Pause::kForMemory)
    loop_->post([self = shared_from_this()] { self->retry(); });  // the payload may be behind a request that waits
  entry.by_reference = sends_by_reference() && entry.size - out.frame.size() >= PagePipe::kLeast &&
                       out.borrowed.size() == 1 && out.pages.open();
  if (entry.by_reference) entry.lead = wire::lead_of(out.borrowed.front().data());
}

void StreamConnection::drain(Lock& lock) {
  sending_ = true;
  bool one = false;  // send the first message alone
  while (!queue_.empty() && stage_ < Stage::kEnding) {
    const auto sent = send_next(lock, one);
    const int error = errno;
    if (sent >= 0) {
      mark_sent(static_cast<std::size_t>(sent));
      one = false;
    } else if (error == EFAULT && !node_side()) {
      if (one) drop_unsendable();
      one = !one;
    } else if (error != EINTR) {
      not_accepted(error);
      break;
    }
  }
  sending_ = false;
  if (stage_ >= Stage::kEnding) idle_.notify_all();
}

// The socket is full or has failed.
void StreamConnection::not_accepted(int error) {
  if (error == EPIPE || error == ECONNRESET) return;  // receiving reports it, after what the peer has sent
  if (error != EAGAIN) return begin_end({ErrorCode::kIo, fmt::format("cannot send: {}", std::strerror(error)), error});
  want_write_ = true;
  if (progress_ == TimePoint{}) progress_ = steady_now();
  update_interest();
  if (node_side()) loop_->wake_at(progress_ + listener_->options.send_timeout);
}

// The memory of the first message cannot be read. If a part of it was sent, no other message can follow.
void StreamConnection::drop_unsendable() {
  const QueuedMessage& first = queue_.front();
  unsendable_.push_back(wire::frame_tag(first.message.frame));
  if (first.sent > 0)
    return begin_end({ErrorCode::kIo, "the memory of a message that was sent in part cannot be read", EFAULT});
  queue_.pop_front();
  loop_->post([self = shared_from_this()] {
    Lock receiving(self->receiving_);
    self->report_unsendable();
  });
}

void StreamConnection::report_unsendable() {
  std::vector<std::uint64_t> tags;
  {
    Lock lock(mutex_);
    tags = unsendable_;
  }
  for (const auto tag : tags) {
    handler_.unsendable(shared_from_this(), tag);
    Lock lock(mutex_);  // only now: until then, no thread may begin to wait for a reply
    std::erase(unsendable_, tag);
    std::erase(awaited_tags_, tag);
  }
}

// False: it is not known yet whether the message with this tag can be sent, or it cannot be.
bool StreamConnection::may_be_answered(std::uint64_t tag) const {
  const auto waits = [&](const QueuedMessage& entry) {
    return entry.sent == 0 && wire::frame_tag(entry.message.frame) == tag;
  };
  return std::ranges::find(unsendable_, tag) == unsendable_.end() && std::ranges::none_of(queue_, waits);
}

// Sends pages, or memory up to the next pages. Returns as send(2).
ssize_t StreamConnection::send_next(Lock& lock, bool one) {
  std::array<iovec, kParts> parts;
  msghdr header{};
  header.msg_iov = parts.data();
  QueuedMessage& first = queue_.front();
  const bool pages = first.pages_are_next();
  if (!pages) header.msg_iovlen = collect_parts(parts, one);
  lock.unlock();
  ssize_t sent = -1;
  int error = EINTR;         // the caller tries again, without pages
  if (first.fill_pages()) {  // before the peer is woken by the frame
    sent = pages ? first.message.pages.drain(socket_, first.message.pages.left()) : send_message(socket_, header);
    error = errno;
  }
  lock.lock();
  errno = error;
  return sent;
}

// Memory that cannot be sent by reference (some mappings of devices) is copied.
bool StreamConnection::QueuedMessage::fill_pages() {
  if (!by_reference || message.pages.left() > 0) return true;
  const auto rest = message.borrowed.front().subspan(std::max(sent, pages_begin()) - message.frame.size());
  if (message.pages.take(rest) > 0) return true;
  by_reference = false;
  message.pages = {};
  return false;
}

// The memory to send next, or that of the first message alone. It stays valid without the lock, because entries of the
// list do not move.
std::size_t StreamConnection::collect_parts(std::span<iovec> parts, bool one) {
  std::size_t count = 0;
  for (const auto& entry : queue_) {
    if (count > 0 && entry.by_reference) break;  // its frame is sent only after fill_pages()
    auto skip = entry.sent;
    auto add = [&](const std::byte* data, std::size_t size) {
      const auto skipped = std::min(skip, size);
      skip -= skipped;
      if (size > skipped && count < parts.size()) {
        parts[count++] = {const_cast<std::byte*>(data) + skipped, size - skipped};
      }
    };
    add(entry.message.frame.data(), entry.message.frame.size());
    add(entry.message.payload.data(), entry.message.payload.size());
    for (const auto& part : entry.message.borrowed) add(part.data(), entry.by_reference ? entry.lead : part.size());
    if (one || count == parts.size() || entry.has_pages()) break;
  }
  return count;
}

void StreamConnection::mark_sent(std::size_t count) {
  progress_ = {};
  while (count > 0) {
    auto& entry = queue_.front();
    const auto step = std::min(count, entry.size - entry.sent);
    entry.sent += step;
    count -= step;
    if (entry.sent < entry.size) return;
    if (entry.charge) release(*entry.charge);
    queue_.pop_front();
  }
}

void StreamConnection::release(const Charge& charge) {
  admission_.release(charge);
  listener_->request_memory.of(charge) -= charge.memory;
  user_memory_->requests.of(charge) -= charge.memory;
  if (listener_->waiting_for_memory.exchange(false)) listener_->retry();
  if (pause_ == Pause::kForReplies) {
    pause_ = Pause::kResuming;
    loop_->post([self = shared_from_this()] { self->resume(); });
  }
}

void StreamConnection::update_interest() {
  if (stage_ >= Stage::kEnding) return;
  const bool read = pause_ == Pause::kNone && receiving_thread_ == std::thread::id();
  loop_->modify(socket_, (read ? kRead : 0U) | (want_write_ ? EPOLLOUT : 0U) | EPOLLET, this);
}

}  // namespace tutti::net
