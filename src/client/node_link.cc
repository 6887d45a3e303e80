// SPDX-License-Identifier: Apache-2.0
#include "client/node_link.h"

#include <utility>

namespace tutti {

NodeLink::NodeLink(net::Transport& transport, Options options, LinkEvents& events)
    : transport_(transport), options_(std::move(options)), events_(events) {}

Result<void> NodeLink::connect() {
  if (up()) return {};
  auto connection = transport_.connect(options_.endpoint, options_.connect, *this);
  if (!connection) return Failure(connection.error());
  std::lock_guard lock(mutex_);
  if (closed_early_ == *connection) {
    closed_early_ = nullptr;
    return fail(ErrorCode::kUnreachable, "the node hung up at once");
  }
  connection_ = std::move(*connection);
  ++generation_;
  return {};
}

void NodeLink::disconnect(const Error& why) {
  net::ConnectionPointer connection;
  {
    std::lock_guard lock(mutex_);
    connection = connection_;
  }
  if (connection) connection->close(why);
}

bool NodeLink::up() const {
  std::lock_guard lock(mutex_);
  return connection_ != nullptr;
}

std::uint64_t NodeLink::generation() const {
  std::lock_guard lock(mutex_);
  return generation_;
}

bool NodeLink::send(CallPointer call) {
  std::unique_lock lock(mutex_);
  if (connection_ == nullptr) return false;
  waiting_.push_back(std::move(call));
  pump(lock);
  return true;
}

bool NodeLink::fits(const Call& call) const {
  if (sent_.empty()) return true;
  const auto& limits = connection_->welcome().limits;
  return sent_.size() < limits.requests && sent_bytes_ + call.bytes <= limits.bytes;
}

void NodeLink::pump(std::unique_lock<std::mutex>& lock) {
  while (connection_ != nullptr && !waiting_.empty() && fits(*waiting_.front())) {
    const auto call = std::move(waiting_.front());
    waiting_.pop_front();
    const auto connection = connection_;
    Call::Attempt attempt{.tag = ++last_tag_};
    call->node = options_.index;
    call->tag = attempt.tag;
    call->generation = generation_;
    call->deadline = net::steady_now() + options_.request_timeout;
    attempt.deadline = connection->node_time(call->deadline);
    if (call->file_key != 0) {
      const bool fresh = known_files_.insert(call->file_key).second;
      attempt.with_path = fresh || std::exchange(call->force_path, false);
    }
    sent_.emplace(attempt.tag, call);
    sent_bytes_ += call->bytes;
    lock.unlock();
    connection->send(call->encode(attempt));
    lock.lock();
  }
}

void NodeLink::attend(const CallPointer& call) {
  const auto tag = call->tag.load();
  const auto wanted = [&] {
    std::lock_guard lock(mutex_);
    const auto found = sent_.find(tag);
    return found != sent_.end() && found->second == call;
  };
  net::ConnectionPointer connection;
  {
    std::lock_guard lock(mutex_);
    connection = connection_;
  }
  if (connection && wanted()) connection->await_reply(tag, wanted);
}

void NodeLink::forget(std::uint64_t file_key) {
  {
    std::lock_guard lock(mutex_);
    if (connection_ == nullptr || known_files_.erase(file_key) == 0) return;
  }
  auto call = std::make_shared<Call>();
  call->encode = [file_key](const Call::Attempt& attempt) {
    return net::Outgoing{.frame = wire::encode(wire::CloseRequest{file_key}, {.tag = attempt.tag})};
  };
  call->done = [](const Result<net::Incoming>&) {};
  call->give_up = net::steady_now() + options_.request_timeout;
  send(std::move(call));
}

bool NodeLink::overdue(TimePoint now) const {
  std::lock_guard lock(mutex_);
  for (const auto& [tag, call] : sent_) {
    if (now > call->deadline) return true;
  }
  return false;
}

std::vector<std::span<std::byte>> NodeLink::place(const wire::Header& header, std::span<const std::byte> body) {
  CallPointer call;
  {
    std::lock_guard lock(mutex_);
    const auto found = sent_.find(header.tag);
    if (found == sent_.end()) return {};
    call = found->second;
  }
  auto reply = wire::decode<wire::ReadReply>(header, body);
  if (!reply || reply->lengths.size() != call->places.size()) return {};
  std::vector<std::span<std::byte>> places;
  for (std::size_t i = 0; i < call->places.size(); ++i) {
    if (reply->lengths[i] > call->places[i].size()) return {};
    if (reply->lengths[i] > 0) places.push_back(call->places[i].first(reply->lengths[i]));
  }
  return places;
}

void NodeLink::received(const net::ConnectionPointer& from, net::Incoming message) {
  CallPointer call;
  {
    std::unique_lock lock(mutex_);
    const auto found = sent_.find(message.header.tag);
    if (from != connection_ || found == sent_.end()) return;
    call = std::move(found->second);
    sent_.erase(found);
    sent_bytes_ -= call->bytes;
    pump(lock);
  }
  events_.answered(std::move(call), std::move(message));
}

void NodeLink::closed(const net::ConnectionPointer& connection, const Error& why) {
  std::vector<CallPointer> sent, unsent;
  {
    std::lock_guard lock(mutex_);
    if (connection != connection_) {
      closed_early_ = connection;
      return;
    }
    connection_ = nullptr;
    for (auto& [tag, call] : sent_) sent.push_back(std::move(call));
    unsent.assign(waiting_.begin(), waiting_.end());
    sent_.clear();
    waiting_.clear();
    known_files_.clear();
    sent_bytes_ = 0;
  }
  events_.lost(std::move(sent), std::move(unsent), why);
}

}  // namespace tutti
