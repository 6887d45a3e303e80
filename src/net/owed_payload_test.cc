// SPDX-License-Identifier: Apache-2.0
// A payload that a node has asked for arrives although a request before it waits for memory, which is free only when
// the payload has arrived.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "net/admission.h"
#include "net/transport.h"

namespace tutti::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPayload = 128 << 10;

// Answers nothing.
class OwedServer : public Handler {
 public:
  void received(const ConnectionPointer& from, Incoming message) override {
    {
      std::lock_guard lock(mutex_);
      ++counts_[message.header.type];
      if (message.header.type == wire::Type::kWrite) writer_ = from;
      changed_.notify_all();
    }
    const std::lock_guard wait_in_handler(gate);
  }
  Result<Buffer> payload_memory(const ConnectionPointer&, const wire::Header& header) override {
    return pool->try_allocate(header.payload_length);
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
  std::mutex gate;  // while it is held, messages wait in the handler

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<wire::Type, std::size_t> counts_;
  ConnectionPointer writer_;
};

// Sends its payload when it is asked for.
struct OwingClient : Handler {
  void received(const ConnectionPointer& from, Incoming message) override {
    if (message.header.type != wire::Type::kPull || silent) return;
    Outgoing out;
    out.frame = wire::encode(wire::Payload{}, {.tag = 1, .payload = data});
    out.borrowed = {std::span(data)};
    from->send(std::move(out));
  }
  void closed(const ConnectionPointer&, const Error&) override {}
  const std::vector<std::byte> data = std::vector<std::byte>(kPayload);
  std::atomic<bool> silent{false};  // does not send it
};

// The first client has announced a write; the second one uses all memory for requests that its user may have.
class OwedPayloads : public testing::Test {
 protected:
  void SetUp() override {
    // One thread, so that all connections wait in the same event loop.
    transport_ = Transport::create({.threads = 1}).value();
    clients_ = Transport::create({}).value();
    listener_ = transport_->listen(endpoint_, {.pulled_pool = server_.pool}, server_).value();
    first_ = connect_and_wait(*clients_, endpoint_, {}, writer_).value();
    second_ = connect_and_wait(*clients_, endpoint_, {}, other_).value();
    wire::WriteRequest write;
    write.on_request = true;
    write.extents = {{0, kPayload}};
    first_->send({.frame = wire::encode(write, {.tag = 1})});
    ASSERT_TRUE(server_.wait_for(wire::Type::kWrite, 1));
    for (std::uint64_t tag = 1; tag <= 150; ++tag) send_list(second_, tag);
    // Their replies may be large. A user holds no more than is free.
    constexpr std::size_t kFull = kMaxRequestMemory / (wire::kMaxBody + 1024 + 512) / 2;
    ASSERT_TRUE(server_.wait_for(wire::Type::kReadDirectory, kFull));
    std::this_thread::sleep_for(100ms);
    admitted_ = server_.count(wire::Type::kReadDirectory);
    ASSERT_LT(admitted_, 150u);
  }
  void TearDown() override {
    for (const auto& connection : {first_, second_}) connection->close({ErrorCode::kStopped, "the test is over"});
    listener_.reset();
  }
  static void send_list(const ConnectionPointer& to, std::uint64_t tag) {
    to->send({.frame = wire::encode(wire::ReadDirectoryRequest{.path = "d"}, {.tag = tag})});
  }
  void pull() { server_.writer()->send({.frame = wire::encode(wire::Pull{.write = 1}, {})}); }

  const Endpoint endpoint_{Endpoint::Kind::kLocal, "owed", 0};
  OwedServer server_;
  OwingClient writer_, other_;
  std::unique_ptr<Transport> transport_, clients_;
  std::unique_ptr<Listener> listener_;
  ConnectionPointer first_, second_;
  std::size_t admitted_ = 0;
};

TEST_F(OwedPayloads, ArriveBehindARequestThatWaitsForMemory) {
  send_list(first_, 2);
  std::this_thread::sleep_for(100ms);
  ASSERT_EQ(server_.count(wire::Type::kReadDirectory), admitted_) << "it waits for memory";
  pull();
  EXPECT_TRUE(server_.wait_for(wire::Type::kPayload, 1));
}

// The node asks for the payload while it handles a request of the connection that had waited for memory. The connection
// is then not waiting, but its next request finds no memory.
TEST_F(OwedPayloads, ArriveIfTheyAreAskedForWhileTheConnectionIsRetried) {
  second_->close({ErrorCode::kStopped, "its memory is free"});
  const std::size_t lists = admitted_ + 20;
  for (std::uint64_t tag = 2; tag <= lists + 1; ++tag) send_list(first_, tag);
  ASSERT_TRUE(server_.wait_for(wire::Type::kReadDirectory, admitted_ + 1));
  std::this_thread::sleep_for(100ms);
  const std::size_t before = server_.count(wire::Type::kReadDirectory);
  ASSERT_LT(before, admitted_ + lists - 1) << "two or more wait for memory";
  {
    const std::lock_guard wait_in_handler(server_.gate);
    server_.writer()->send({.frame = wire::encode(wire::ReadDirectoryRequest::Reply{}, {.tag = 2})});
    ASSERT_TRUE(server_.wait_for(wire::Type::kReadDirectory, before + 1));
    pull();
  }
  EXPECT_TRUE(server_.wait_for(wire::Type::kPayload, 1));
}

// Its requests may use memory beyond the limit, but no more than the share of its user of as much again.
TEST_F(OwedPayloads, AClientThatDoesNotSendThemCannotFillTheNode) {
  writer_.silent = true;
  pull();
  for (std::uint64_t tag = 2; tag <= 250; ++tag) send_list(first_, tag);
  ASSERT_TRUE(server_.wait_for(wire::Type::kReadDirectory, admitted_ + admitted_ / 2));
  std::this_thread::sleep_for(300ms);
  EXPECT_LE(server_.count(wire::Type::kReadDirectory), std::size_t{kMaxRequestMemory / wire::kMaxBody});
}

// The second client waits for request memory, which stays in use; the payload waits for memory of another kind.
TEST_F(OwedPayloads, GetMemoryAlthoughOthersWaitForMemoryOfAnotherKind) {
  std::optional<Buffer> all = server_.pool->allocate(16 << 20);
  pull();
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(server_.count(wire::Type::kPayload), 0u);
  all.reset();
  EXPECT_TRUE(server_.wait_for(wire::Type::kPayload, 1));
}

}  // namespace
}  // namespace tutti::net
