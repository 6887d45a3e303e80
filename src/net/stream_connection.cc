// SPDX-License-Identifier: Apache-2.0
#include "net/stream_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/mutex.h"

namespace tutti::net {
namespace {

constexpr int kRounds = 16;  // receive calls before other connections are served
constexpr std::uint32_t kEnded = EPOLLHUP | EPOLLERR | EPOLLRDHUP;

}  // namespace

void ListenerState::remember(StreamConnection* key, const std::weak_ptr<StreamConnection>& connection) {
  Lock lock(mutex);
  open.emplace(key, connection);
}

void ListenerState::forget(StreamConnection* key) {
  Lock lock(mutex);
  open.erase(key);
  if (open.empty()) all_closed.notify_all();
}

bool ListenerState::add_user(std::optional<std::uint32_t> user) {
  Lock lock(mutex);
  User& entry = users[user];
  if (administers(user)) {
    ++entry.connections;
    return true;
  }
  const std::size_t most =
      user ? options.max_connections_per_user : std::max<std::size_t>(options.max_connections / 4, 1);
  const std::size_t left = options.max_connections - std::min(options.max_connections, open.size());
  const bool scarce = left < options.max_connections / 8;
  if (entry.connections >= most || (scarce && entry.connections > 0 && entry.connections >= left)) return false;
  ++entry.connections;
  return true;
}

bool ListenerState::administers(std::optional<std::uint32_t> user) {
  return user == 0U || user == ::geteuid();
}

bool ListenerState::has_room(std::optional<std::uint32_t> user) {
  Lock lock(mutex);
  return open.size() < options.max_connections + (administers(user) ? kKeptForAdministrators : 0);
}

void ListenerState::remove_user(std::optional<std::uint32_t> user) {
  Lock lock(mutex);
  const auto it = users.find(user);
  if (--it->second.connections == 0) users.erase(it);
}

std::shared_ptr<UserMemory> ListenerState::memory_of(std::optional<std::uint32_t> user) {
  Lock lock(mutex);
  return users[user].memory;
}

bool ListenerState::has_unsent() {
  std::vector<std::shared_ptr<StreamConnection>> alive;
  {
    Lock lock(mutex);
    for (const auto& [key, connection] : open)
      if (auto one = connection.lock()) alive.push_back(std::move(one));
  }
  return std::ranges::any_of(alive, [](const auto& connection) { return connection->has_unsent(); });
}

StreamConnection::StreamConnection(std::shared_ptr<EventLoop> loop, int socket, Handler& handler)
    : loop_(std::move(loop)), socket_(socket), handler_(handler) {}

std::shared_ptr<StreamConnection> StreamConnection::accepted(std::shared_ptr<EventLoop> loop, int socket,
                                                             std::shared_ptr<ListenerState> listener,
                                                             std::string address, std::optional<wire::Identity> known) {
  std::shared_ptr<StreamConnection> self(new StreamConnection(std::move(loop), socket, *listener->handler));
  self->listener_ = std::move(listener);
  LocalJob local_job = std::optional<ApplicationId>{};
  const ListenOptions& options = self->listener_->options;
  if (known) self->user_ = known->uid;
  if (known && options.jobs) local_job = options.jobs->local_job(socket, known->uid);
  self->established_.peer.address = std::move(address);
  self->established_.pool = self->listener_->options.pool;
  self->handshake_ = std::make_unique<NodeHandshake>(options, std::move(known), std::move(local_job));
  self->reader_.limit_body(kMaxHandshakeBody);
  return self;
}

std::shared_ptr<StreamConnection> StreamConnection::connected(std::shared_ptr<EventLoop> loop, int socket,
                                                              Handler& handler, Established established) {
  std::shared_ptr<StreamConnection> self(new StreamConnection(std::move(loop), socket, handler));
  self->established_ = std::move(established);
  self->stage_ = Stage::kOpen;
  self->reported_ = true;
  // With a blocking socket, await_reply() needs one system call. Sending pages needs a non-blocking socket.
  if (!self->sends_by_reference()) ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) & ~O_NONBLOCK);
  return self;
}

