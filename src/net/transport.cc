// SPDX-License-Identifier: Apache-2.0
#include "net/transport.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "net/event_loop.h"
#include "net/handshake.h"
#include "net/munge.h"
#include "net/socket.h"
#include "net/stream_connection.h"

namespace tutti::net {
namespace {

constexpr Duration kAcceptRetry = std::chrono::milliseconds(100);

using Loops = std::vector<std::shared_ptr<EventLoop>>;

// Makes connections of accepted sockets and distributes them over the loops. Thread-safe.
class Acceptor {
 public:
  Acceptor(Loops loops, std::shared_ptr<ListenerState> state) : loops_(std::move(loops)), state_(std::move(state)) {}

  void take(Socket socket) {
    tune(socket.file());
    Lock lock(mutex_);
    if (closed_) return;
    auto known = peer_identity(socket.file());
    const auto user = known ? std::optional(known->uid) : std::nullopt;
    auto address = peer_address(socket.file());
    if (!state_->has_room(user)) return refuse(socket, address, "the node has too many connections");
    if (!state_->add_user(user)) {
      const std::string whose = user ? "user " + std::to_string(*user) : "clients that are not authenticated yet";
      return refuse(socket, address, "too many connections of " + whose);
    }
    const auto& loop = loops_[next_++ % loops_.size()];
    StreamConnection::accepted(loop, socket.release(), state_, std::move(address), std::move(known))->start();
  }

  // When it returns, no more sockets are accepted, and closed() was called for all connections.
  void close() {
    std::map<StreamConnection*, std::weak_ptr<StreamConnection>> open;
    {
      Lock lock(mutex_);
      closed_ = true;
      Lock state(state_->mutex);
      open = state_->open;
    }
    for (const auto& [key, weak] : open) {
      if (auto connection = weak.lock()) connection->close({ErrorCode::kStopped, "the node stopped listening"});
    }
    Lock lock(state_->mutex);
    state_->all_closed.wait(lock, [&]() TUTTI_REQUIRES(state_->mutex) { return state_->open.empty(); });
  }

