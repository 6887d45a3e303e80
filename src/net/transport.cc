// SPDX-License-Identifier: Apache-2.0
#include "net/transport.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "net/event_loop.h"
#include "net/handshake.h"
#include "net/munge.h"
#include "net/socket.h"
#include "net/stream_connection.h"

namespace tutti::net {
namespace {

using Loops = std::vector<std::shared_ptr<EventLoop>>;

// Gives every new socket to the next loop.
class Acceptor {
 public:
  Acceptor(Loops loops, std::shared_ptr<ListenerState> state) : loops_(std::move(loops)), state_(std::move(state)) {}

  void take(Socket socket) {
    tune(socket.file());
    std::lock_guard lock(mutex_);
    if (closed_) return;
    {
      std::lock_guard open(state_->mutex);
      if (state_->open.size() >= state_->options.max_connections) return;  // hangs up
    }
    auto known = peer_identity(socket.file());
    auto address = peer_address(socket.file());
    const auto& loop = loops_[next_++ % loops_.size()];
    StreamConnection::accepted(loop, socket.release(), state_, std::move(address), std::move(known))->start();
  }

  // Nothing is taken any more, all connections are closed, and the handler has been told.
  void close() {
    std::map<StreamConnection*, std::weak_ptr<StreamConnection>> open;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      std::lock_guard state(state_->mutex);
      open = state_->open;
    }
    for (const auto& [key, weak] : open) {
      if (auto connection = weak.lock()) connection->close({ErrorCode::kStopped, "the node stopped listening"});
    }
    std::unique_lock lock(state_->mutex);
    state_->all_closed.wait(lock, [&] { return state_->open.empty(); });
  }

 private:
  const Loops loops_;
  const std::shared_ptr<ListenerState> state_;
  std::mutex mutex_;
  bool closed_ = false;
  std::size_t next_ = 0;
};

// The listening socket as a source of events.
class Entrance final : public Source {
 public:
  Entrance(Socket socket, std::shared_ptr<Acceptor> acceptor, std::shared_ptr<EventLoop> loop)
      : socket_(std::move(socket)), acceptor_(std::move(acceptor)), loop_(std::move(loop)) {}

  int file() const { return socket_.file(); }

  void ready(std::uint32_t) override {
    for (;;) {
      Socket socket(::accept4(socket_.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.file() >= 0) {
        acceptor_->take(std::move(socket));
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        loop_->modify(socket_.file(), 0, this);  // no descriptors left: look again at the next tick
      }
      return;
    }
  }

  void tick(TimePoint) override { loop_->modify(socket_.file(), EPOLLIN, this); }

 private:
  Socket socket_;
  std::shared_ptr<Acceptor> acceptor_;
  std::shared_ptr<EventLoop> loop_;
};

// Names of endpoints inside this process.
class LocalNames {
 public:
  static LocalNames& instance() {
    static LocalNames names;
    return names;
  }
  bool add(const std::string& name, std::shared_ptr<Acceptor> acceptor) {
    std::lock_guard lock(mutex_);
    return names_.emplace(name, std::move(acceptor)).second;
  }
  void remove(const std::string& name) {
    std::lock_guard lock(mutex_);
    names_.erase(name);
  }
  std::shared_ptr<Acceptor> find(const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Acceptor>> names_;
};

class StreamListener final : public Listener {
 public:
  StreamListener(Endpoint endpoint, std::shared_ptr<ListenerState> state, std::shared_ptr<Acceptor> acceptor,
                 std::shared_ptr<Entrance> entrance, std::shared_ptr<EventLoop> loop)
      : endpoint_(std::move(endpoint)),
        state_(std::move(state)),
        acceptor_(std::move(acceptor)),
        entrance_(std::move(entrance)),
        loop_(std::move(loop)) {}

  ~StreamListener() override {
    if (entrance_) {
      loop_->post([loop = loop_.get(), entrance = entrance_] { loop->remove(entrance->file(), entrance.get()); });
      ::shutdown(entrance_->file(), SHUT_RDWR);
      if (endpoint_.kind == Endpoint::Kind::kUnix) ::unlink(endpoint_.name.c_str());
    } else {
      LocalNames::instance().remove(endpoint_.name);
    }
    acceptor_->close();
  }

  const Endpoint& endpoint() const override { return endpoint_; }
  std::size_t connections() const override { return state_->connections; }

