// SPDX-License-Identifier: Apache-2.0
// The system's sockets, as far as the transports need them. Internal.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "net/transport.h"

namespace tutti::net {

// A file descriptor that closes itself.
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

// Unix and TCP endpoints only. The endpoint gets the port that was chosen.
Result<Socket> listen_on(Endpoint& endpoint);
// Connected and non-blocking.
Result<Socket> connect_to(const Endpoint& endpoint, TimePoint deadline);
Result<std::pair<Socket, Socket>> socket_pair();

// Larger buffers, no delays.
void tune(int socket);

// Who is at the other end of a Unix socket.
std::optional<wire::Identity> peer_identity(int socket);
std::string peer_address(int socket);

struct Frame {
  wire::Header header;
  std::vector<std::byte> body;
};
// One whole frame without payload, before the socket belongs to a loop. `deadline` by steady_now().
Result<void> send_frame(int socket, std::span<const std::byte> frame, TimePoint deadline);
Result<Frame> receive_frame(int socket, TimePoint deadline);

}  // namespace tutti::net
