// SPDX-License-Identifier: Apache-2.0
// Stream sockets the gate and its clients use: Unix domain or TCP.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::gate {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// "/run/tutti/gate.sock" (a path, absolute or with a slash) or "127.0.0.1:7700" / "login1:7700" / "[::1]:7700".
struct Address {
  std::string path;  // Unix domain, if not empty
  std::string host;
  std::uint16_t port = 0;

  static Result<Address> parse(std::string_view text);
  std::string text() const;
};

// TUTTI_GATE if set, else /tmp/tutti-gate-UID.sock.
std::string default_gate_address();

// Non-blocking, close-on-exec. A Unix socket file that nobody listens on is replaced. Port 0 takes any free port.
Result<Fd> listen_on(const Address& address);
std::uint16_t local_port(const Fd& fd);

// Blocking socket, close-on-exec, no Nagle delay. kUnreachable, or kTimeout after `timeout`.
Result<Fd> connect_to(const Address& address, Duration timeout);

// Sets how long a blocking receive or send may take. Zero or less: the shortest possible.
void set_timeouts(const Fd& fd, Duration timeout);

}  // namespace tutti::gate
