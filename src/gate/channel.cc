// SPDX-License-Identifier: Apache-2.0
#include "gate/channel.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

namespace tutti::gate {

Result<Channel> Channel::open(const Address& address, Duration timeout) {
  auto fd = connect_to(address, timeout);
  if (!fd) return Failure(fd.error());
  return Channel(std::move(*fd));
}

Result<Channel> Channel::open(const Address& address, const Hello& hello, Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto channel = open(address, timeout);
  if (!channel) return channel;
  if (auto sent = channel->send(hello); !sent) return Failure(sent.error());
  auto answer = channel->receive(deadline - std::chrono::steady_clock::now());
  if (!answer) return Failure(answer.error());
  if (!*answer) return fail(ErrorCode::kTimeout, fmt::format("the gate at {} does not answer", address.text()));
  const auto* welcome = std::get_if<Welcome>(&**answer);
  if (!welcome) return fail(ErrorCode::kProtocol, fmt::format("{} does not greet like a gate", address.text()));
  channel->welcome_ = *welcome;
  return channel;
}

Result<void> Channel::send(const Message& message) {
  out_.clear();
  encode(message, out_);
  while (true) {
    const ssize_t count = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count == static_cast<ssize_t>(out_.size())) return {};
    if (count < 0 && errno == EINTR) continue;
    // Messages are far smaller than any socket buffer: one that does not fit means nobody reads at the other end.
    return fail(ErrorCode::kUnreachable, "the gate does not take messages", count < 0 ? errno : EAGAIN);
  }
}

Result<std::optional<Message>> Channel::receive(Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    auto message = take();
    if (!message || *message) return message;
    std::array<std::byte, 4096> buffer;
    const Duration left = deadline - std::chrono::steady_clock::now();
    // The timeout of the socket is set only when it changes: most receives are answered at once.
    const bool waits = timeout > Duration::zero();
    if (waits && left <= Duration::zero()) return std::nullopt;
    if (waits && (timeout_set_ != timeout || left < timeout / 2)) {
      set_timeouts(fd_, left);
      timeout_set_ = left < timeout / 2 ? Duration(-1) : timeout;
    }
    const ssize_t count = recv(fd_.get(), buffer.data(), buffer.size(), waits ? 0 : MSG_DONTWAIT);
    if (count > 0) {
      in_.insert(in_.end(), buffer.begin(), buffer.begin() + count);
      continue;
    }
    if (count == 0) return fail(ErrorCode::kUnreachable, "the gate closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN)
      return fail(ErrorCode::kUnreachable, fmt::format("the gate is gone: {}", std::strerror(errno)), errno);
    if (!waits) return std::nullopt;
  }
}

Result<std::optional<Message>> Channel::take() {
  const auto decoded = decode(std::span(in_).subspan(taken_));
  if (!decoded) return Failure(decoded.error());
  if (!*decoded) {
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    return std::nullopt;
  }
  taken_ += (*decoded)->consumed;
  return (*decoded)->message;
}

}  // namespace tutti::gate