StreamConnection::~StreamConnection() {
  ::close(socket_);
}

void StreamConnection::start() {
  if (listener_) listener_->remember(this, shared_from_this());
  loop_->post([self = shared_from_this()] {
    self->loop_->add(self->socket_, kRead | EPOLLET, self);
    if (self->listener_) self->loop_->wake_at(self->opened_ + self->listener_->options.handshake_timeout);
    Lock lock(self->mutex_);
    self->update_interest();  // send() may have filled the socket already
  });
}

// ---- receiving, mostly on the loop's thread ----

void StreamConnection::ready(std::uint32_t events) {
  Lock receiving(receiving_);
  if ((events & EPOLLOUT) != 0) {
    Lock lock(mutex_);
    want_write_ = false;
    update_interest();
    if (!sending_) drain(lock);
  }
  if ((events & (EPOLLHUP | EPOLLERR)) != 0 && is_paused())  // the end would not be noticed
    return finish({ErrorCode::kUnreachable, "lost the connection", ECONNRESET});
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0)
    receive({loop_->scratch(), EventLoop::kScratch}, (events & kEnded) != 0);
}

// epoll is edge-triggered: receives until nothing is left (and until the end of the stream if the peer has `ended`), or
// arms epoll again.
void StreamConnection::receive(std::span<std::byte> scratch, bool ended) {
  for (int round = 0; round < kRounds; ++round) {
    {
      Lock lock(mutex_);
      if (stage_ >= Stage::kEnding || pause_ != Pause::kNone) return;
      // epoll may have reported bytes just before another thread began to receive in await_reply().
      if (receiving_thread_ != std::thread::id() && receiving_thread_ != std::this_thread::get_id()) return;
    }
    PagePipe* pages = reader_.state() == FrameReader::State::kPayload ? reader_.pages() : nullptr;
    const Received received = pages != nullptr ? receive_pages(*pages, ended) : receive_bytes(scratch);
    if (received == Received::kStop || (received == Received::kAll && !ended)) return;
  }
  Lock lock(mutex_);
  update_interest();
}

StreamConnection::Received StreamConnection::receive_bytes(std::span<std::byte> scratch) {
  std::array<iovec, kParts> parts;
  const auto direct_parts =
      reader_.state() == FrameReader::State::kPayload ? reader_.room(std::span(parts).first(kParts - 1)) : 0;
  std::size_t room = 0;
  for (std::size_t i = 0; i < direct_parts; ++i) room += parts[i].iov_len;
  const auto direct_room = room;
  if (after_pages_) scratch = scratch.first(std::min(scratch.size(), reader_.up_to_pages() - direct_room));
  parts[direct_parts] = {scratch.data(), scratch.size()};
  room += scratch.size();
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = direct_parts + 1;
  const auto got = header.msg_iovlen == 1 ? ::recv(socket_, scratch.data(), scratch.size(), MSG_DONTWAIT)
                                          : ::recvmsg(socket_, &header, MSG_DONTWAIT);
  if (got < 0 && errno == EINTR) return Received::kMore;
  if (got < 0 && errno == EAGAIN) return Received::kStop;
  if (got < 0 && errno == EFAULT && direct_parts > 0 && !node_side()) {
    reader_.drop_payload();
    return Received::kMore;
  }
  if (got <= 0) {
    const int error = got < 0 ? errno : 0;
    finish({ErrorCode::kUnreachable,
            error != 0 ? fmt::format("lost the connection: {}", std::strerror(error))
                       : std::string("the peer closed the connection"),
            error});
    return Received::kStop;
  }
  const auto direct = std::min(static_cast<std::size_t>(got), direct_room);
  if (direct > 0) {
    if (auto fine = reader_.filled(direct); !fine) {
      close_for_violation(fine.error());
      return Received::kStop;
    }
  }
  if (!process(scratch.first(static_cast<std::size_t>(got) - direct))) return Received::kStop;
  const bool pages_next = reader_.state() == FrameReader::State::kPayload && reader_.pages() != nullptr;
  // Memory of the caller that cannot be written also ends a call early: the next call reports it.
  const bool interrupted = !node_side() && direct_parts > 0 && reader_.state() == FrameReader::State::kPayload;
  return static_cast<std::size_t>(got) < room && !pages_next && !interrupted ? Received::kAll : Received::kMore;
}

