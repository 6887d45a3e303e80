// SPDX-License-Identifier: Apache-2.0
// For tests: speaks the protocol to one node, with nothing in between.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "net/transport.h"
#include "wire/codec.h"

namespace tutti::node {

class TestClient : public net::Handler {
 public:
  struct Answer {
    net::Incoming message;
    std::string payload() const {
      return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
    }
  };

  explicit TestClient(const std::string& endpoint, net::ConnectOptions options = {}) {
    transport_ = net::Transport::create({}).value();
    auto connected = transport_->connect(net::parse_endpoint(endpoint).value(), std::move(options), *this);
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
    const bool there = changed_.wait_for(lock, std::chrono::seconds(30), [&] { return answers_.contains(tag); });
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

  std::string read(const wire::FileReference& file, std::vector<wire::Extent> extents) {
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

  bool checksums = true;  // of payloads; without, large ones go by reference

  void received(const net::ConnectionPointer&, net::Incoming message) override {
    std::lock_guard lock(mutex_);
    const std::uint64_t tag = message.header.tag;
    answers_[tag].message = std::move(message);
    changed_.notify_all();
  }
  void closed(const net::ConnectionPointer&, const Error&) override {}

 private:
  std::unique_ptr<net::Transport> transport_;
  net::ConnectionPointer connection_;
  std::atomic<std::uint64_t> tag_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Answer> answers_;
  std::map<std::uint64_t, std::unique_ptr<std::string>> payloads_;
};

}  // namespace tutti::node
