// SPDX-License-Identifier: Apache-2.0
#include "gate/server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <unordered_map>

#include "gate/messages.h"
#include "gate/run_marker.h"
#include "gate/sockets.h"
#include "gate/status.h"

namespace tutti::gate {
namespace {

constexpr std::size_t kMaxPendingOutput = 1 << 20;
constexpr Duration kHelloTimeout = std::chrono::seconds(10);  // whoever says nothing so long may be thrown out

struct Connection {
  Fd fd;
  std::vector<std::byte> in;   // the beginning of a message
  std::vector<std::byte> out;  // not sent yet
  std::size_t sent = 0;        // of `out`
  std::optional<SessionId> session;
  std::uint32_t process = 0;
  std::optional<uid_t> user;  // whose process it is, where the kernel tells
  std::string job;
  TimePoint opened{};
  std::size_t refusals = 0;
  bool closed = false;
  bool unsent = false;       // listed in unsent_
  bool wants_write = false;  // epoll tells when it can be written
};

constexpr std::uint32_t kEnded = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

std::uint32_t events_of(const Connection& connection) {
  return EPOLLIN | EPOLLRDHUP | EPOLLET | (connection.wants_write ? EPOLLOUT : 0u);
}

std::uint64_t random_number() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

// At the other end of a Unix socket the kernel knows better than the peer's own word who it is.
void identify(Connection& connection) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(connection.fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return;
  if (address.ss_family != AF_UNIX) return;
  ucred peer{};
  length = sizeof(peer);
  if (getsockopt(connection.fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return;
  connection.user = peer.uid;
  if (peer.pid > 0) connection.process = static_cast<std::uint32_t>(peer.pid);
}

// As many files as the system lets us open; says how many.
std::size_t raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

class EpollServer final : public Server {
 public:
  EpollServer(Options options, LockTable table, std::optional<RunMarker> marker)
      : options_(std::move(options)), table_(std::move(table)), marker_(std::move(marker)) {}
  ~EpollServer() override {
    for (const Address& address : addresses_)
      if (!address.path.empty()) unlink(address.path.c_str());
  }

  Result<void> open();
  Result<void> run() override;
  void stop() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof(one));
  }
  std::uint16_t port() const override { return port_; }
  bool recovering() const override { return table_.recovering(); }

  // Wall clock at the start, steady from then on: a jump of the wall clock must not end a lease.
  TimePoint now() const { return started_ + (std::chrono::steady_clock::now() - started_steady_); }

 private:
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  bool watch(int fd, void* what, std::uint32_t events, int operation = EPOLL_CTL_ADD) {
    epoll_event event{.events = events, .data = {.ptr = what}};
    return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }
  void serve(const epoll_event& event);
  int wait_milliseconds() const;
  void accept_all(const Fd& listener);
  void admit(Fd fd);
  bool make_room();
  void receive(Connection& connection, bool ended);
  void take(Connection& connection, std::span<const std::byte> fresh);
  std::size_t take_messages(Connection& connection, std::span<const std::byte> bytes);
  void handle(Connection& connection, const Message& message);
  void hello(Connection& connection, const Hello& hello);
  void request(Connection& connection, const RequestMessage& request, const ReassertMessage* reassert);
  void send_status(Connection& connection);
  void deliver();
  void post(const Answer& answer);
  void send(Connection& connection, const Message& message);
  void flush_all();
  void flush(Connection& connection);
  void refuse_and_close(Connection& connection, Refusal refusal, const std::string& why);
  void close(Connection& connection);
  void finish();

  Options options_;
  LockTable table_;
  std::optional<RunMarker> marker_;
  std::vector<Address> addresses_;
  std::vector<Fd> listeners_;
  Fd epoll_, wakeup_;
  std::uint16_t port_ = 0;
  const TimePoint started_ = std::chrono::system_clock::now();
  const std::chrono::steady_clock::time_point started_steady_ = std::chrono::steady_clock::now();
  const std::uint64_t incarnation_ = random_number();
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
  std::unordered_map<SessionId, Connection*> sessions_;
  std::vector<Connection*> unsent_;
  std::vector<std::unique_ptr<Connection>> graveyard_;  // closed while events may still name them
  std::array<std::byte, 65536> buffer_;
  bool accepting_ = true;
  bool stopping_ = false;
};

Result<void> EpollServer::open() {
  options_.max_connections = std::min(options_.max_connections, raise_file_limit() - 64);
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  wakeup_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wakeup_ || !watch(wakeup_.get(), &wakeup_, EPOLLIN))
    return fail(ErrorCode::kIo, fmt::format("cannot set up epoll: {}", std::strerror(errno)), errno);
  listeners_.reserve(options_.addresses.size());
  for (const std::string& text : options_.addresses) {
    auto address = Address::parse(text);
    if (!address) return Failure(address.error());
    auto listener = listen_on(*address);
    if (!listener) return Failure(listener.error());
    if (!address->path.empty()) chmod(address->path.c_str(), options_.socket_mode);
    if (port_ == 0) port_ = local_port(*listener);
    addresses_.push_back(std::move(*address));
    listeners_.push_back(std::move(*listener));
    if (!watch(listeners_.back().get(), &listeners_.back(), EPOLLIN))
      return fail(ErrorCode::kIo, fmt::format("epoll: {}", std::strerror(errno)), errno);
  }
  if (marker_) return marker_->set_running(options_.table.lease);
  return {};
}

Result<void> EpollServer::run() {
  std::array<epoll_event, 256> events;
  while (!stopping_) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_milliseconds());
    if (count < 0 && errno != EINTR) return fail(ErrorCode::kIo, fmt::format("epoll: {}", std::strerror(errno)), errno);
    for (int i = 0; i < count; ++i) serve(events[static_cast<std::size_t>(i)]);
    deliver();
    // What has arrived is heard before the clock: a renewal that was sent in time must not lose to our own delay.
    if (count < static_cast<int>(events.size())) {
      table_.advance(now());
      deliver();
    }
    graveyard_.clear();
  }
  finish();
  return {};
}