// EAGAIN has two meanings: nothing has arrived, or the pipe is full. At the end of the stream only receive_bytes() can
// tell.
StreamConnection::Received StreamConnection::receive_pages(PagePipe& pages, bool ended) {
  const auto got = pages.take(socket_, reader_.missing());
  if (got > 0) {
    (void)reader_.taken(static_cast<std::size_t>(got));  // cannot fail: there is no checksum
    return process({}) ? Received::kMore : Received::kStop;
  }
  int waiting = 0;
  if (!ended && got < 0 && errno == EAGAIN && ::ioctl(socket_, FIONREAD, &waiting) == 0 && waiting == 0)
    return Received::kAll;
  reader_.pages_full();  // if it was an error, receiving bytes will report it
  return Received::kMore;
}

// False: paused or closed.
bool StreamConnection::process(std::span<const std::byte> bytes) {
  for (;;) {
    if (reader_.state() == FrameReader::State::kAdmission) {
      rest_by_ = TimePoint::max();
      if (!admit()) {
        pause(bytes);
        return false;
      }
    }
    if (reader_.state() == FrameReader::State::kComplete) deliver();
    if (stage_ >= Stage::kEnding) return false;
    if (handshake_ && is_paused()) {
      pause(bytes);
      return false;
    }
    if (bytes.empty()) {
      if (reader_.state() == FrameReader::State::kBody && rest_by_ == TimePoint::max())
        expect_rest(reader_.header().body_length);
      return true;
    }
    auto used = reader_.consume(bytes);
    if (!used) {
      close_for_violation(used.error());
      return false;
    }
    bytes = bytes.subspan(*used);
  }
}

void StreamConnection::deliver() {
  auto message = reader_.take();
  rest_by_ = TimePoint::max();
  after_pages_ = message.pages.size() > 0;
  if (node_side() && message.header.type == wire::Type::kPayload) {
    Lock lock(mutex_);
    if (owed_payloads_ > 0) --owed_payloads_;
  }
  if (handshake_) return continue_handshake(std::move(message));
  if (!node_side()) {
    if (message.header.type == wire::Type::kWelcome) {  // the node reports why it closes the connection
      auto head = wire::decode_head(message.body);
      return finish(head ? wire::to_error(*head) : head.error());
    }
    if (!message.header.reply) return close_for_violation({ErrorCode::kProtocol, "a node sent a request"});
    Lock lock(mutex_);
    const bool awaited = std::erase(awaited_tags_, message.header.tag) > 0;
    if (!awaited && !loop_->on_loop()) return deliver_on_loop(std::move(message));
  }
  handler_.received(shared_from_this(), std::move(message));
}

void StreamConnection::refuse(const Error& why) {
  if (const auto& refused = listener_->options.refused) refused(established_.peer.address, why);
  finish(why);
}

// Sends the reason to the client, then closes the connection.
void StreamConnection::close_for_violation(const Error& why) {
  if (node_side()) {
    Lock lock(mutex_);
    enqueue({.frame = wire::encode_failure(wire::Type::kWelcome, 0, wire::to_head(why))});
    if (!sending_) drain(lock);
  }
  finish(why);
}

bool StreamConnection::is_paused() {
  Lock lock(mutex_);
  return pause_ != Pause::kNone;
}

// Stops reading from the socket. admit() has set pause_.
void StreamConnection::pause(std::span<const std::byte> rest) {
  pending_.assign(rest.begin(), rest.end());
  Lock lock(mutex_);
  update_interest();
}

