// SPDX-License-Identifier: Apache-2.0
// Conformance suite for transports: Unix sockets, TCP, and endpoints inside the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "base/prng.h"
#include "net/handshake.h"
#include "net/socket.h"
#include "net/transport.h"

namespace tutti::net {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::byte pattern(std::uint64_t offset) {
  return static_cast<std::byte>(offset * 31 + (offset >> 12));
}

// Records messages and closed connections, so that tests can wait for them.
class Recorder : public Handler {
 public:
  // A handler must outlive its connections.
  ~Recorder() override {
    for (const auto& connection : mine_) connection->close({ErrorCode::kStopped, "the test is over"});
    EXPECT_TRUE(wait_for_close(mine_.size()));
  }
  void owns(ConnectionPointer connection) { mine_.push_back(std::move(connection)); }

  void received(const ConnectionPointer& from, Incoming message) override {
    std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    from_.push_back(from);
    changed_.notify_all();
  }
  void closed(const ConnectionPointer&, const Error& why) override {
    std::lock_guard lock(mutex_);
    why_.push_back(why);
    changed_.notify_all();
  }
  ReplyMemory reply_memory(const wire::Header& header, std::span<const std::byte>) override {
    std::lock_guard lock(mutex_);
    const auto found = receive_memory_.find(header.tag);
    return {.memory = found == receive_memory_.end() ? ReceiveMemory{} : found->second};
  }

  bool wait_for_messages(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [&] { return messages_.size() >= count; });
  }
  bool wait_for_close(std::size_t count = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [&] { return why_.size() >= count; });
  }
  // The connection of the message with this index.
  ConnectionPointer from(std::size_t number) {
    std::lock_guard lock(mutex_);
    return from_[number];
  }
  std::size_t count() {
    std::lock_guard lock(mutex_);
    return messages_.size();
  }

  std::vector<ConnectionPointer> mine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Incoming> messages_;
  std::vector<ConnectionPointer> from_;
  std::vector<Error> why_;
  std::map<std::uint64_t, ReceiveMemory> receive_memory_;
};

// Answers reads with a pattern, and checks that writes contain it. Stores nothing.
class Server : public Handler {
 public:
  void received(const ConnectionPointer& from, Incoming message) override {
    const auto tag = message.header.tag;
    if (message.header.type == wire::Type::kRead) return from->send(read(tag, message));
    if (message.header.type == wire::Type::kWrite) return from->send(write(tag, message));
    from->send({.frame = wire::encode(wire::HealthReply{.node = "server"}, {.tag = tag})});
  }
  void closed(const ConnectionPointer&, const Error&) override { ++closed_; }

  std::atomic<int> closed_{0};
  std::atomic<int> by_reference_{0};  // payloads received by reference

 private:
  Outgoing read(std::uint64_t tag, const Incoming& message) {
    const auto request = wire::decode<wire::ReadRequest>(message.header, message.body).value();
    Buffer buffer = pool_->allocate(wire::total(request.extents).count());
    wire::ReadReply reply;
    std::size_t at = 0;
    for (const auto& extent : request.extents) {
      reply.lengths.push_back(static_cast<std::uint32_t>(extent.length));
      for (std::uint64_t i = 0; i < extent.length; ++i) buffer.data()[at++] = pattern(extent.offset + i);
    }
    Outgoing out{.frame = wire::encode(reply, {.tag = tag, .payload = buffer.span(), .checksum = request.checksum})};
    out.payload = std::move(buffer);
    return out;
  }
  Outgoing write(std::uint64_t tag, Incoming& message) {
    by_reference_ += message.pages.size() > 0 ? 1 : 0;
    if (!message.pages.read(message.payload.span().subspan(message.pages_at))) return {};
    const auto request = wire::decode<wire::WriteRequest>(message.header, message.body).value();
    wire::WriteReply reply{.written = message.payload.size()};
    std::size_t at = 0;
    for (const auto& extent : request.extents) {
      for (std::uint64_t i = 0; i < extent.length; ++i) {
        if (message.payload.data()[at++] != pattern(extent.offset + i)) reply.head.status = EIO;
      }
    }
    return {.frame = wire::encode(reply, {.tag = tag})};
  }
  std::shared_ptr<BufferPool> pool_ = BufferPool::create(Bytes(64 << 20));
};

