// SPDX-License-Identifier: Apache-2.0
#include "gate/sockets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

namespace tutti::gate {
namespace {

Failure system_error(ErrorCode code, const std::string& what, int error = errno) {
  return fail(code, fmt::format("{}: {}", what, std::strerror(error)), error);
}

using AddressInfo = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressInfo> look_up(const Address& address, bool to_listen) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0)
    return fail(ErrorCode::kUnreachable, fmt::format("cannot look up '{}': {}", address.host, gai_strerror(error)));
  return AddressInfo(found, &freeaddrinfo);
}

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return fail(ErrorCode::kInvalid,
                fmt::format("socket path '{}' is longer than {} bytes", path, sizeof(address.sun_path) - 1));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

struct Endpoint {
  const sockaddr* address;
  socklen_t length;
};

// Connects within the time, or says errno.
int connect_within(int fd, Endpoint to, Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  int error = connect(fd, to.address, to.length) == 0 ? 0 : errno;
  // A Unix socket whose backlog is full, as when thousands of jobs start at once, says so and is to be tried again.
  while (error == EAGAIN && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    error = connect(fd, to.address, to.length) == 0 ? 0 : errno;
  }
  if (error == EINPROGRESS) {
    pollfd wait{fd, POLLOUT, 0};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(std::max(timeout, Duration::zero())).count();
    const int ready = poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(milliseconds, 3'600'000)));
    socklen_t size = sizeof(error);
    if (ready <= 0)
      error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
  }
  fcntl(fd, F_SETFL, flags);
  return error;
}

Result<Fd> connected(Fd fd, Endpoint to, const Address& address, Duration timeout) {
  const int error = connect_within(fd.get(), to, timeout);
  if (error == 0) return fd;
  const bool late = error == ETIMEDOUT || error == EAGAIN;
  return system_error(late ? ErrorCode::kTimeout : ErrorCode::kUnreachable,
                      fmt::format("cannot reach the gate at {}", address.text()), error);
}

Result<Fd> listening(Fd fd, Endpoint at, const Address& address) {
  if (bind(fd.get(), at.address, at.length) != 0 || listen(fd.get(), 4096) != 0)
    return system_error(ErrorCode::kIo, fmt::format("cannot listen on {}", address.text()));
  return fd;
}

Result<Fd> listen_unix(const Address& address) {
  const auto at = unix_address(address.path);
  if (!at) return Failure(at.error());
  const auto* plain = reinterpret_cast<const sockaddr*>(&*at);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(ErrorCode::kIo, "socket");
  Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), plain, sizeof(*at)) != 0 && errno == ECONNREFUSED) unlink(address.path.c_str());
  return listening(std::move(fd), {plain, sizeof(*at)}, address);
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Result<Address> Address::parse(std::string_view text) {
  if (text.find('/') != std::string_view::npos) return Address{.path = std::string(text), .host = {}, .port = 0};
  const std::size_t colon = text.rfind(':');
  Address address;
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  address.host = std::string(host);
  const std::string_view port = text.substr(colon == std::string_view::npos ? text.size() : colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (address.host.empty() || port.empty() || error != std::errc{} || end != port.data() + port.size())
    return fail(ErrorCode::kInvalid,
                fmt::format("'{}' is not the address of a gate: write a socket path ('/run/tutti/gate.sock') or "
                            "'HOST:PORT'",
                            text));
  return address;
}

std::string Address::text() const {
  if (!path.empty()) return path;
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::string default_gate_address() {
  const char* set = std::getenv("TUTTI_GATE");
  return set && *set ? set : fmt::format("/tmp/tutti-gate-{}.sock", getuid());
}

Result<Fd> listen_on(const Address& address) {
  if (!address.path.empty()) return listen_unix(address);
  const auto found = look_up(address, true);
  if (!found) return Failure(found.error());
  Fd fd(socket((*found)->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error(ErrorCode::kIo, "socket");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  return listening(std::move(fd), {(*found)->ai_addr, (*found)->ai_addrlen}, address);
}

std::uint16_t local_port(const Fd& fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

Result<Fd> connect_to(const Address& address, Duration timeout) {
  if (!address.path.empty()) {
    const auto to = unix_address(address.path);
    if (!to) return Failure(to.error());
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return system_error(ErrorCode::kIo, "socket");
    return connected(std::move(fd), {reinterpret_cast<const sockaddr*>(&*to), sizeof(*to)}, address, timeout);
  }
  const auto found = look_up(address, false);
  if (!found) return Failure(found.error());
  Fd fd(socket((*found)->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(ErrorCode::kIo, "socket");
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return connected(std::move(fd), {(*found)->ai_addr, (*found)->ai_addrlen}, address, timeout);
}

void set_timeouts(const Fd& fd, Duration timeout) {
  // Zero would mean forever.
  const auto whole = std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::microseconds>(timeout).count());
  const timeval value{.tv_sec = whole / 1'000'000, .tv_usec = whole % 1'000'000};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &value, sizeof(value));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value));
}

}  // namespace tutti::gate