void StreamConnection::resume() {
  Lock receiving(receiving_);
  {
    Lock lock(mutex_);
    if (stage_ >= Stage::kEnding || pause_ == Pause::kNone) return;
    pause_ = Pause::kNone;
  }
  const auto bytes = std::exchange(pending_, {});
  if (!process(bytes)) return;
  Lock lock(mutex_);
  update_interest();
}

void StreamConnection::retry() {
  {
    Lock lock(mutex_);
    if (pause_ != Pause::kForMemory) return;
  }
  resume();
}

// Only the node closes connections of peers that make no progress. Clients have deadlines per request.
TimePoint StreamConnection::tick(TimePoint now) {
  if (!node_side()) return TimePoint::max();
  TimePoint next = TimePoint::max();
  bool late = false, stuck = false, slow = false;
  {
    Lock receiving(receiving_);
    slow = now >= rest_by_;
    next = rest_by_;
  }
  {
    Lock lock(mutex_);
    const bool shaking = stage_ == Stage::kHandshake, sending = !queue_.empty();
    const TimePoint shaken_by = opened_ + listener_->options.handshake_timeout;
    const TimePoint sent_by = (progress_ == TimePoint{} ? now : progress_) + listener_->options.send_timeout;
    late = shaking && now >= shaken_by;
    stuck = sending && now >= sent_by;
    if (shaking) next = std::min(next, shaken_by);
    if (sending) next = std::min(next, sent_by);
    if (stage_ >= Stage::kEnding) return TimePoint::max();
  }
  if (late) finish({ErrorCode::kTimeout, "the peer did not finish the handshake in time"});
  if (stuck) finish({ErrorCode::kTimeout, "the peer does not read its replies"});
  if (slow) finish({ErrorCode::kTimeout, "the peer does not send the data it announced"});
  return late || stuck || slow ? TimePoint::max() : next;
}

// ---- closing ----

void StreamConnection::close(const Error& why) {
  {
    Lock lock(mutex_);
    begin_end(why);
    idle_.wait(lock, [&]() TUTTI_REQUIRES(mutex_) { return !sending_; });
    if (receiving_thread_ == std::this_thread::get_id()) return;
  }
  if (loop_->on_loop()) return;
  Lock receiving(receiving_);  // a call of the handler that is running comes to its end
}

// As close(), from the receiving thread, which holds receiving_.
void StreamConnection::finish(const Error& why) {
  Lock lock(mutex_);
  begin_end(why);
}

void StreamConnection::begin_end(const Error& why) {
  if (stage_ >= Stage::kEnding) return;
  stage_ = Stage::kEnding;
  why_ = why;
  ::shutdown(socket_, SHUT_RDWR);
  loop_->post([self = shared_from_this()] { self->end(); });
}

void StreamConnection::end() {
  Lock receiving(receiving_);
  Error why;
  {
    Lock lock(mutex_);
    if (stage_ == Stage::kEnded) return;
    stage_ = Stage::kEnded;
    why = why_;
    idle_.wait(lock, [&]() TUTTI_REQUIRES(mutex_) { return !sending_; });
    for (const auto& entry : queue_)
      if (entry.charge) release(*entry.charge);
    for (const auto& [tag, charge] : admission_.take_all()) release(charge);
    queue_.clear();
    awaited_tags_.clear();
  }
  loop_->remove(socket_, this);
  reader_ = FrameReader();
  pending_ = {};
  if (accounted_) listener_->connections--;
  report_unsendable();
  if (reported_) handler_.closed(shared_from_this(), why);
  if (!listener_) return;
  listener_->remove_user(user_);
  listener_->forget(this);
}

void StreamConnection::abandon_after_fork() {
  ::close(socket_);
}

void StreamConnection::stopped() {
  finish({ErrorCode::kStopped, "the transport was shut down"});
  end();
}

}  // namespace tutti::net