Outgoing read_request(std::uint64_t tag, wire::Extents extents, bool checksum = false) {
  wire::ReadRequest request{.checksum = checksum, .extents = std::move(extents)};
  return {.frame = wire::encode(request, {.tag = tag})};
}

Outgoing health_request(std::uint64_t tag) {
  return {.frame = wire::encode(wire::HealthRequest{}, {.tag = tag})};
}

const ClusterKey kKey(32, std::byte{42});

class TransportTest : public testing::TestWithParam<Endpoint::Kind> {
 protected:
  void SetUp() override {
    auto transport = Transport::create({.threads = 2});
    ASSERT_TRUE(transport);
    transport_ = std::move(*transport);
    static std::atomic<int> serial{0};
    const auto name = "tutti-" + std::to_string(::getpid()) + "-" + std::to_string(serial++);
    endpoint_.kind = GetParam();
    endpoint_.name = GetParam() == Endpoint::Kind::kTcp ? "127.0.0.1" : "/tmp/" + name + ".sock";
  }

  std::unique_ptr<Listener> listen(Handler& handler, ListenOptions options = {}) {
    if (!options.key) options.key = kKey;
    auto listener = transport_->listen(endpoint_, options, handler);
    EXPECT_TRUE(listener) << listener.error().message;
    endpoint_ = (*listener)->endpoint();
    return std::move(*listener);
  }
  Result<ConnectionPointer> try_connect(Recorder& handler, ConnectOptions options = {.key = kKey}) {
    auto connection = connect_and_wait(*transport_, endpoint_, options, handler);
    if (connection) handler.owns(*connection);
    return connection;
  }
  ConnectionPointer connect(Recorder& handler) {
    auto connection = try_connect(handler);
    EXPECT_TRUE(connection) << connection.error().message;
    return connection ? *connection : nullptr;
  }
  // A socket before the handshake.
  Socket raw() {
    auto socket = connect_to(endpoint_, steady_now() + 5s);
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }

  std::unique_ptr<Transport> transport_;
  Endpoint endpoint_;
};

INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         testing::Values(Endpoint::Kind::kUnix, Endpoint::Kind::kTcp, Endpoint::Kind::kLocal),
                         [](const auto& kind) {
                           return kind.param == Endpoint::Kind::kUnix  ? "Unix"
                                  : kind.param == Endpoint::Kind::kTcp ? "Tcp"
                                                                       : "Local";
                         });

TEST_P(TransportTest, ReportsTheIdentityOfThePeer) {
  Recorder node, client;
  auto listener = listen(node, {.node = "n1"});
  auto connection = try_connect(client, {.job = "ior", .key = kKey});
  ASSERT_TRUE(connection);
  EXPECT_EQ((*connection)->welcome().node, "n1");
  (*connection)->send(health_request(1));
  ASSERT_TRUE(node.wait_for_messages(1));
  EXPECT_EQ(node.from(0)->peer().identity.uid, ::geteuid());
  EXPECT_EQ(node.from(0)->peer().identity.gid, ::getegid());
  EXPECT_EQ(node.from(0)->peer().job, "ior");
  EXPECT_EQ(listener->connections(), 1u);
}

TEST_P(TransportTest, RepliesMayArriveInAnyOrder) {
  Recorder node, client;
  auto listener = listen(node);
  auto connection = connect(client);
  for (std::uint64_t tag = 0; tag < 200; ++tag) connection->send(health_request(tag));
  ASSERT_TRUE(node.wait_for_messages(200));
  for (std::uint64_t tag = 200; tag-- > 0;) {
    node.from(tag)->send({.frame = wire::encode(wire::HealthReply{.process = 7}, {.tag = tag})});
  }
  ASSERT_TRUE(client.wait_for_messages(200));
  EXPECT_EQ(client.messages_.front().header.tag, 199u);
  EXPECT_EQ(client.messages_.back().header.tag, 0u);
}

