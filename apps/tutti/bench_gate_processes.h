// SPDX-License-Identifier: Apache-2.0
// Processes and jobs of `tutti bench gate`. Included by bench_gate.cc only. Not thread-safe.
#pragma once

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <thread>

#include "gate/live_address.h"
#include "gate/live_client.h"
#include "gate/live_server.h"
#include "net/handshake.h"
#include "net/socket.h"

namespace tutti::cli {

inline constexpr Duration kPatience = std::chrono::seconds(20);  // limit on every wait for another process

// Pins the thread to a processor. The placement changes round trips by a factor of several, so servers and client run
// on different processors during a measurement.
class Pinned {
 public:
  explicit Pinned(int processor) {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
  ~Pinned() { sched_setaffinity(0, sizeof(before_), &before_); }
  Pinned(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

inline int last_processor() {
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) - 1;
}

// A child process that ends with this process.
class ChildProcess {
 public:
  template <typename Body>
  explicit ChildProcess(Body body) {
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it was killed before the call
    body();
    _exit(0);
  }
  ~ChildProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;

  // Processor time used so far.
  double processor_seconds() const {
    std::ifstream file(fmt::format("/proc/{}/stat", process_));
    std::string word;
    for (int i = 0; i < 13; ++i) file >> word;
    double user = 0, system = 0;
    file >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  double resident_megabytes() const {
    std::ifstream file(fmt::format("/proc/{}/statm", process_));
    std::uint64_t total = 0, resident = 0;
    file >> total >> resident;
    return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
  }

 private:
  pid_t process_ = -1;
};

inline const net::ClusterKey kKey(32, std::byte{'k'});

// A gate in its own process.
struct GateProcess {
  GateProcess(const std::string& directory, bool tcp)
      : path(directory + "/gate.sock"), process([&] { serve(tcp); }), address(tcp ? read_port() : path) {}

  void serve(bool tcp) {
    const std::string state = path + ".state";
    auto marker = gate::RunMarker::open(state);
    if (!marker || !marker->set_idle()) return;  // there was no previous gate
    marker = fail(ErrorCode::kStopped, "closed");
    auto server = gate::GateServer::create({.table = {.targets = 64, .lease = std::chrono::seconds(60)},
                                            .addresses = {tcp ? "tcp:127.0.0.1:0" : path},
                                            .state_path = state,
                                            .key = kKey});
    if (!server) return;
    const std::uint16_t port = (*server)->port();
    (void)!write(ready.ends[1], &port, sizeof port);
    (void)(*server)->run();
  }
  std::string read_port() { return fmt::format("tcp:127.0.0.1:{}", ready.port()); }

  // Receives the child's port when the child listens.
  struct Ready {
    Ready() { (void)!pipe(ends); }
    ~Ready() { close(ends[0]), close(ends[1]); }
    std::uint16_t port() const {
      std::uint16_t number = 0;
      pollfd waiting{ends[0], POLLIN, 0};
      if (poll(&waiting, 1, 20'000) == 1) (void)!read(ends[0], &number, sizeof number);
      return number;
    }
    int ends[2] = {-1, -1};
  };

  Ready ready;
  std::string path;
  ChildProcess process;
  std::string address;
};

// An echo server for one connection, in its own process.
struct EchoProcess {
  EchoProcess(const std::string& directory, bool tcp)
      : address(*gate::parse_address(tcp ? "tcp:127.0.0.1:0" : directory + "/echo.sock")),
        listener(std::move(*net::listen_on(address))),
        process([this] { serve(); }) {}

  void serve() const {
    net::Socket socket;
    while (socket.file() < 0) {
      pollfd waiting{listener.file(), POLLIN, 0};
      poll(&waiting, 1, -1);
      socket = net::Socket(accept4(listener.file(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    std::array<std::byte, 4096> buffer;
    while (true) {
      const ssize_t count = recv(socket.file(), buffer.data(), buffer.size(), 0);
      if (count <= 0 || send(socket.file(), buffer.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) != count)
        return;
    }
  }

  net::Endpoint address;
  net::Socket listener;
  ChildProcess process;
};

// A job that uses the gate's protocol on a bare socket.
class BareJob {
 public:
  static Result<BareJob> connect(const net::Endpoint& address, std::uint64_t session) {
    const TimePoint deadline = net::steady_now() + kPatience;
    auto socket = net::connect_to(address, deadline);
    if (!socket) return Failure(socket.error());
    net::tune(socket->file());
    const net::ConnectOptions options{.job = fmt::format("job{}", session), .key = kKey};
    net::ClientHandshake handshake(options, net::peer_identity(socket->file()));
    auto frame = handshake.hello();
    while (frame && !frame->empty()) {
      if (auto sent = net::send_frame(socket->file(), *frame, deadline); !sent) return Failure(sent.error());
      auto answer = net::receive_frame(socket->file(), deadline);
      if (!answer) return Failure(answer.error());
      frame = handshake.receive(answer->header, answer->body);
    }
    if (!frame) return Failure(frame.error());
    BareJob job(std::move(*socket));
    job.post(wire::GateOpenRequest{.session = session, .process = 1});
    return job;
  }

  int file() const { return socket_.file(); }
  // Sends several messages with one system call.
  template <typename Message>
  void post(const Message& message) {
    const auto frame = wire::encode(message, {.tag = ++tag_});
    out_.insert(out_.end(), frame.begin(), frame.end());
  }
  void ask(TargetId target) {
    post(wire::GateAskRequest{.ticket = ++ticket_, .bytes = 1, .targets = {{target, target}}});
  }
  // The gate answers at once, although the job may wait for its turn.
  void renew() { post(wire::GateRenewRequest{ticket_}); }
  void release() { post(wire::GateRelease{ticket_}); }
  void send_all() {
    (void)send(file(), out_.data(), out_.size(), MSG_NOSIGNAL);
    out_.clear();
  }
  // The states of the requests that were answered since the last call. Replies are small: one receive gets all of them.
  template <typename Action>
  void receive(Action action, int flags = MSG_DONTWAIT) {
    std::array<std::byte, 4096> buffer;
    const ssize_t count = recv(file(), buffer.data(), buffer.size(), flags);
    std::span<const std::byte> rest(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    while (rest.size() >= wire::kHeaderSize) {
      const auto header = wire::decode_header(rest.first<wire::kHeaderSize>());
      if (!header || rest.size() < wire::kHeaderSize + header->body_length) return;
      const auto body = rest.subspan(wire::kHeaderSize, header->body_length);
      rest = rest.subspan(wire::kHeaderSize + header->body_length);
      const auto state = state_in(*header, body);
      if (state) action(*state);
    }
  }
  // Waits for it.
  void hear(wire::GateState wanted) {
    const int flags = fcntl(file(), F_GETFL);
    fcntl(file(), F_SETFL, flags & ~O_NONBLOCK);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(file(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (bool heard = false; !heard;) {
      bool any = false;
      receive(
          [&](wire::GateState state) {
            any = true;
            heard = heard || state == wanted;
          },
          0);
      if (!any && ++silent_ > 1000) return;
    }
  }

 private:
  explicit BareJob(net::Socket socket) : socket_(std::move(socket)) {}

  static std::optional<wire::GateState> state_in(const wire::Header& header, std::span<const std::byte> body) {
    if (header.type == wire::Type::kGateRenew) {
      const auto reply = wire::decode<wire::GateRenewRequest::Reply>(header, body);
      return reply && reply->head.status == wire::kOk ? std::optional(reply->state) : std::nullopt;
    }
    if (header.type != wire::Type::kGateAsk) return std::nullopt;
    const auto reply = wire::decode<wire::GateAskRequest::Reply>(header, body);
    return reply && reply->head.status == wire::kOk ? std::optional(reply->state) : std::nullopt;
  }

  net::Socket socket_;
  std::vector<std::byte> out_;
  std::uint64_t tag_ = 0;
  gate::Ticket ticket_ = 0;
  int silent_ = 0;
};

}  // namespace tutti::cli
