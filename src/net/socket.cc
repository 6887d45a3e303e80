// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/descriptor.h"
#include "net/handshake.h"

namespace tutti::net {
namespace {

Failure failed(std::string_view what, int error, ErrorCode code = ErrorCode::kIo) {
  return fail(code, fmt::format("{}: {}", what, std::strerror(error)), error);
}

sockaddr_un unix_address(const Endpoint& endpoint) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, endpoint.name.data(), std::min(endpoint.name.size(), sizeof address.sun_path - 1));
  return address;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const Endpoint& endpoint, bool passive) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  auto host = endpoint.name;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0) {
    return fail(ErrorCode::kUnreachable,
                fmt::format("cannot resolve {}: {}", to_text(endpoint), ::gai_strerror(error)));
  }
  return Addresses(found, &::freeaddrinfo);
}

// Milliseconds until the deadline, for poll(); 0 if it has passed.
int left(TimePoint deadline) {
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(rest, 0, 1 << 30));
}

Result<void> wait_for(int socket, short events, TimePoint deadline) {
  for (;;) {
    pollfd poll{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&poll, 1, left(deadline));
    if (ready > 0) return {};
    if (ready == 0) return fail(ErrorCode::kTimeout, "the peer did not answer in time");
    if (errno != EINTR) return failed("poll", errno);
  }
}

Result<Socket> connect_address(const Endpoint& endpoint, const sockaddr* address, socklen_t length,
                               TimePoint deadline) {
  Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.file() < 0) return failed("socket", errno);
  const auto what = "cannot connect to " + to_text(endpoint);
  while (::connect(socket.file(), address, length) != 0) {
    if (errno == EINPROGRESS) {
      if (auto ready = wait_for(socket.file(), POLLOUT, deadline); !ready) return Failure(ready.error());
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return failed(what, error, ErrorCode::kUnreachable);
      break;
    }
    // The queue of the listening Unix socket is full.
    if (errno == EAGAIN && steady_now() < deadline) {
      ::poll(nullptr, 0, 10);
      continue;
    }
    if (errno != EINTR) return failed(what, errno, ErrorCode::kUnreachable);
  }
  return socket;
}

Result<Socket> listen_unix(const Endpoint& endpoint) {
  const auto address = unix_address(endpoint);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.file() < 0) return failed("socket", errno);
  struct stat attributes {};
  if (::lstat(address.sun_path, &attributes) == 0 && S_ISSOCK(attributes.st_mode)) {
    Socket probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(probe.file(), generic, sizeof address) != 0 && errno == ECONNREFUSED) ::unlink(address.sun_path);
  }
  if (::bind(socket.file(), generic, sizeof address) != 0 || ::listen(socket.file(), 1024) != 0) {
    return failed("cannot listen on " + to_text(endpoint), errno);
  }
  // All users may connect; each is served with its own rights. Not by name: who can write to the directory could have
  // put a link there.
  const Descriptor made(::open(address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (made.get() >= 0 && ::fstat(made.get(), &attributes) == 0 && S_ISSOCK(attributes.st_mode))
    ::chmod(fmt::format("/proc/self/fd/{}", made.get()).c_str(), 0666);
  return socket;
}

Result<Socket> listen_tcp(Endpoint& endpoint) {
  auto addresses = resolve(endpoint, true);
  if (!addresses) return Failure(addresses.error());
  const auto& address = **addresses;
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.file() < 0) return failed("socket", errno);
  const int yes = 1;
  ::setsockopt(socket.file(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.file(), address.ai_addr, address.ai_addrlen) != 0 || ::listen(socket.file(), 1024) != 0) {
    return failed("cannot listen on " + to_text(endpoint), errno);
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(socket.file(), reinterpret_cast<sockaddr*>(&bound), &length);
  endpoint.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                    : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return socket;
}

Result<void> receive_exactly(int socket, std::span<std::byte> into, TimePoint deadline) {
  while (!into.empty()) {
    const auto got = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return fail(ErrorCode::kUnreachable, "the peer closed the connection during the handshake");
    } else if (errno == EAGAIN) {
      if (auto ready = wait_for(socket, POLLIN, deadline); !ready) return ready;
    } else if (errno != EINTR) {
      return failed("lost the connection during the handshake", errno, ErrorCode::kUnreachable);
    }
  }
  return {};
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Socket::~Socket() {
  if (file_ >= 0) ::close(file_);
}

Result<Socket> listen_on(Endpoint& endpoint) {
  return endpoint.kind == Endpoint::Kind::kUnix ? listen_unix(endpoint) : listen_tcp(endpoint);
}

Result<Socket> connect_to(const Endpoint& endpoint, TimePoint deadline) {
  if (endpoint.kind == Endpoint::Kind::kUnix) {
    const auto address = unix_address(endpoint);
    return connect_address(endpoint, reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline);
  }
  auto addresses = resolve(endpoint, false);
  if (!addresses) return Failure(addresses.error());
  Result<Socket> socket = fail(ErrorCode::kUnreachable, "no address for " + to_text(endpoint));
  for (const auto* address = addresses->get(); address != nullptr && !socket; address = address->ai_next) {
    socket = connect_address(endpoint, address->ai_addr, address->ai_addrlen, deadline);
  }
  return socket;
}

Result<std::pair<Socket, Socket>> socket_pair() {
  int files[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, files) != 0) {
    return failed("socketpair", errno);
  }
  return std::pair(Socket(files[0]), Socket(files[1]));
}