TEST_P(TransportTest, PayloadsArriveUnchangedInBothDirections) {
  Server node;
  Recorder client;
  auto listener = listen(node);
  auto connection = connect(client);
  Prng random(7);
  std::vector<std::byte> file(3 << 20);
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = pattern(i);
  for (std::uint64_t tag = 0; tag < 60; ++tag) {
    const auto offset = random.below(2 << 20);
    const auto length = 1 + random.below(tag % 3 == 0 ? 900000 : 9000);
    if (tag % 2 == 0) {
      connection->send(read_request(tag, {{offset, length}}, true));
      continue;
    }
    const auto data = std::span<const std::byte>(file).subspan(offset, length);
    wire::WriteRequest request{.extents = {{offset, length}}};
    Outgoing out{.frame = wire::encode(request, {.tag = tag, .payload = data, .checksum = true})};
    out.borrowed = {data.first(length / 3), data.subspan(length / 3)};
    connection->send(std::move(out));
  }
  ASSERT_TRUE(client.wait_for_messages(60));
  for (const auto& message : client.messages_) {
    ASSERT_EQ(wire::decode_head(message.body)->status, 0);
    if (message.header.type != wire::Type::kRead) continue;
    ASSERT_GT(message.payload.size(), 0u);
  }
}

// Alone or after small ones, aligned or not, larger than a pipe, sent by reference or copied.
TEST_P(TransportTest, PayloadsMayArriveByReference) {
  Server node;
  Recorder client;
  auto listener = listen(node, {.by_reference = true, .pages = true});
  auto connection = connect(client);
  EXPECT_TRUE(connection->welcome().by_reference);
  Prng random(8);
  std::vector<std::byte> file(8 << 20);
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = pattern(i);
  for (std::uint64_t tag = 0; tag < 60; ++tag) {
    const auto offset = tag % 4 == 0 ? tag << 12 : random.below(2 << 20);
    const auto length = tag % 4 == 0 ? 1 << 20 : 1 + random.below(tag % 4 == 1 ? 4 << 20 : tag % 4 == 2 ? 200000 : 900);
    const auto data = std::span<const std::byte>(file).subspan(offset, length);
    const wire::WriteRequest request{.extents = {{offset, length}}};
    Outgoing out;
    if (tag % 5 == 0)
      out.borrowed = {data.first(length / 3), data.subspan(length / 3)};
    else
      out.borrowed = {data};
    if (tag % 3 == 0)  // its header has no lead
      out.frame = wire::encode(request, {.tag = tag, .payload = data});
    else
      out.frame = wire::encode_scattered(request, tag, out.borrowed, false);
    connection->send(std::move(out));
  }
  ASSERT_TRUE(client.wait_for_messages(60));
  for (const auto& message : client.messages_) ASSERT_EQ(wire::decode_head(message.body)->status, 0);
  EXPECT_GT(node.by_reference_, 20);
}

// From the second payload on, page boundaries are those of the sender's memory.
TEST_P(TransportTest, PagesSentByReferenceStayWhole) {
  Recorder node, client;
  auto listener = listen(node, {.by_reference = true, .pages = true});
  auto connection = connect(client);
  const std::vector<std::byte> memory(3 << 20);
  const std::byte* const page = memory.data() + wire::lead_of(memory.data());
  for (std::size_t i = 0; i < 6; ++i) {
    const std::span<const std::byte> data(page + i * 1000 % wire::kPage, 1 << 20);
    Outgoing out{.borrowed = {data}};
    out.frame = wire::encode_scattered(wire::WriteRequest{.extents = {{0, data.size()}}}, i, out.borrowed, false);
    connection->send(std::move(out));
    ASSERT_TRUE(node.wait_for_messages(i + 1));
    std::lock_guard lock(node.mutex_);
    Incoming& message = node.messages_.back();
    if (i > 0) {
      EXPECT_EQ(message.pages_at, wire::lead_of(data.data()));
    }
    if (i > 0 && GetParam() != Endpoint::Kind::kTcp) {  // TCP splits some pages at segment boundaries
      EXPECT_EQ(message.pages.size(), data.size() - message.pages_at);
    }
    message.pages = {};
  }
}

TEST_P(TransportTest, AReplyIsReceivedDirectlyIntoTheCallersMemory) {
  Server node;
  Recorder client;
  auto listener = listen(node);
  auto connection = connect(client);
  std::vector<std::byte> memory(1 << 20);
  client.receive_memory_[5] = {std::span(memory).subspan(1000, 500000), std::span(memory).subspan(700000, 100000)};
  connection->send(read_request(5, {{0, 600000}}, true));
  connection->send(read_request(6, {{9, 100}}));
  ASSERT_TRUE(client.wait_for_messages(2));
  EXPECT_TRUE(client.messages_[0].payload.empty());
  for (std::size_t i = 0; i < 500000; ++i) ASSERT_EQ(memory[1000 + i], pattern(i));
  for (std::size_t i = 0; i < 100000; ++i) ASSERT_EQ(memory[700000 + i], pattern(500000 + i));
  EXPECT_EQ(client.messages_[1].payload.data()[0], pattern(9));
}

