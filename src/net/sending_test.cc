// SPDX-License-Identifier: Apache-2.0
// Requests whose memory cannot be read.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <future>
#include <mutex>

#include "net/transport.h"

namespace tutti::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHalf = 1 << 20;
const ClusterKey kSendingKey(32, std::byte{42});

// Its first half can be read, the second one cannot.
class BadMemory {
 public:
  BadMemory() : data_(::mmap(nullptr, 2 * kHalf, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_EQ(::mprotect(static_cast<std::byte*>(data_) + kHalf, kHalf, PROT_NONE), 0);
  }
  ~BadMemory() { ::munmap(data_, 2 * kHalf); }
  // A write from this memory. The frame is encoded with other memory, because encoding may read it.
  Outgoing write(std::uint64_t tag, std::size_t at, std::size_t size) const {
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(data_) + at, size);
    Outgoing out{.borrowed = {bytes}};
    out.frame = wire::encode_scattered(wire::WriteRequest{.extents = {{0, size}}}, tag, out.borrowed, false);
    return out;
  }

 private:
  void* const data_;
};

Outgoing health(std::uint64_t tag) {
  return {.frame = wire::encode(wire::HealthRequest{}, {.tag = tag})};
}

class SendingServer : public Handler {
 public:
  void received(const ConnectionPointer& from, Incoming message) override {
    from->send({.frame = wire::encode(wire::HealthReply{.node = "server"}, {.tag = message.header.tag})});
  }
  void closed(const ConnectionPointer&, const Error&) override {}
};

class SendingClient : public Handler {
 public:
  std::function<void(Connection&)> on_first;  // called for the reply with tag 1, on the loop's thread

  void received(const ConnectionPointer& from, Incoming message) override {
    if (message.header.tag == 1 && on_first) on_first(*from);
    note(answered_, message.header.tag);
  }
  void unsendable(const ConnectionPointer&, std::uint64_t tag) override { note(unsendable_, tag); }
  void closed(const ConnectionPointer&, const Error& why) override {
    std::lock_guard lock(mutex_);
    why_ = why;
    changed_.notify_all();
  }

  bool answered(std::uint64_t tag) {
    return wait([&] { return std::ranges::count(answered_, tag) == 1; });
  }
  bool failed(std::uint64_t tag) {
    return wait([&] { return std::ranges::count(unsendable_, tag) == 1; });
  }
  Error closed() {
    EXPECT_TRUE(wait([&] { return why_.has_value(); }));
    return why_.value_or(Error{});
  }
  bool waits_for(std::uint64_t tag) {
    std::lock_guard lock(mutex_);
    return std::ranges::count(unsendable_, tag) == 0;
  }
  bool open() {
    std::lock_guard lock(mutex_);
    return !why_;
  }

 private:
  void note(std::vector<std::uint64_t>& list, std::uint64_t tag) {
    std::lock_guard lock(mutex_);
    list.push_back(tag);
    changed_.notify_all();
  }
  bool wait(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> answered_, unsendable_;
  std::optional<Error> why_;
};

// On each kind of socket; large payloads are also sent by reference.
class SendingTest : public testing::TestWithParam<std::tuple<Endpoint::Kind, bool>> {
 protected:
  void SetUp() override {
    const auto [kind, by_reference] = GetParam();
    size_ = by_reference ? 256 << 10 : 4096;
    Endpoint endpoint{kind, "/tmp/tutti-sending-" + std::to_string(::getpid()) + ".sock", 0};
    if (kind == Endpoint::Kind::kTcp) endpoint.name = "127.0.0.1";
    listener_ = transport_->listen(endpoint, {.key = kSendingKey, .by_reference = by_reference}, server_).value();
    connection_ = connect_and_wait(*transport_, listener_->endpoint(), {.key = kSendingKey}, client_).value();
  }
  void TearDown() override {
    connection_->close({ErrorCode::kStopped, "the test is over"});
    client_.closed();
  }

  std::size_t size_ = 0;
  BadMemory memory_;
  SendingServer server_;
  SendingClient client_;
  std::unique_ptr<Transport> transport_ = Transport::create({}).value();
  std::unique_ptr<Listener> listener_;
  ConnectionPointer connection_;
};

INSTANTIATE_TEST_SUITE_P(All, SendingTest,
                         testing::Combine(testing::Values(Endpoint::Kind::kUnix, Endpoint::Kind::kTcp),
                                          testing::Bool()));

TEST_P(SendingTest, BadMemoryFailsOnlyItsOwnRequest) {
  client_.on_first = [&](Connection& from) {  // these are sent together
    from.send(health(2));
    from.send(memory_.write(3, kHalf, size_));
    from.send(health(4));
  };
  connection_->send(health(1));
  EXPECT_TRUE(client_.answered(2));
  EXPECT_TRUE(client_.failed(3));
  EXPECT_TRUE(client_.answered(4));
  connection_->send(memory_.write(5, 0, size_));
  EXPECT_TRUE(client_.answered(5));
  EXPECT_TRUE(client_.open());
}

TEST_P(SendingTest, NoThreadWaitsForTheReplyToARequestThatCannotBeSent) {
  SendingClient other;  // keeps the loop busy, so that the error is reported late
  std::promise<void> busy, go_on;
  other.on_first = [&](Connection&) {
    busy.set_value();
    go_on.get_future().wait();
  };
  auto second = connect_and_wait(*transport_, listener_->endpoint(), {.key = kSendingKey}, other).value();
  second->send(health(1));
  busy.get_future().wait();
  auto waiting = std::async(std::launch::async, [&] {
    connection_->send(memory_.write(1, kHalf, size_));
    connection_->await_reply(1, [&] { return client_.waits_for(1); });
  });
  EXPECT_EQ(waiting.wait_for(10s), std::future_status::ready);
  go_on.set_value();
  EXPECT_TRUE(client_.failed(1));
  EXPECT_TRUE(client_.open());
  second->close({ErrorCode::kStopped, "the test is over"});
  other.closed();
  connection_->close({ErrorCode::kStopped, "the test is over"});
}

TEST_P(SendingTest, ARequestThatWasSentInPartEndsTheConnection) {
  connection_->send(memory_.write(1, 0, 2 * kHalf));
  connection_->send(health(2));
  EXPECT_EQ(client_.closed().system, EFAULT);
  EXPECT_TRUE(client_.failed(1));
}

}  // namespace
}  // namespace tutti::net