void EpollServer::serve(const epoll_event& event) {
  if (event.data.ptr == &wakeup_) {
    stopping_ = true;
    return;
  }
  for (const Fd& listener : listeners_)
    if (event.data.ptr == &listener) return accept_all(listener);
  auto& connection = *static_cast<Connection*>(event.data.ptr);
  if (connection.closed) return;
  if ((event.events & EPOLLOUT) != 0) flush(connection);
  if (!connection.closed && (event.events & (EPOLLIN | kEnded)) != 0) receive(connection, (event.events & kEnded) != 0);
}

int EpollServer::wait_milliseconds() const {
  const auto next = table_.next_deadline();
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

void EpollServer::accept_all(const Fd& listener) {
  while (true) {
    Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      admit(std::move(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE) {
      // Not asked again until somebody leaves; spinning on the listener would help nobody.
      log("out of file descriptors; no new connections until one closes");
      for (Fd& each : listeners_) watch(each.get(), &each, 0, EPOLL_CTL_MOD);
      accepting_ = false;
    }
    return;
  }
}

void EpollServer::admit(Fd fd) {
  if (connections_.size() >= options_.max_connections && !make_room()) {
    log(fmt::format("refused a connection: there are {} already", connections_.size()));
    return;
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // fails, harmlessly, on Unix sockets
  auto connection = std::make_unique<Connection>();
  connection->fd = std::move(fd);
  connection->opened = now();
  if (!watch(connection->fd.get(), connection.get(), events_of(*connection))) return;
  const int number = connection->fd.get();
  connections_.emplace(number, std::move(connection));
}

// Throws out those who connected and said nothing.
bool EpollServer::make_room() {
  std::vector<Connection*> silent;
  for (const auto& [fd, connection] : connections_)
    if (!connection->session && now() - connection->opened > kHelloTimeout) silent.push_back(connection.get());
  for (Connection* connection : silent) close(*connection);
  return !silent.empty();
}

// What has come; `ended`: the peer will send no more than that. epoll tells of it once.
void EpollServer::receive(Connection& connection, bool ended) {
  do {
    const ssize_t count = recv(connection.fd.get(), buffer_.data(), buffer_.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return close(connection);
    take(connection, std::span(buffer_).first(static_cast<std::size_t>(count)));
    // There may be more. It is others' turn first: whoever sends without end must not keep them waiting.
    if (!connection.closed && !ended && static_cast<std::size_t>(count) == buffer_.size())
      watch(connection.fd.get(), &connection, events_of(connection), EPOLL_CTL_MOD);
  } while (ended && !connection.closed);
}

void EpollServer::take(Connection& connection, std::span<const std::byte> fresh) {
  if (connection.in.empty()) {
    const std::size_t taken = take_messages(connection, fresh);
    if (!connection.closed) connection.in.assign(fresh.begin() + static_cast<std::ptrdiff_t>(taken), fresh.end());
    return;
  }
  connection.in.insert(connection.in.end(), fresh.begin(), fresh.end());
  const std::size_t taken = take_messages(connection, connection.in);
  if (!connection.closed)
    connection.in.erase(connection.in.begin(), connection.in.begin() + static_cast<std::ptrdiff_t>(taken));
  if (connection.in.empty()) connection.in.shrink_to_fit();
}

std::size_t EpollServer::take_messages(Connection& connection, std::span<const std::byte> bytes) {
  std::size_t taken = 0;
  while (!connection.closed) {
    const auto decoded = decode(bytes.subspan(taken));
    if (!decoded) {
      refuse_and_close(connection, Refusal::kProtocol, decoded.error().message);
      break;
    }
    if (!*decoded) break;
    handle(connection, (*decoded)->message);
    taken += (*decoded)->consumed;
  }
  return taken;
}

void EpollServer::handle(Connection& connection, const Message& message) {
  if (const auto* first = std::get_if<Hello>(&message)) return hello(connection, *first);
  if (std::holds_alternative<StatusQuery>(message)) return send_status(connection);
  if (!connection.session) return refuse_and_close(connection, Refusal::kProtocol, "a message before Hello");
  if (const auto* ask = std::get_if<RequestMessage>(&message)) return request(connection, *ask, nullptr);
  if (const auto* again = std::get_if<ReassertMessage>(&message)) return request(connection, again->request, again);
  if (const auto* done = std::get_if<ReleaseMessage>(&message))
    return table_.release(*connection.session, done->ticket, now());
  if (const auto* more = std::get_if<RenewMessage>(&message))
    return table_.renew(*connection.session, more->ticket, now());
  refuse_and_close(connection, Refusal::kProtocol, "a message that only the gate sends");
}

void EpollServer::hello(Connection& connection, const Hello& hello) {
  if (connection.session) return refuse_and_close(connection, Refusal::kProtocol, "a second Hello");
  connection.process = hello.process;
  identify(connection);
  auto [it, fresh] = sessions_.try_emplace(hello.session, &connection);
  if (!fresh && it->second->user != connection.user)
    return refuse_and_close(connection, Refusal::kProtocol, "the session belongs to another user");
  if (!fresh) {
    // The client came back before we noticed that its old connection is dead: the session moves over.
    Connection& old = *it->second;
    old.session.reset();
    close(old);
    it->second = &connection;
  }
  connection.session = hello.session;
  connection.job = hello.job;
  send(connection,
       Welcome{.incarnation = incarnation_, .lease = options_.table.lease, .targets = options_.table.targets});
}

void EpollServer::request(Connection& connection, const RequestMessage& request, const ReassertMessage* reassert) {
  auto targets = request.targets.resolve(options_.table.targets);
  if (!targets) return refuse_and_close(connection, Refusal::kTargets, targets.error().message);
  Ask ask{.ticket = request.ticket, .job = connection.job, .targets = std::move(*targets), .bytes = request.bytes};
  if (!reassert)
    table_.request(*connection.session, std::move(ask), now());
  else if (reassert->holding)
    table_.reassert_holding(*connection.session, std::move(ask), reassert->group, now());
  else
    table_.reassert_waiting(*connection.session, std::move(ask),
                            reassert->arrived == TimePoint{} ? now() : reassert->arrived, now());
}

void EpollServer::send_status(Connection& connection) {
  if (!connection.out.empty()) return refuse_and_close(connection, Refusal::kProtocol, "read the last answer first");
  const ServerFacts facts{
      .connections = connections_.size(), .uptime = now() - started_, .process = [this](SessionId session) {
        const auto it = sessions_.find(session);
        return it == sessions_.end() ? 0u : it->second->process;
      }};
  const std::string document = status_document(table_, facts, now());
  constexpr std::size_t kPiece = kMaxPayload - 1;
  for (std::size_t at = 0; at < document.size(); at += kPiece)
    send(connection, StatusPiece{.last = at + kPiece >= document.size(), .text = document.substr(at, kPiece)});
}

void EpollServer::deliver() {
  // Sending may find a peer gone, and its leaving may let others go.
  while (!table_.answers().empty() || !unsent_.empty()) {
    for (const Answer& answer : table_.answers()) post(answer);
    table_.clear_answers();
    flush_all();
  }
}

void EpollServer::post(const Answer& answer) {
  const auto it = sessions_.find(answer.session);
  if (it == sessions_.end()) return;
  Connection& connection = *it->second;
  const bool refused = answer.kind == Answer::Kind::kRefused;
  send(connection, AnswerMessage{.ticket = answer.ticket,
                                 .kind = answer.kind,
                                 .arrived = answer.arrived,
                                 .group = answer.group,
                                 .refusal = answer.refusal,
                                 .text = refused ? explain(answer.refusal) : ""});
  if (answer.kind == Answer::Kind::kLost)
    log(fmt::format("job '{}' (process {}): the lease ran out", connection.job, connection.process));
  if (!refused) return;
  log(fmt::format("job '{}' (process {}): refused: {}", connection.job, connection.process, explain(answer.refusal)));
  ++connection.refusals;
}

void EpollServer::send(Connection& connection, const Message& message) {
  if (connection.closed) return;
  encode(message, connection.out);
  if (connection.unsent) return;
  connection.unsent = true;
  unsent_.push_back(&connection);
}

void EpollServer::flush_all() {
  for (Connection* connection : std::exchange(unsent_, {})) {
    connection->unsent = false;
    if (!connection->closed) flush(*connection);
    if (!connection->closed && connection->refusals > options_.max_refusals)
      refuse_and_close(*connection, Refusal::kProtocol, "too many refused messages");
  }
}

void EpollServer::flush(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const auto rest = std::span(connection.out).subspan(connection.sent);
    const ssize_t count = ::send(connection.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) return close(connection);
    connection.sent += static_cast<std::size_t>(count);
  }
  const bool rest = connection.sent < connection.out.size();
  if (!rest) {
    connection.out.clear();
    connection.sent = 0;
    if (connection.out.capacity() > 4096) connection.out.shrink_to_fit();
  } else if (connection.session && connection.out.size() - connection.sent > kMaxPendingOutput) {
    log(fmt::format("job '{}' (process {}): does not read its answers; closed", connection.job, connection.process));
    return close(connection);
  }
  if (rest != connection.wants_write) {
    connection.wants_write = rest;
    watch(connection.fd.get(), &connection, events_of(connection), EPOLL_CTL_MOD);
  }
}

void EpollServer::refuse_and_close(Connection& connection, Refusal refusal, const std::string& why) {
  log(fmt::format("job '{}' (process {}): {}; connection closed", connection.job, connection.process, why));
  encode(
      AnswerMessage{
          .ticket = 0, .kind = Answer::Kind::kRefused, .arrived = {}, .group = 0, .refusal = refusal, .text = why},
      connection.out);
  flush(connection);
  if (connection.closed) return;
  // Closing a TCP socket with unread input would take the error message back.
  shutdown(connection.fd.get(), SHUT_WR);
  std::array<std::byte, 4096> unread;
  for (int i = 0; i < 64 && recv(connection.fd.get(), unread.data(), unread.size(), 0) > 0; ++i) continue;
  close(connection);
}

void EpollServer::close(Connection& connection) {
  if (connection.closed) return;
  connection.closed = true;
  if (connection.session) {
    sessions_.erase(*connection.session);
    table_.disconnect(*connection.session, now());
  }
  const int number = connection.fd.get();
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, number, nullptr);
  const auto it = connections_.find(number);
  graveyard_.push_back(std::move(it->second));
  connections_.erase(it);
  connection.fd.reset();
  if (!accepting_) {
    accepting_ = true;
    for (Fd& each : listeners_) watch(each.get(), &each, EPOLLIN, EPOLL_CTL_MOD);
  }
}

void EpollServer::finish() {
  if (!marker_ || table_.holding() > 0 || table_.waiting() > 0) return;
  if (const auto done = marker_->set_idle(); !done) log(done.error().message);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::create(Options options) {
  if (options.addresses.empty()) return fail(ErrorCode::kInvalid, "a gate needs at least one address to listen on");
  std::optional<RunMarker> marker;
  if (!options.state_path.empty()) {
    auto opened = RunMarker::open(options.state_path);
    if (!opened) return Failure(opened.error());
    marker = std::move(*opened);
    if (const auto lease = marker->left_behind())
      options.table.recover_until = TimePoint(std::chrono::system_clock::now()) + std::max(*lease, options.table.lease);
  }
  auto table = LockTable::create(options.table);
  if (!table) return Failure(table.error());
  auto server = std::make_unique<EpollServer>(std::move(options), std::move(*table), std::move(marker));
  if (auto opened = server->open(); !opened) return Failure(opened.error());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace tutti::gate
