// SPDX-License-Identifier: Apache-2.0
#include "net/stream_connection.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::net {
namespace {

constexpr std::size_t kParts = 64;                    // of one sendmsg or recvmsg
constexpr int kRounds = 16;                           // of receiving before others get their turn
constexpr std::int64_t kRequestOverhead = 1024;       // what a node keeps of a request, roughly
constexpr std::int64_t kMaxRequestMemory = 24 << 20;  // of all requests of a listener
constexpr double kDrift = 200e-6;                     // between two clocks, per unit of time

// The memory is its owner's again as soon as the peer has answered, and that may be before this call is back.
// Sanitizers look at it once more afterwards; the bare system call keeps them from it.
ssize_t send_message(int socket, const msghdr& message) {
  return ::syscall(SYS_sendmsg, socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::uint64_t tag_of(const std::vector<std::byte>& frame) {
  std::uint64_t tag = 0;
  std::memcpy(&tag, frame.data() + 8, sizeof tag);
  return tag;
}

}  // namespace

void ListenerState::remember(StreamConnection* key, const std::weak_ptr<StreamConnection>& connection) {
  std::lock_guard lock(mutex);
  open.emplace(key, connection);
}

void ListenerState::forget(StreamConnection* key) {
  std::lock_guard lock(mutex);
  open.erase(key);
  if (open.empty()) all_closed.notify_all();
}

bool ListenerState::has_unsent() {
  std::vector<std::shared_ptr<StreamConnection>> alive;
  {
    std::lock_guard lock(mutex);
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
  self->established_.peer.address = std::move(address);
  self->established_.pool = self->listener_->options.pool;
  self->handshake_.emplace(self->listener_->options, std::move(known));
  self->reader_.limit_body(kMaxHandshakeBody);
  return self;
}

std::shared_ptr<StreamConnection> StreamConnection::connected(std::shared_ptr<EventLoop> loop, int socket,
                                                              Handler& handler, Established established) {
  std::shared_ptr<StreamConnection> self(new StreamConnection(std::move(loop), socket, handler));
  self->established_ = std::move(established);
  self->stage_ = Stage::kOpen;
  self->reported_ = true;
  return self;
}

StreamConnection::~StreamConnection() {
  ::close(socket_);
}

void StreamConnection::start() {
  if (listener_) listener_->remember(this, shared_from_this());
  loop_->post([self = shared_from_this()] {
    self->loop_->add(self->socket_, EPOLLIN, self);
    std::lock_guard lock(self->mutex_);
    self->update_interest();  // somebody may have filled the socket already
  });
}

TimePoint StreamConnection::node_time(TimePoint here) const {
  const auto age = std::max(Duration{0}, here - established_.welcomed);
  const auto drift = std::chrono::duration_cast<Duration>(age * kDrift);
  return here + (established_.welcome.now - established_.welcomed) - drift;
}

// ---- receiving: on the loop's thread ----

void StreamConnection::ready(std::uint32_t events) {
  std::lock_guard receiving(receiving_);
  if ((events & EPOLLOUT) != 0) {
    std::unique_lock lock(mutex_);
    want_write_ = false;
    update_interest();
    if (!sending_) drain(lock);
  }
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) receive({loop_->scratch(), EventLoop::kScratch});
}

void StreamConnection::receive(std::span<std::byte> scratch) {
  for (int round = 0; round < kRounds; ++round) {
    {
      std::lock_guard lock(mutex_);
      if (stage_ >= Stage::kEnding || parking_ != Parking::kNone) return;
      // The loop may have been told of bytes just before somebody began to wait for them.
      if (awaiting_ != std::thread::id() && awaiting_ != std::this_thread::get_id()) return;
    }
    PagePipe* pages = reader_.state() == FrameReader::State::kPayload ? reader_.pages() : nullptr;
    if ((pages != nullptr ? receive_pages(*pages) : receive_bytes(scratch)) != Received::kMore) return;
  }
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
  const auto got = ::recvmsg(socket_, &header, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothing;
  if (got <= 0) {
    const int error = got < 0 ? errno : 0;
    finish({ErrorCode::kUnreachable,
            error != 0 ? fmt::format("lost the connection: {}", std::strerror(error))
                       : std::string("the peer closed the connection"),
            error});
    return Received::kOver;
  }
  const auto direct = std::min(static_cast<std::size_t>(got), direct_room);
  if (direct > 0) {
    if (auto fine = reader_.filled(direct); !fine) {
      violated(fine.error());
      return Received::kOver;
    }
  }
  if (!process(scratch.first(static_cast<std::size_t>(got) - direct))) return Received::kOver;
  const bool pages_next = reader_.state() == FrameReader::State::kPayload && reader_.pages() != nullptr;
  return static_cast<std::size_t>(got) < room && !pages_next ? Received::kNothing : Received::kMore;
}

StreamConnection::Received StreamConnection::receive_pages(PagePipe& pages) {
  const auto got = pages.take(socket_, reader_.missing());
  if (got > 0) {
    (void)reader_.taken(static_cast<std::size_t>(got));  // no checksum to fail
    if (!process({})) return Received::kOver;
    return reader_.state() == FrameReader::State::kPayload ? Received::kMore : Received::kNothing;
  }
  int waiting = 0;
  if (got < 0 && errno == EAGAIN && ::ioctl(socket_, FIONREAD, &waiting) == 0 && waiting == 0)
    return Received::kNothing;
  reader_.pages_full();  // or something is wrong: receiving bytes will tell
  return Received::kMore;
}

// False: parked or over.
bool StreamConnection::process(std::span<const std::byte> bytes) {
  for (;;) {
    if (reader_.state() == FrameReader::State::kAdmission && !admit()) {
      park(bytes);
      return false;
    }
    if (reader_.state() == FrameReader::State::kComplete) deliver();
    {
      std::lock_guard lock(mutex_);
      if (stage_ >= Stage::kEnding) return false;
    }
    if (bytes.empty()) return true;
    auto used = reader_.consume(bytes);
    if (!used) {
      violated(used.error());
      return false;
    }
    bytes = bytes.subspan(*used);
  }
}

// False: there is no room for it now, or the connection is over.
bool StreamConnection::admit() {
  const auto& header = reader_.header();
  Buffer buffer;
  std::vector<std::span<std::byte>> parts;
  Charge charge;
  PagePipe pages;
  if (node_side() && !handshake_) {
    if (!admit_request(charge)) return false;
    pages = pages_for(header);
  } else if (handshake_ && header.payload_length > 0) {
    violated({ErrorCode::kProtocol, "a payload from a peer that is not authenticated yet"});
    return false;
  } else if (header.payload_length > 0) {
    parts = handler_.place(header, reader_.body());
  }
  if (header.payload_length > 0 && parts.empty()) {
    buffer = established_.pool->try_allocate(header.payload_length);
    if (buffer.empty()) return wait_for_memory();
  }
  if (node_side() && !handshake_) {
    charge.counted = true;
    listener_->request_memory += charge.memory;
    std::lock_guard lock(mutex_);
    charges_[header.tag] = charge;
    charged_bytes_ += charge.bytes;
  }
  if (pages.is_open())
    reader_.admit(std::move(buffer), std::move(pages));
  else if (auto fine = reader_.admit(std::move(buffer), std::move(parts)); !fine)
    violated(fine.error());
  return true;
}

// Closed if the payload is better off in memory.
PagePipe StreamConnection::pages_for(const wire::Header& header) const {
  PagePipe pages;
  if (listener_->options.pages && header.payload_length >= PagePipe::kLeast && !header.has_payload_checksum)
    (void)pages.open();
  return pages;
}

bool StreamConnection::admit_request(Charge& charge) {
  const auto& header = reader_.header();
  if (header.reply || header.type < wire::Type::kRead) {
    violated({ErrorCode::kProtocol, fmt::format("a {} message is no request", wire::name(header.type))});
    return false;
  }
  const auto reply = wire::reply_payload(header, reader_.body());  // malformed: the node answers that, there is none
  charge.bytes = header.payload_length + (reply ? reply->count() : 0);
  charge.memory = kRequestOverhead + static_cast<std::int64_t>(header.body_length);
  const auto& limits = listener_->options.limits;
  bool repeated = false;
  {
    std::lock_guard lock(mutex_);
    repeated = charges_.contains(header.tag);
    const auto under_way = charges_.size() + queue_.size();
    const bool over = under_way >= limits.requests || charged_bytes_ + charge.bytes > limits.bytes;
    if (!repeated && over && under_way > 0) {
      parking_ = Parking::kForReplies;  // while locked: a reply that goes out now must see it
      return false;
    }
  }
  if (repeated) {
    violated({ErrorCode::kProtocol, fmt::format("request {} is under way already", header.tag)});
    return false;
  }
  if (listener_->request_memory + charge.memory > kMaxRequestMemory) {
    listener_->starved = true;
    return wait_for_memory();
  }
  return true;
}

bool StreamConnection::wait_for_memory() {
  std::lock_guard lock(mutex_);
  parking_ = Parking::kForMemory;
  if (loop_->on_loop())
    loop_->retry_later(shared_from_this());
  else
    loop_->post([self = shared_from_this()] { self->loop_->retry_later(self); });
  return false;
}

void StreamConnection::deliver() {
  auto message = reader_.take();
  after_pages_ = message.pages.size() > 0;
  if (handshake_) return shake_hands(message);
  if (!node_side()) {
    if (message.header.type == wire::Type::kWelcome) {  // the node says why it hangs up
      auto head = wire::decode_head(message.body);
      return finish(head ? wire::to_error(*head) : head.error());
    }
    if (!message.header.reply) return violated({ErrorCode::kProtocol, "a request from a node"});
    std::lock_guard lock(mutex_);
    const bool awaited = awaited_.erase(message.header.tag) > 0;
    if (!awaited && !loop_->on_loop()) return hand_over(std::move(message));
  }
  handler_.received(shared_from_this(), std::move(message));
}

void StreamConnection::shake_hands(const Incoming& message) {
  auto step = handshake_->receive(message.header, message.body);
  {
    std::unique_lock lock(mutex_);
    enqueue({.frame = std::move(step.answer)});
    if (!sending_) drain(lock);
  }
  if (step.state == NodeHandshake::Step::State::kRefused) return finish(step.why);
  if (step.state != NodeHandshake::Step::State::kAccepted) return;
  auto address = std::move(established_.peer.address);
  established_.peer = handshake_->peer();
  established_.peer.address = std::move(address);
  handshake_.reset();
  reader_.limit_body(wire::kMaxBody);
  {
    std::lock_guard lock(mutex_);
    if (stage_ != Stage::kHandshake) return;
    stage_ = Stage::kOpen;
  }
  reported_ = accounted_ = true;
  listener_->connections++;
  handler_.connected(shared_from_this());
}

// Says why, then hangs up.
void StreamConnection::violated(const Error& why) {
  if (node_side()) {
    std::unique_lock lock(mutex_);
    enqueue({.frame = wire::encode_failure(wire::Type::kWelcome, 0, wire::to_head(why))});
    if (!sending_) drain(lock);
  }
  finish(why);
}

// Stops reading; admit() has said what for.
void StreamConnection::park(std::span<const std::byte> rest) {
  pending_.assign(rest.begin(), rest.end());
  std::lock_guard lock(mutex_);
  update_interest();
}

void StreamConnection::resume() {
  std::lock_guard receiving(receiving_);
  {
    std::lock_guard lock(mutex_);
    if (stage_ >= Stage::kEnding || parking_ == Parking::kNone) return;
    parking_ = Parking::kNone;
  }
  const auto bytes = std::exchange(pending_, {});
  if (!process(bytes)) return;
  std::lock_guard lock(mutex_);
  update_interest();
}

bool StreamConnection::retry() {
  {
    std::lock_guard lock(mutex_);
    if (parking_ != Parking::kForMemory) return true;
  }
  resume();
  std::lock_guard lock(mutex_);
  return parking_ != Parking::kForMemory;
}

void StreamConnection::tick(TimePoint now) {
  bool late = false, stuck = false;
  {
    std::lock_guard lock(mutex_);
    late = stage_ == Stage::kHandshake && now - opened_ > listener_->options.handshake_timeout;
    stuck = node_side() && !queue_.empty() && now - progress_ > listener_->options.send_timeout;
  }
  if (late) finish({ErrorCode::kTimeout, "the peer did not finish the handshake in time"});
  if (stuck) finish({ErrorCode::kTimeout, "the peer does not take its replies"});
}

// ---- sending: on any thread ----

void StreamConnection::send(Outgoing message) {
  std::unique_lock lock(mutex_);
  if (stage_ >= Stage::kEnding) return;
  enqueue(std::move(message));
  if (sending_ || want_write_) return;
  if (loop_->on_loop()) {
    if (queue_.size() == 1) loop_->flush_later(shared_from_this());
    return;
  }
  drain(lock);
}

void StreamConnection::flush() {
  std::unique_lock lock(mutex_);
  if (!sending_ && !want_write_) drain(lock);
}

bool StreamConnection::has_unsent() {
  std::lock_guard lock(mutex_);
  return stage_ < Stage::kEnding && !queue_.empty();
}

void StreamConnection::enqueue(Outgoing message) {
  Sending entry;
  entry.size = message.frame.size() + message.payload.size() + message.pages.size();
  for (const auto& part : message.borrowed) entry.size += part.size();
  if (const auto found = charges_.find(tag_of(message.frame)); found != charges_.end()) {
    entry.charge = found->second;
    charges_.erase(found);
  }
  entry.lend = established_.welcome.lend && entry.size - message.frame.size() >= PagePipe::kLeast &&
               message.borrowed.size() == 1 && message.pages.open();
  if (entry.lend) entry.lead = wire::lead_of(message.borrowed.front().data());
  entry.message = std::move(message);
  if (queue_.empty()) progress_ = steady_now();
  queue_.push_back(std::move(entry));
}

void StreamConnection::drain(std::unique_lock<std::mutex>& lock) {
  sending_ = true;
  while (!queue_.empty() && stage_ < Stage::kEnding) {
    const auto sent = send_next(lock);
    const int error = errno;
    if (sent < 0) {
      if (error == EINTR) continue;
      want_write_ = error == EAGAIN;
      update_interest();
      break;  // any other error shows up when receiving
    }
    mark_sent(static_cast<std::size_t>(sent));
  }
  sending_ = false;
  if (stage_ >= Stage::kEnding) idle_.notify_all();
}

// Pages, or memory up to the next ones. As send(2).
ssize_t StreamConnection::send_next(std::unique_lock<std::mutex>& lock) {
  std::array<iovec, kParts> parts;
  msghdr header{};
  header.msg_iov = parts.data();
  Sending& first = queue_.front();
  const bool pages = first.pages_are_next();
  if (!pages) header.msg_iovlen = gather(parts);
  lock.unlock();
  first.fill_pages();  // before its frame wakes the peer
  ssize_t sent = -1;
  int error = EINTR;  // nothing to be lent after all: once more
  if (!pages || first.has_pages()) {
    sent = pages ? first.message.pages.drain(socket_, first.message.pages.left()) : send_message(socket_, header);
    error = errno;
  }
  lock.lock();
  errno = error;
  return sent;
}

// What cannot be lent (some mappings of devices) is sent like any other memory.
void StreamConnection::Sending::fill_pages() {
  if (!lend || message.pages.left() > 0) return;
  const auto rest = message.borrowed.front().subspan(std::max(sent, pages_begin()) - message.frame.size());
  if (message.pages.take(rest) > 0) return;
  lend = false;
  message.pages = {};
}

// What is to be sent next; the entries stay where they are while others are added behind them.
std::size_t StreamConnection::gather(std::span<iovec> parts) {
  std::size_t count = 0;
  for (const auto& entry : queue_) {
    auto skip = entry.sent;
    auto add = [&](const std::byte* data, std::size_t size) {
      const auto skipped = std::min(skip, size);
      skip -= skipped;
      if (size > skipped && count < parts.size()) {
        parts[count++] = {const_cast<std::byte*>(data) + skipped, size - skipped};
      }
    };
    add(entry.message.frame.data(), entry.message.frame.size());
    add(entry.message.payload.data(), entry.message.payload.size());
    for (const auto& part : entry.message.borrowed) add(part.data(), entry.lend ? entry.lead : part.size());
    if (count == parts.size() || entry.has_pages()) break;
  }
  return count;
}

void StreamConnection::mark_sent(std::size_t count) {
  progress_ = steady_now();
  while (count > 0) {
    auto& entry = queue_.front();
    const auto step = std::min(count, entry.size - entry.sent);
    entry.sent += step;
    count -= step;
    if (entry.sent < entry.size) return;
    release(entry.charge);
    queue_.pop_front();
  }
}

void StreamConnection::release(const Charge& charge) {
  if (!charge.counted) return;
  charged_bytes_ -= charge.bytes;
  listener_->request_memory -= charge.memory;
  if (listener_->starved.exchange(false)) listener_->retry();
  if (parking_ == Parking::kForReplies) {
    parking_ = Parking::kResuming;
    loop_->post([self = shared_from_this()] { self->resume(); });
  }
}

void StreamConnection::update_interest() {
  if (stage_ >= Stage::kEnding) return;
  const bool read = parking_ == Parking::kNone && awaiting_ == std::thread::id();
  const std::uint32_t events = (read ? EPOLLIN : 0U) | (want_write_ ? EPOLLOUT : 0U);
  loop_->modify(socket_, events, this);
}

// ---- the end ----

void StreamConnection::close(const Error& why) {
  {
    std::unique_lock lock(mutex_);
    if (stage_ < Stage::kEnding) {
      stage_ = Stage::kEnding;
      why_ = why;
      ::shutdown(socket_, SHUT_RDWR);
      loop_->post([self = shared_from_this()] { self->end(); });
    }
    idle_.wait(lock, [&] { return !sending_; });
    if (awaiting_ == std::this_thread::get_id()) return;
  }
  if (loop_->on_loop()) return;
  std::lock_guard receiving(receiving_);  // a call of the handler that is running comes to its end
}

// As close(), from the loop's thread, while receiving.
void StreamConnection::finish(const Error& why) {
  std::unique_lock lock(mutex_);
  if (stage_ >= Stage::kEnding) return;
  stage_ = Stage::kEnding;
  why_ = why;
  ::shutdown(socket_, SHUT_RDWR);
  loop_->post([self = shared_from_this()] { self->end(); });
}

void StreamConnection::end() {
  std::lock_guard receiving(receiving_);
  {
    std::unique_lock lock(mutex_);
    if (stage_ == Stage::kEnded) return;
    stage_ = Stage::kEnded;
    idle_.wait(lock, [&] { return !sending_; });
    for (const auto& entry : queue_) release(entry.charge);
    for (const auto& [tag, charge] : charges_) release(charge);
    queue_.clear();
    charges_.clear();
    awaited_.clear();
  }
  loop_->remove(socket_, this);
  reader_ = FrameReader();
  pending_ = {};
  if (accounted_) listener_->connections--;
  if (reported_) handler_.closed(shared_from_this(), why_);
  if (listener_) listener_->forget(this);
}

void StreamConnection::stopped() {
  finish({ErrorCode::kStopped, "the transport was shut down"});
  end();
}

}  // namespace tutti::net