  bool wait_until_sent(Duration patience) override {
    const TimePoint until = steady_now() + patience;
    while (state_->has_unsent()) {
      if (steady_now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

 private:
  const Endpoint endpoint_;
  const std::shared_ptr<ListenerState> state_;
  const std::shared_ptr<Acceptor> acceptor_;
  const std::shared_ptr<Entrance> entrance_;  // none inside this process
  const std::shared_ptr<EventLoop> loop_;
};

class StreamTransport final : public Transport {
 public:
  explicit StreamTransport(Loops loops) : loops_(std::move(loops)) {}

  ~StreamTransport() override {
    for (const auto& loop : loops_) loop->stop();
  }

  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint, ListenOptions options, Handler& handler) override;
  Result<ConnectionPointer> connect(const Endpoint& endpoint, ConnectOptions options, Handler& handler) override;

 private:
  std::shared_ptr<ListenerState> listener_state(ListenOptions options, Handler& handler);

  const Loops loops_;
  std::atomic<std::size_t> next_{0};
};

std::shared_ptr<ListenerState> StreamTransport::listener_state(ListenOptions options, Handler& handler) {
  auto state = std::make_shared<ListenerState>();
  state->options = std::move(options);
  state->handler = &handler;
  if (!state->options.pool) state->options.pool = BufferPool::create(Bytes(std::uint64_t{256} << 20));
  if (!state->options.now) state->options.now = steady_now;
  std::vector<std::weak_ptr<EventLoop>> loops(loops_.begin(), loops_.end());
  state->retry = [loops] {
    for (const auto& weak : loops) {
      if (auto loop = weak.lock()) loop->post([raw = loop.get()] { raw->retry_all(); });
    }
  };
  state->options.pool->when_released(state->retry);
  return state;
}

Result<std::unique_ptr<Listener>> StreamTransport::listen(const Endpoint& endpoint, ListenOptions options,
                                                          Handler& handler) {
  if (endpoint.kind == Endpoint::Kind::kTcp && !options.key && !options.munge) {
    return fail(ErrorCode::kInvalid, fmt::format("{}: over TCP a cluster key or MUNGE is needed", to_text(endpoint)));
  }
  if (options.munge && !munge_available()) return fail(ErrorCode::kInvalid, "this build has no MUNGE");
  auto state = listener_state(std::move(options), handler);
  auto acceptor = std::make_shared<Acceptor>(loops_, state);
  Endpoint bound = endpoint;
  std::shared_ptr<Entrance> entrance;
  const auto& loop = loops_.front();
  if (endpoint.kind == Endpoint::Kind::kLocal) {
    if (!LocalNames::instance().add(endpoint.name, acceptor)) {
      return fail(ErrorCode::kIo, fmt::format("cannot listen on {}: the name is in use", to_text(endpoint)),
                  EADDRINUSE);
    }
  } else {
    auto socket = listen_on(bound);
    if (!socket) return Failure(socket.error());
    entrance = std::make_shared<Entrance>(std::move(*socket), acceptor, loop);
    loop->post([raw = loop.get(), entrance] { raw->add(entrance->file(), EPOLLIN, entrance); });
  }
  return std::make_unique<StreamListener>(bound, state, acceptor, entrance, loop);
}

Result<Socket> open_socket(const Endpoint& endpoint, TimePoint deadline) {
  if (endpoint.kind != Endpoint::Kind::kLocal) return connect_to(endpoint, deadline);
  auto acceptor = LocalNames::instance().find(endpoint.name);
  if (!acceptor) {
    return fail(ErrorCode::kUnreachable, fmt::format("nobody listens on {} in this process", to_text(endpoint)));
  }
  auto pair = socket_pair();
  if (!pair) return Failure(pair.error());
  acceptor->take(std::move(pair->second));
  return std::move(pair->first);
}

Result<ConnectionPointer> StreamTransport::connect(const Endpoint& endpoint, ConnectOptions options, Handler& handler) {
  const auto deadline = steady_now() + options.timeout;
  auto socket = open_socket(endpoint, deadline);
  if (!socket) return Failure(socket.error());
  tune(socket->file());
  ClientHandshake handshake(options);
  auto frame = handshake.hello();
  while (!frame.empty()) {
    if (auto sent = send_frame(socket->file(), frame, deadline); !sent) return Failure(sent.error());
    auto answer = receive_frame(socket->file(), deadline);
    if (!answer) return Failure(answer.error());
    auto next = handshake.receive(answer->header, answer->body);
    if (!next) return Failure(next.error());
    frame = std::move(*next);
  }
  StreamConnection::Established established{
      .welcome = handshake.welcome(),
      .welcomed = steady_now(),
      .peer = {.job = handshake.welcome().node, .address = to_text(endpoint)},
      .pool = options.pool ? options.pool : BufferPool::create(Bytes(std::uint64_t{64} << 20))};
  auto connection =
      StreamConnection::connected(loops_[next_++ % loops_.size()], socket->release(), handler, std::move(established));
  connection->start();
  return connection;
}

}  // namespace

Result<std::unique_ptr<Transport>> Transport::create(const TransportOptions& options) {
  Loops loops;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, options.threads); ++i) {
    auto loop = EventLoop::create();
    if (!loop) return Failure(loop.error());
    loops.push_back(std::move(*loop));
  }
  return std::make_unique<StreamTransport>(std::move(loops));
}

}  // namespace tutti::net
