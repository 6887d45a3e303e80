// SPDX-License-Identifier: Apache-2.0
// For tests: sends single messages to one node.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "net/admission.h"
#include "net/transport.h"
#include "wire/codec.h"

namespace tutti::node {

class TestClient : public net::Handler {
 public:
  static constexpr std::chrono::seconds kPatience{120};  // a bound only: under sanitizers nodes are slow

  struct Answer {
    net::Incoming message;
    std::string payload() const {
      return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
    }
  };

  explicit TestClient(const std::string& endpoint, net::ConnectOptions options = {}) {
    transport_ = net::Transport::create({}).value();
    auto connected =
        net::connect_and_wait(*transport_, net::parse_endpoint(endpoint).value(), std::move(options), *this);
    EXPECT_TRUE(connected) << connected.error().message;
    if (connected) connection_ = *connected;
  }
  ~TestClient() override {
    if (connection_) connection_->close({ErrorCode::kStopped, "done"});
    transport_.reset();
  }

  template <typename Request>
  std::uint64_t send(const Request& request, const std::string& payload = "") {
    const std::uint64_t tag = ++tag_;
    if (payload.size() > net::Budget::kSmall) {
      std::unique_lock lock(mutex_);
      const auto enough = [&] { return credit_ >= net::Budget::capacity(payload.size()); };
      EXPECT_TRUE(changed_.wait_for(lock, kPatience, enough)) << "no credit";
    }
    net::Outgoing out;
    auto copy = std::make_unique<std::string>(payload);
    const auto bytes = std::as_bytes(std::span(*copy));
    out.frame = wire::encode(request, {.tag = tag, .payload = bytes, .checksum = checksums});
    if (!payload.empty()) out.borrowed = {bytes};
    {
      std::lock_guard lock(mutex_);
      payloads_[tag] = std::move(copy);
    }
    connection_->send(std::move(out));
    return tag;
  }

  Answer wait(std::uint64_t tag) {
    std::unique_lock lock(mutex_);
    const bool there = changed_.wait_for(lock, kPatience, [&] { return answers_.contains(tag); });
    EXPECT_TRUE(there) << "no answer";
    if (!there) return {};
    auto node = answers_.extract(tag);
    return std::move(node.mapped());
  }
  bool answered(std::uint64_t tag) {
    std::lock_guard lock(mutex_);
    return answers_.contains(tag);
  }

  wire::ReplyHead head(std::uint64_t tag) { return wire::decode_head(wait(tag).message.body).value(); }

  template <typename Request>
  typename Request::Reply call(const Request& request, const std::string& payload = "") {
    const Answer answer = wait(send(request, payload));
    auto reply = wire::decode<typename Request::Reply>(answer.message.header, answer.message.body);
    EXPECT_TRUE(reply) << reply.error().message;
    return reply ? *reply : typename Request::Reply{};
  }

  std::string read(const wire::FileReference& file, wire::Extents extents) {
    wire::ReadRequest request;
    request.data.file = file;
    request.extents = std::move(extents);
    return wait(send(request)).payload();
  }
  static wire::WriteRequest write_request(const wire::FileReference& file, std::uint64_t offset, std::size_t length) {
    wire::WriteRequest request;
    request.data.file = file;
    request.extents = {{offset, length}};
    return request;
  }
  wire::WriteReply write(const wire::FileReference& file, std::uint64_t offset, const std::string& text) {
    return call(write_request(file, offset, text.size()), text);
  }

  net::Connection& connection() { return *connection_; }

  bool checksums = true;  // of payloads; large payloads without one are sent by reference

  // Sends a message that has no reply.
  template <typename Message>
  void tell(const Message& message, std::uint64_t tag, const std::string& payload = "") {
    net::Outgoing out;
    const auto copy = std::make_shared<std::string>(payload);
    const auto bytes = std::as_bytes(std::span(*copy));
    out.frame = wire::encode(message, {.tag = tag, .payload = bytes, .checksum = checksums});
    if (!payload.empty()) out.borrowed = {bytes};
    {
      std::lock_guard lock(mutex_);
      told_.push_back(copy);
    }
    connection_->send(std::move(out));
  }
  // Waits until the node asks for the payload of this write.
  bool pulled(std::uint64_t tag) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return pulls_.contains(tag); });
  }
  bool is_closed() {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  bool closed_by_node() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return closed_; });
  }

  void received(const net::ConnectionPointer& from, net::Incoming message) override {
    std::lock_guard lock(mutex_);
    if (message.header.type == wire::Type::kCredit) {
      const auto credit = wire::decode<wire::Credit>(message.header, message.body).value();
      credit_ = credit.bytes;
      from->send({.frame = wire::encode(wire::CreditAccepted{credit.number}, {})});
      return changed_.notify_all();
    }
    if (message.header.type == wire::Type::kPull) {
      pulls_.insert(wire::decode<wire::Pull>(message.header, message.body).value().write);
      return changed_.notify_all();
    }
    const std::uint64_t tag = message.header.tag;
    answers_[tag].message = std::move(message);
    changed_.notify_all();
  }
  void closed(const net::ConnectionPointer&, const Error&) override {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::unique_ptr<net::Transport> transport_;
  net::ConnectionPointer connection_;
  std::atomic<std::uint64_t> tag_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Answer> answers_;
  std::map<std::uint64_t, std::unique_ptr<std::string>> payloads_;
  std::vector<std::shared_ptr<std::string>> told_;
  std::set<std::uint64_t> pulls_;  // tags of writes
  std::uint64_t credit_ = 0;       // as in wire::Limits
  bool closed_ = false;
};

}  // namespace tutti::node