TEST_P(TransportTest, ANodeReadsNoMoreThanItsLimitUntilItHasReplied) {
  Recorder node, client;
  auto listener = listen(node, {.limits = {.requests = 8, .bytes = 1 << 20}});
  auto connection = connect(client);
  for (std::uint64_t tag = 0; tag < 500; ++tag) connection->send(health_request(tag));
  ASSERT_TRUE(node.wait_for_messages(8));
  for (std::size_t replied = 0; replied < 500; ++replied) {
    ASSERT_TRUE(node.wait_for_messages(replied + 1));
    EXPECT_LE(node.count(), replied + 8);
    std::lock_guard lock(node.mutex_);
    const auto tag = node.messages_[replied].header.tag;
    node.from_[replied]->send({.frame = wire::encode(wire::HealthReply{}, {.tag = tag})});
  }
  ASSERT_TRUE(client.wait_for_messages(500));
}

TEST_P(TransportTest, PayloadsOfAllClientsFitIntoThePool) {
  Recorder node;
  auto pool = BufferPool::create(Bytes(16 << 20));
  auto listener = listen(node, {.pool = pool});
  const std::vector<std::byte> megabyte(1 << 20);
  std::vector<std::unique_ptr<Recorder>> clients;
  std::vector<ConnectionPointer> connections;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Recorder>());
    connections.push_back(connect(*clients.back()));
    for (std::uint64_t tag = 0; tag < 10; ++tag) {
      wire::WriteRequest request{.extents = {{0, 1 << 20}}};
      Outgoing out{.frame = wire::encode(request, {.tag = tag, .payload = megabyte})};
      out.borrowed = {megabyte};
      connections.back()->send(std::move(out));
    }
  }
  for (std::size_t done = 0; done < 40; ++done) {
    ASSERT_TRUE(node.wait_for_messages(done + 1));
    EXPECT_LE(pool->in_use(), pool->budget());
    std::lock_guard lock(node.mutex_);
    node.messages_[done].payload = Buffer();
    node.from_[done]->send(
        {.frame = wire::encode(wire::WriteReply{.written = 1 << 20}, {.tag = node.messages_[done].header.tag})});
  }
  for (auto& client : clients) EXPECT_TRUE(client->wait_for_messages(10));
  EXPECT_EQ(pool->in_use().count(), 0u);
}

TEST_P(TransportTest, ARepeatedTagClosesOnlyItsOwnConnection) {
  Recorder node, client, other;
  auto listener = listen(node);
  auto connection = connect(client);
  auto bystander = connect(other);
  connection->send(health_request(1));
  connection->send(health_request(1));
  ASSERT_TRUE(client.wait_for_close());
  EXPECT_THAT(client.why_[0].message, HasSubstr("in flight already"));
  bystander->send(health_request(1));
  ASSERT_TRUE(node.wait_for_messages(2));
  EXPECT_TRUE(other.why_.empty());
}

TEST_P(TransportTest, CloseIsReportedOnceOnBothSides) {
  Recorder node, client;
  auto listener = listen(node);
  auto connection = connect(client);
  connection->send(health_request(1));
  ASSERT_TRUE(node.wait_for_messages(1));
  connection->close({ErrorCode::kStopped, "enough"});
  connection->close({ErrorCode::kStopped, "again"});
  ASSERT_TRUE(client.wait_for_close() && node.wait_for_close());
  EXPECT_EQ(client.why_[0].message, "enough");
  connection->send(health_request(2));
  node.from(0)->send({.frame = wire::encode(wire::HealthReply{}, {.tag = 1})});
  node.from_.clear();
  listener.reset();
  EXPECT_EQ(client.why_.size(), 1u);
  EXPECT_EQ(node.why_.size(), 1u);
}