 private:
  // The client is told why if its socket takes the message at once; it has not sent anything yet.
  void refuse(const Socket& socket, const std::string& address, const std::string& why) {
    const wire::ReplyHead head{.status = EAGAIN, .message = why, .timing = {}, .now = {}};
    const auto frame = wire::encode_failure(wire::Type::kWelcome, 0, head);
    (void)::send(socket.file(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (state_->options.refused) state_->options.refused(address, {ErrorCode::kFull, why});
  }

  const Loops loops_;
  const std::shared_ptr<ListenerState> state_;
  Mutex mutex_;
  bool closed_ TUTTI_GUARDED_BY(mutex_) = false;
  std::size_t next_ TUTTI_GUARDED_BY(mutex_) = 0;
};

// A socket in listen(2).
class ListeningSocket final : public EventSource {
 public:
  ListeningSocket(Socket socket, std::shared_ptr<Acceptor> acceptor, std::shared_ptr<EventLoop> loop)
      : socket_(std::move(socket)), acceptor_(std::move(acceptor)), loop_(std::move(loop)) {}

  int file() const { return socket_.file(); }

  // Clients that connect faster than this loop accepts must not keep it from its connections: epoll reports again.
  void ready(std::uint32_t) override {
    constexpr int kAtOnce = 16;
    for (int i = 0; i < kAtOnce; ++i) {
      Socket socket(::accept4(socket_.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.file() >= 0) {
        acceptor_->take(std::move(socket));
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      loop_->modify(socket_.file(), 0, this);  // e.g. no descriptors or memory left: try again later
      loop_->wake_at(steady_now() + kAcceptRetry);
      return;
    }
  }

  TimePoint tick(TimePoint) override {
    loop_->modify(socket_.file(), EPOLLIN, this);
    return TimePoint::max();
  }

 private:
  Socket socket_;
  std::shared_ptr<Acceptor> acceptor_;
  std::shared_ptr<EventLoop> loop_;
};

// Listeners inside this process, by name. Thread-safe.
class LocalNames {
 public:
  static LocalNames& instance() {
    static LocalNames names;
    return names;
  }
  bool add(const std::string& name, std::shared_ptr<Acceptor> acceptor) {
    Lock lock(mutex_);
    return names_.emplace(name, std::move(acceptor)).second;
  }
  void remove(const std::string& name) {
    Lock lock(mutex_);
    names_.erase(name);
  }
  std::shared_ptr<Acceptor> find(const std::string& name) {
    Lock lock(mutex_);
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : found->second;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Acceptor>> names_ TUTTI_GUARDED_BY(mutex_);
};

class StreamListener final : public Listener {
 public:
  StreamListener(Endpoint endpoint, std::shared_ptr<ListenerState> state, std::shared_ptr<Acceptor> acceptor,
                 std::shared_ptr<ListeningSocket> listening_socket, std::shared_ptr<EventLoop> loop)
      : endpoint_(std::move(endpoint)),
        state_(std::move(state)),
        acceptor_(std::move(acceptor)),
        listening_socket_(std::move(listening_socket)),
        loop_(std::move(loop)) {}

  ~StreamListener() override {
    if (listening_socket_) {
      loop_->post([loop = loop_.get(), listening_socket = listening_socket_] {
        loop->remove(listening_socket->file(), listening_socket.get());
      });
      ::shutdown(listening_socket_->file(), SHUT_RDWR);
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
  const std::shared_ptr<ListeningSocket> listening_socket_;  // nullptr for endpoints inside this process
  const std::shared_ptr<EventLoop> loop_;
};

// Lets a transport be destroyed while threads still try to connect: their results are dropped then. Thread-safe.
class ConnectAttempts {
 public:
  // end() blocks while the returned object exists. Empty if end() was called already.
  std::shared_ptr<void> begin_delivery() {
    Lock lock(mutex_);
    if (ended_) return nullptr;
    ++delivering_;
    return {this, [](ConnectAttempts* self) {
              Lock guard(self->mutex_);
              --self->delivering_;
              self->delivered_.notify_all();
            }};
  }
  void end() {
    Lock lock(mutex_);
    ended_ = true;
    delivered_.wait(lock, [&]() TUTTI_REQUIRES(mutex_) { return delivering_ == 0; });
  }

 private:
  Mutex mutex_;
  std::condition_variable delivered_;
  std::size_t delivering_ TUTTI_GUARDED_BY(mutex_) = 0;
  bool ended_ TUTTI_GUARDED_BY(mutex_) = false;
};

// A function that makes connections retry that wait for memory.
std::function<void()> retry_on(const Loops& loops) {
  return [weak = std::vector<std::weak_ptr<EventLoop>>(loops.begin(), loops.end())] {
    for (const auto& each : weak)
      if (auto loop = each.lock()) loop->post([raw = loop.get()] { raw->retry_all(); });
  };
}

class StreamTransport final : public Transport {
 public:
  explicit StreamTransport(Loops loops) : loops_(std::move(loops)) {}

  ~StreamTransport() override {
    attempts_->end();
    for (const auto& loop : loops_) loop->stop();
  }

  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint, ListenOptions options, Handler& handler) override;
  void connect(const Endpoint& endpoint, ConnectOptions options, Handler& handler, Connected done) override;

 private:
  static Result<ConnectionPointer> connect_now(const Endpoint& endpoint, const ConnectOptions& options,
                                               Handler& handler, const std::shared_ptr<EventLoop>& loop);
  std::shared_ptr<ListenerState> listener_state(ListenOptions options, Handler& handler);

  const Loops loops_;
  std::atomic<std::size_t> next_{0};
  const std::shared_ptr<ConnectAttempts> attempts_ = std::make_shared<ConnectAttempts>();
};

std::shared_ptr<ListenerState> StreamTransport::listener_state(ListenOptions options, Handler& handler) {
  auto state = std::make_shared<ListenerState>();
  state->options = std::move(options);
  state->handler = &handler;
  if (!state->options.pool) state->options.pool = BufferPool::create(Bytes(std::uint64_t{256} << 20));
  if (!state->options.now) state->options.now = steady_now;
  state->retry = retry_on(loops_);
  state->options.pool->when_released(state->retry);
  state->small_before_owed = BufferPool::create(Bytes(wire::kMaxPayload));
  state->small_before_owed->when_released(state->retry);
  if (state->options.pulled_pool) state->options.pulled_pool->when_released(state->retry);
  return state;
}

Result<std::unique_ptr<Listener>> StreamTransport::listen(const Endpoint& endpoint, ListenOptions options,
                                                          Handler& handler) {
  if (endpoint.kind == Endpoint::Kind::kTcp && !options.key && !options.munge) {
    return fail(ErrorCode::kInvalid, fmt::format("{}: a TCP endpoint needs a cluster key or MUNGE", to_text(endpoint)));
  }
  if (options.munge && !options.credentials && !munge_available())
    return fail(ErrorCode::kInvalid, "built without MUNGE (install libmunge-dev and build again)");
  auto state = listener_state(std::move(options), handler);
  auto acceptor = std::make_shared<Acceptor>(loops_, state);
  Endpoint bound = endpoint;
  std::shared_ptr<ListeningSocket> listening_socket;
  const auto& loop = loops_.front();
  if (endpoint.kind == Endpoint::Kind::kLocal) {
    if (!LocalNames::instance().add(endpoint.name, acceptor)) {
      return fail(ErrorCode::kIo, fmt::format("cannot listen on {}: the name is in use", to_text(endpoint)),
                  EADDRINUSE);
    }
  } else {
    auto socket = listen_on(bound);
    if (!socket) return Failure(socket.error());
    listening_socket = std::make_shared<ListeningSocket>(std::move(*socket), acceptor, loop);
    loop->post([raw = loop.get(), listening_socket] { raw->add(listening_socket->file(), EPOLLIN, listening_socket); });
  }
  return std::make_unique<StreamListener>(bound, state, acceptor, listening_socket, loop);
}

Result<Socket> open_socket(const Endpoint& endpoint, TimePoint deadline) {
  if (endpoint.kind != Endpoint::Kind::kLocal) return connect_to(endpoint, deadline);
  auto acceptor = LocalNames::instance().find(endpoint.name);
  if (!acceptor) {
    return fail(ErrorCode::kUnreachable, fmt::format("no node listens on {} in this process", to_text(endpoint)));
  }
  auto pair = socket_pair();
  if (!pair) return Failure(pair.error());
  acceptor->take(std::move(pair->second));
  return std::move(pair->first);
}

// Runs on its own thread, because resolving names and making credentials block.
Result<ConnectionPointer> StreamTransport::connect_now(const Endpoint& endpoint, const ConnectOptions& options,
                                                       Handler& handler, const std::shared_ptr<EventLoop>& loop) {
  const auto deadline = steady_now() + options.timeout;
  auto socket = open_socket(endpoint, deadline);
  if (!socket) return Failure(socket.error());
  tune(socket->file());
  ClientHandshake handshake(options, peer_identity(socket->file()));
  auto frame = handshake.hello();
  while (frame && !frame->empty()) {
    if (auto sent = send_frame(socket->file(), *frame, deadline); !sent) return Failure(sent.error());
    auto answer = receive_frame(socket->file(), deadline);
    if (!answer) return Failure(answer.error());
    frame = handshake.receive(answer->header, answer->body);
  }
  if (!frame) return Failure(frame.error());
  StreamConnection::Established established{
      .watch = options.watch,
      .welcome = std::make_unique<const wire::Welcome>(handshake.welcome()),
      .peer = {.job = handshake.welcome().node, .address = to_text(endpoint)},
      .pool = options.pool ? options.pool : BufferPool::create(Bytes(std::uint64_t{64} << 20))};
  established.pool->when_released(retry_on({loop}));
  return StreamConnection::connected(loop, socket->release(), handler, std::move(established));
}

void StreamTransport::connect(const Endpoint& endpoint, ConnectOptions options, Handler& handler, Connected done) {
  const auto& loop = loops_[next_++ % loops_.size()];
  auto attempt = [=, &handler, attempts = attempts_, options = std::move(options)] {
    auto connection = connect_now(endpoint, options, handler, loop);
    const auto delivering = attempts->begin_delivery();
    if (!delivering) return;
    if (connection) static_cast<StreamConnection&>(**connection).start();
    done(std::move(connection));
  };
  try {
    std::thread(std::move(attempt)).detach();
  } catch (const std::system_error& error) {  // no threads left
    done(fail(ErrorCode::kUnreachable, fmt::format("cannot connect to {}: {}", to_text(endpoint), error.what())));
  }
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

Result<ConnectionPointer> connect_and_wait(Transport& transport, const Endpoint& endpoint, ConnectOptions options,
                                           Handler& handler) {
  std::promise<Result<ConnectionPointer>> promise;
  transport.connect(endpoint, std::move(options), handler,
                    [&](Result<ConnectionPointer> connection) { promise.set_value(std::move(connection)); });
  return promise.get_future().get();
}

}  // namespace tutti::net