void tune(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  int domain = 0;
  socklen_t length = sizeof domain;
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length);
  if (domain != AF_UNIX) {                                            // TCP tunes its own buffers
    const int patience = 30000, idle = 15, interval = 5, probes = 3;  // milliseconds; seconds
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
    ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    return;
  }
  const int size = 1 << 20;
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0) {
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
}

std::optional<wire::Identity> peer_identity(int socket) {
  int domain = 0;
  socklen_t length = sizeof domain;
  if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 || domain != AF_UNIX) return std::nullopt;
  ucred credentials{};
  length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  wire::Identity identity{.uid = credentials.uid, .gid = credentials.gid};
  identity.groups.resize(1024);
  length = static_cast<socklen_t>(identity.groups.size() * sizeof(std::uint32_t));
  const bool known = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, identity.groups.data(), &length) == 0;
  identity.groups.resize(known ? length / sizeof(std::uint32_t) : 0);
  return identity;
}

std::string peer_address(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 && credentials.pid > 0) {
    return fmt::format("process {}", credentials.pid);
  }
  sockaddr_storage address{};
  length = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  return fmt::format("{}:{}", host, port);
}

Result<void> send_frame(int socket, std::span<const std::byte> frame, TimePoint deadline) {
  while (!frame.empty()) {
    const auto sent = ::send(socket, frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      frame = frame.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (auto ready = wait_for(socket, POLLOUT, deadline); !ready) return ready;
    } else if (errno != EINTR) {
      return failed("lost the connection during the handshake", errno, ErrorCode::kUnreachable);
    }
  }
  return {};
}

Result<Frame> receive_frame(int socket, TimePoint deadline) {
  wire::HeaderBytes bytes;
  if (auto got = receive_exactly(socket, bytes, deadline); !got) return Failure(got.error());
  auto header = wire::decode_header(bytes);
  if (!header) return Failure(header.error());
  if (header->body_length > kMaxHandshakeBody || header->payload_length > 0) {
    return fail(ErrorCode::kProtocol, "a message of the handshake is too large");
  }
  Frame frame{*header, std::vector<std::byte>(header->body_length)};
  if (auto got = receive_exactly(socket, frame.body, deadline); !got) return Failure(got.error());
  if (auto fine = wire::check_body(*header, frame.body); !fine) return Failure(fine.error());
  return frame;
}

}  // namespace tutti::net