TEST_P(TransportTest, DestroyingAListenerClosesItsConnections) {
  Server node;
  Recorder client;
  auto listener = listen(node);
  std::vector<ConnectionPointer> connections;
  for (int i = 0; i < 20; ++i) connections.push_back(connect(client));
  for (auto& connection : connections) connection->send(health_request(1));
  ASSERT_TRUE(client.wait_for_messages(20));
  listener.reset();
  EXPECT_EQ(node.closed_, 20);
  EXPECT_TRUE(client.wait_for_close(20));
  EXPECT_FALSE(try_connect(client, {.key = kKey, .timeout = 1s}));
}

TEST_P(TransportTest, ManyThreadsMayUseOneConnection) {
  Server node;
  Recorder client;
  auto listener = listen(node);
  auto connection = connect(client);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 200; ++i) connection->send(read_request(t * 1000 + i, {{i, 3000}}, true));
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(client.wait_for_messages(800));
  EXPECT_TRUE(client.why_.empty());
}

class AwaitingClient : public Recorder {
 public:
  void received(const ConnectionPointer& from, Incoming message) override {
    if (message.header.tag >= kAlone && waiting_) ++strangers_;
    Recorder::received(from, std::move(message));
  }
  bool has(std::uint64_t tag) {
    std::lock_guard lock(mutex_);
    return std::ranges::any_of(messages_, [&](const Incoming& message) { return message.header.tag == tag; });
  }
  static constexpr std::uint64_t kAlone = 1 << 20;  // no thread awaits replies with tags from here on
  static inline thread_local bool waiting_ = false;
  std::atomic<int> strangers_{0};
};

// Threads in await_reply() get their replies. Other replies are delivered, too, but not on those threads.
TEST_P(TransportTest, AThreadMayReceiveItsOwnReply) {
  Server node;
  AwaitingClient client;
  auto listener = listen(node);
  auto connection = connect(client);
  constexpr std::uint64_t kEach = 300;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      AwaitingClient::waiting_ = true;
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const auto tag = t * kEach + i;
        connection->send(health_request(tag));
        if (i % 4 == 0) connection->send(health_request(AwaitingClient::kAlone + tag));
        connection->await_reply(tag, [&] { return !client.has(tag); });
        std::unique_lock lock(client.mutex_);  // another thread may have received it, or be about to
        ASSERT_TRUE(client.changed_.wait_for(lock, 60s, [&] {
          return std::ranges::any_of(client.messages_, [&](const Incoming& one) { return one.header.tag == tag; });
        }));
      }
    });
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(client.wait_for_messages(3 * kEach + 3 * kEach / 4));
  EXPECT_EQ(client.strangers_, 0);
  std::thread waiting([&] {  // for a reply that never arrives
    connection->await_reply(1 << 30, [] { return true; });
  });
  connection->send(health_request(AwaitingClient::kAlone));
  ASSERT_TRUE(client.wait_for_messages(3 * kEach + 3 * kEach / 4 + 1));
  connection->close({ErrorCode::kStopped, "enough"});
  waiting.join();
}

// A single thread waits only for the socket: no event may be lost between it and the loop.
TEST_P(TransportTest, AThreadInAwaitReplyNeverMissesItsReply) {
  Server node;
  Recorder client;
  auto listener = listen(node);
  auto connection = connect(client);
  for (std::uint64_t tag = 0; tag < 5000; ++tag) {
    connection->send(health_request(tag));
    if (tag % 3 == 0) std::this_thread::yield();
    connection->await_reply(tag, [&] { return client.count() <= tag; });
    ASSERT_TRUE(client.wait_for_messages(tag + 1));
  }
}

