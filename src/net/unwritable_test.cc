// SPDX-License-Identifier: Apache-2.0
// Replies whose memory at the client cannot be written.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "net/transport.h"

namespace tutti::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSize = 1 << 20;
const ClusterKey kUnwritableKey(32, std::byte{42});

// Answers reads with 'x'.
class LargeServer : public Handler {
 public:
  void received(const ConnectionPointer& from, Incoming message) override {
    const auto request = wire::decode<wire::ReadRequest>(message.header, message.body).value();
    Buffer data = pool_->allocate(request.extents[0].length);
    std::ranges::fill(data.span(), std::byte{'x'});
    const wire::ReadReply reply{.lengths = {static_cast<std::uint32_t>(data.size())}};
    Outgoing out{.frame = wire::encode(
                     reply, {.tag = message.header.tag, .payload = data.span(), .checksum = request.checksum})};
    out.payload = std::move(data);
    from->send(std::move(out));
  }
  void closed(const ConnectionPointer&, const Error&) override {}

 private:
  std::shared_ptr<BufferPool> pool_ = BufferPool::create(Bytes(64 << 20));
};

class LargeClient : public Handler {
 public:
  ReplyMemory reply_memory(const wire::Header& header, std::span<const std::byte>) override {
    std::lock_guard lock(mutex_);
    return {.memory = {memory_[header.tag].first(header.payload_length)}};
  }
  void received(const ConnectionPointer&, Incoming message) override {
    std::lock_guard lock(mutex_);
    unwritable_[message.header.tag] = message.unwritable;
    changed_.notify_all();
  }
  void closed(const ConnectionPointer&, const Error&) override {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  void expect(std::uint64_t tag, std::span<std::byte> memory) {
    std::lock_guard lock(mutex_);
    memory_[tag] = memory;
  }
  bool waits_for(std::uint64_t tag) {
    std::lock_guard lock(mutex_);
    return !unwritable_.contains(tag);
  }
  // Waits for the reply. Nothing: there is none.
  std::optional<bool> unwritable(std::uint64_t tag) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return closed_ || unwritable_.contains(tag); });
    return unwritable_.contains(tag) ? std::optional(unwritable_[tag]) : std::nullopt;
  }
  void wait_until_closed() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::span<std::byte>> memory_;
  std::map<std::uint64_t, bool> unwritable_;
  bool closed_ = false;
};

class UnwritableTest : public testing::TestWithParam<std::tuple<Endpoint::Kind, std::size_t, bool>> {};

// The memory ends within the payload, or is bad from the beginning.
TEST_P(UnwritableTest, OnlyTheReplyItselfIsLost) {
  const auto [kind, size, awaits] = GetParam();
  LargeServer server;
  LargeClient client;
  const auto transport = Transport::create({}).value();
  Endpoint endpoint{kind, "/tmp/tutti-unwritable-" + std::to_string(::getpid()) + ".sock", 0};
  if (kind == Endpoint::Kind::kTcp) endpoint.name = "127.0.0.1";
  const auto listener = transport->listen(endpoint, {.key = kUnwritableKey}, server).value();
  const auto connection = connect_and_wait(*transport, listener->endpoint(), {.key = kUnwritableKey}, client).value();
  auto* const memory =
      static_cast<std::byte*>(::mmap(nullptr, 2 * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(::mprotect(memory + kSize, kSize, PROT_READ), 0);
  std::uint64_t tag = 0;
  const auto read = [&](std::size_t at, bool checksum) {
    client.expect(++tag, {memory + at, size});
    wire::ReadRequest request{.checksum = checksum, .extents = {{0, size}}};
    connection->send({.frame = wire::encode(request, {.tag = tag})});
    if (awaits) connection->await_reply(tag, [&] { return client.waits_for(tag); });
    return client.unwritable(tag);
  };
  for (const bool checksum : {false, true}) {
    EXPECT_EQ(read(kSize, checksum), true);
    EXPECT_EQ(read(kSize - size / 2, checksum), true);
    EXPECT_EQ(read(kSize - size, checksum), false);
    EXPECT_EQ(memory[kSize - 1], std::byte{'x'});
    memory[kSize - 1] = {};
  }
  connection->close({ErrorCode::kStopped, "the test is over"});
  client.wait_until_closed();
  ::munmap(memory, 2 * kSize);
}

INSTANTIATE_TEST_SUITE_P(All, UnwritableTest,
                         testing::Combine(testing::Values(Endpoint::Kind::kUnix, Endpoint::Kind::kTcp),
                                          testing::Values(100, 4096, 50'000, kSize), testing::Bool()));

}  // namespace
}  // namespace tutti::net
