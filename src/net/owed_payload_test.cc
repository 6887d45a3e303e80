// SPDX-License-Identifier: Apache-2.0
// A payload that a node has asked for arrives although a request before it waits for memory, which is free only when
// the payload has arrived.
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "net/admission.h"
#include "net/transport.h"

namespace tutti::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPayload = 128 << 10;

// Answers nothing.
class Server : public Handler {
 public:
  void received(const ConnectionPointer& from, Incoming message) override {
    std::lock_guard lock(mutex_);
    ++counts_[message.header.type];
    if (message.header.type == wire::Type::kWrite) writer_ = from;
    changed_.notify_all();
  }
  Result<Buffer> payload_memory(const ConnectionPointer&, const wire::Header& header) override {
    return pool->allocate(header.payload_length);
  }
  void closed(const ConnectionPointer&, const Error&) override {}

  bool wait_for(wire::Type type, std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] { return counts_[type] >= count; });
  }
  std::size_t count(wire::Type type) {
    std::lock_guard lock(mutex_);
    return counts_[type];
  }
  ConnectionPointer writer() {
    std::lock_guard lock(mutex_);
    return writer_;
  }

  const std::shared_ptr<BufferPool> pool = BufferPool::create(Bytes(16 << 20));

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<wire::Type, std::size_t> counts_;
  ConnectionPointer writer_;
};

// Sends its payload when it is asked for.
struct Client : Handler {
  void received(const ConnectionPointer& from, Incoming message) override {
    if (message.header.type != wire::Type::kPull) return;
    Outgoing out;
    out.frame = wire::encode(wire::Payload{}, {.tag = 1, .payload = data});
    out.borrowed = {std::span(data)};
    from->send(std::move(out));
  }
  void closed(const ConnectionPointer&, const Error&) override {}
  const std::vector<std::byte> data = std::vector<std::byte>(kPayload);
};

TEST(OwedPayloads, ArriveBehindARequestThatWaitsForMemory) {
  Server server;
  Client writer, other;
  const auto transport = Transport::create({}).value();
  const auto clients = Transport::create({}).value();
  const Endpoint endpoint{Endpoint::Kind::kLocal, "owed", 0};
  auto listener = transport->listen(endpoint, {.pulled_pool = server.pool}, server).value();
  const auto first = connect_and_wait(*clients, endpoint, {}, writer).value();
  const auto second = connect_and_wait(*clients, endpoint, {}, other).value();
  wire::WriteRequest write;
  write.on_request = true;
  write.extents = {{0, kPayload}};
  first->send({.frame = wire::encode(write, {.tag = 1})});
  ASSERT_TRUE(server.wait_for(wire::Type::kWrite, 1));

  // Requests with large replies use all memory for requests.
  constexpr std::size_t kFull = kMaxRequestMemory / (wire::kMaxBody + 1024 + 512);
  for (std::uint64_t tag = 1; tag <= 150; ++tag)
    second->send({.frame = wire::encode(wire::ReadDirectoryRequest{.path = "d"}, {.tag = tag})});
  ASSERT_TRUE(server.wait_for(wire::Type::kReadDirectory, kFull));
  std::this_thread::sleep_for(100ms);
  const std::size_t admitted = server.count(wire::Type::kReadDirectory);
  ASSERT_LT(admitted, 150u);
  first->send({.frame = wire::encode(wire::ReadDirectoryRequest{.path = "d"}, {.tag = 2})});
  std::this_thread::sleep_for(100ms);
  ASSERT_EQ(server.count(wire::Type::kReadDirectory), admitted) << "it waits for memory";

  server.writer()->send({.frame = wire::encode(wire::Pull{.write = 1}, {})});
  EXPECT_TRUE(server.wait_for(wire::Type::kPayload, 1));
  for (const auto& connection : {first, second}) connection->close({ErrorCode::kStopped, "the test is over"});
  listener.reset();
}

}  // namespace
}  // namespace tutti::net