TEST_P(TransportTest, RandomAndDamagedBytesDoNotAffectOtherConnections) {
  if (GetParam() == Endpoint::Kind::kLocal) GTEST_SKIP() << "raw sockets cannot connect inside the process";
  Server node;
  Recorder client;
  auto listener = listen(node, {.handshake_timeout = 500ms});
  auto connection = connect(client);
  Prng random(3);
  const auto good = wire::encode(wire::Hello{.job = "x", .methods = 2}, {});
  for (int round = 0; round < 60; ++round) {
    auto socket = raw();
    auto bytes = good;
    if (round % 4 == 0) bytes.resize(random.below(bytes.size()));              // truncated
    if (round % 4 == 1) bytes[random.below(bytes.size())] ^= std::byte{0x40};  // damaged
    if (round % 4 == 2) bytes = wire::encode(wire::HealthRequest{}, {});       // out of order
    if (round % 4 == 3) {
      bytes.resize(random.below(5000) + 1);
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    }
    (void)!::send(socket.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    connection->send(health_request(static_cast<std::uint64_t>(round)));
  }
  ASSERT_TRUE(client.wait_for_messages(60));
  EXPECT_EQ(listener->connections(), 1u);
}

TEST_P(TransportTest, NothingIsServedBeforeTheHandshake) {
  if (GetParam() == Endpoint::Kind::kLocal) GTEST_SKIP() << "raw sockets cannot connect inside the process";
  Recorder node;
  auto listener = listen(node);
  auto socket = raw();
  const auto frame = wire::encode(wire::HealthRequest{}, {.tag = 4});
  ASSERT_TRUE(send_frame(socket.file(), frame, steady_now() + 5s));
  auto answer = receive_frame(socket.file(), steady_now() + 5s);
  ASSERT_TRUE(answer);
  EXPECT_THAT(wire::decode_head(answer->body)->message, HasSubstr("not authenticated"));
  EXPECT_EQ(receive_frame(socket.file(), steady_now() + 5s).error().code, ErrorCode::kUnreachable);
  EXPECT_EQ(node.count(), 0u);
}

TEST_P(TransportTest, RequestsWithLargeRepliesWaitForMemory) {
  Recorder node, client;
  auto listener = listen(node);
  auto connection = connect(client);
  constexpr std::uint64_t kRequests = 200;
  for (std::uint64_t tag = 0; tag < kRequests; ++tag)
    connection->send({.frame = wire::encode(wire::ReadDirectoryRequest{}, {.tag = tag})});
  ASSERT_TRUE(node.wait_for_messages(40));
  std::this_thread::sleep_for(100ms);
  EXPECT_LE(node.count(), std::size_t{(24 << 20) / wire::kMaxBody / 2});  // one user holds no more than is free
  for (std::size_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(node.wait_for_messages(i + 1));
    node.from(i)->send({.frame = wire::encode(wire::ReadDirectoryReply{}, {.tag = i})});
  }
  EXPECT_TRUE(client.wait_for_messages(kRequests));
}

TEST_P(TransportTest, AnUnauthenticatedIdlePeerIsDisconnected) {
  if (GetParam() == Endpoint::Kind::kLocal) GTEST_SKIP() << "raw sockets cannot connect inside the process";
  Recorder node;
  auto listener = listen(node, {.handshake_timeout = 100ms});
  auto socket = raw();
  EXPECT_EQ(receive_frame(socket.file(), steady_now() + 10s).error().code, ErrorCode::kUnreachable);
}

TEST_P(TransportTest, APeerThatReadsNoRepliesIsDisconnected) {
  if (GetParam() == Endpoint::Kind::kLocal) GTEST_SKIP() << "no raw sockets";
  if (GetParam() == Endpoint::Kind::kTcp) GTEST_SKIP() << "the raw client below has no key";
  Server node;
  auto listener = listen(node, {.send_timeout = 200ms});
  auto socket = raw();
  ASSERT_TRUE(send_frame(socket.file(), wire::encode(wire::Hello{.methods = 2}, {}), steady_now() + 5s));
  ASSERT_TRUE(receive_frame(socket.file(), steady_now() + 5s));
  for (std::uint64_t tag = 0; tag < 4; ++tag) {
    ASSERT_TRUE(send_frame(socket.file(), read_request(tag, {{0, 4 << 20}}).frame, steady_now() + 5s));
  }
  for (int i = 0; i < 1000 && node.closed_ == 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(node.closed_, 1);
}

TEST_P(TransportTest, OverTcpClientsNeedTheClusterKey) {
  if (GetParam() != Endpoint::Kind::kTcp) GTEST_SKIP() << "the kernel reports the user";
  Recorder node, client;
  EXPECT_EQ(transport_->listen(endpoint_, {}, node).error().code, ErrorCode::kInvalid);
  auto listener = listen(node);
  auto wrong = try_connect(client, {.key = ClusterKey(32, std::byte{1})});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kDenied);
  EXPECT_THAT(wrong.error().message, HasSubstr("does not hold the cluster's key"));
  EXPECT_EQ(try_connect(client, {}).error().code, ErrorCode::kDenied);
  auto claimed = try_connect(client, {.key = kKey, .claim = wire::Identity{.uid = 1234, .gid = 5, .groups = {6}}});
  ASSERT_TRUE(claimed);
  (*claimed)->send(health_request(1));
  ASSERT_TRUE(node.wait_for_messages(1));
  EXPECT_EQ(node.from(0)->peer().identity.uid, 1234u);
}

TEST_P(TransportTest, ARequestMayBeAnsweredAgainOrNever) {
  Recorder node, client;
  auto listener = listen(node, {.limits = {.requests = 2}});
  auto connection = connect(client);
  const auto health = [](std::uint64_t tag) {
    return Outgoing{.frame = wire::encode(wire::HealthRequest::Reply{}, {.tag = tag})};
  };
  for (std::uint64_t tag = 1; tag <= 10; ++tag) {
    connection->send(health_request(tag));
    ASSERT_TRUE(node.wait_for_messages(tag));
    node.from(0)->send(health(tag));
    node.from(0)->send(health(1));
    ASSERT_TRUE(client.wait_for_messages(2 * tag));
  }
  // One-way requests have no reply.
  for (int i = 0; i < 10; ++i) connection->send({.frame = wire::encode(wire::GateRelease{}, {.tag = 77})});
  ASSERT_TRUE(node.wait_for_messages(20));
  EXPECT_EQ(client.messages_.back().header.tag, 1u);
}

TEST_P(TransportTest, ConnectionsPerUserAreLimited) {
  if (GetParam() != Endpoint::Kind::kTcp) GTEST_SKIP() << "needs several users";
  Recorder node, client, others;
  auto listener = listen(node, {.max_connections_per_user = 2});
  const auto as = [](std::uint32_t uid) { return ConnectOptions{.key = kKey, .claim = wire::Identity{.uid = uid}}; };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(try_connect(client, as(1234)));
  ASSERT_TRUE(client.wait_for_close(1));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(try_connect(others, as(0)));
  ASSERT_TRUE(try_connect(others, as(1235)));
  client.mine_.front()->close({ErrorCode::kStopped, "makes room"});
  ASSERT_TRUE(client.wait_for_close(2));
  for (int i = 0; i < 2000 && listener->connections() > 7; ++i) std::this_thread::sleep_for(5ms);
  ASSERT_TRUE(try_connect(others, as(1234)));
  // The node counts a connection after it has sent the Welcome.
  for (int i = 0; i < 2000 && listener->connections() < 8; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(listener->connections(), 8u);
}

TEST_P(TransportTest, ARecordedProofIsRefused) {
  if (GetParam() != Endpoint::Kind::kTcp) GTEST_SKIP() << "the kernel reports the user";
  Recorder node;
  auto listener = listen(node);
  const ConnectOptions options{.key = kKey};
  const auto deadline = steady_now() + 10s;
  ClientHandshake honest(options, std::nullopt);
  const auto hello = honest.hello().value();
  auto first = raw();
  ASSERT_TRUE(send_frame(first.file(), hello, deadline));
  auto challenge = receive_frame(first.file(), deadline).value();
  const auto proof = honest.receive(challenge.header, challenge.body).value();
  ASSERT_TRUE(send_frame(first.file(), proof, deadline));
  EXPECT_EQ(wire::decode_head(receive_frame(first.file(), deadline)->body)->status, 0);
  auto second = raw();
  ASSERT_TRUE(send_frame(second.file(), hello, deadline));
  ASSERT_TRUE(receive_frame(second.file(), deadline));
  ASSERT_TRUE(send_frame(second.file(), proof, deadline));
  EXPECT_NE(wire::decode_head(receive_frame(second.file(), deadline)->body)->status, 0);
}

TEST_P(TransportTest, AnEndpointInUseIsRefusedAndAStaleOneReplaced) {
  if (GetParam() == Endpoint::Kind::kTcp) GTEST_SKIP() << "the port is chosen by the system";
  Server node;
  auto listener = listen(node);
  auto second = transport_->listen(endpoint_, {}, node);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().system, EADDRINUSE);
  listener.reset();
  if (GetParam() == Endpoint::Kind::kUnix) {  // as left by a killed process
    Endpoint left = endpoint_;
    Socket dead = std::move(*listen_on(left));
  }
  EXPECT_TRUE(transport_->listen(endpoint_, {}, node));
}

}  // namespace
}  // namespace tutti::net
