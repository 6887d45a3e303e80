// SPDX-License-Identifier: Apache-2.0
// System calls for sockets. Internal to the transports.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "net/transport.h"

namespace tutti::net {

// Owns a file descriptor.
class Socket {
 public:
  explicit Socket(int file = -1) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int file() const { return file_; }
  int release() { return std::exchange(file_, -1); }

 private:
  int file_;
};

// For Unix and TCP endpoints. Port 0 in the endpoint is replaced by the port that was chosen.
Result<Socket> listen_on(Endpoint& endpoint);
// The socket is connected and non-blocking. `deadline` on steady_now().
Result<Socket> connect_to(const Endpoint& endpoint, TimePoint deadline);
Result<std::pair<Socket, Socket>> socket_pair();

// Sets large buffers and TCP_NODELAY.
void tune(int socket);

// The user at the other end of a Unix socket; nothing for TCP.
std::optional<wire::Identity> peer_identity(int socket);
std::string peer_address(int socket);

struct Frame {
  wire::Header header;
  std::vector<std::byte> body;
};
// Send or receive one frame without payload, before the socket is added to a loop. `deadline` on steady_now().
Result<void> send_frame(int socket, std::span<const std::byte> frame, TimePoint deadline);
Result<Frame> receive_frame(int socket, TimePoint deadline);

}  // namespace tutti::net
