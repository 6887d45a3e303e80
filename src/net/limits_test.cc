// SPDX-License-Identifier: Apache-2.0
// Peers that use up the memory or the connections of a node, or stand still.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/testing.h"
#include "net/admission.h"
#include "net/handshake.h"
#include "net/socket.h"
#include "net/transport.h"

namespace tutti::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLarge = wire::kMaxPayload;
constexpr std::size_t kMedium = 128 << 10;  // fits into the buffers of a socket; not a small payload

// Answers writes at once, or keeps them.
class LimitedServer : public Handler {
 public:
  void received(const ConnectionPointer& from, Incoming message) override {
    ++received_;
    const std::lock_guard wait(gate_);
    for (int i = 0; i < notices_; ++i) from->send({.frame = wire::encode(wire::Pull{}, {})});
    if (silent_) return kept_.push_back(std::move(message));
    from->send({.frame = wire::encode(wire::WriteReply{}, {.tag = message.header.tag})});
  }
  void closed(const ConnectionPointer&, const Error&) override { ++closed_; }
  std::atomic<int> closed_{0};
  std::atomic<std::size_t> received_{0};
  std::atomic<bool> silent_{false};
  std::atomic<int> notices_{0};  // sent for each write
  std::mutex gate_;              // while it is held, writes wait in the handler

 private:
  std::vector<Incoming> kept_;  // used by the transport's only thread
};

class LimitsTest : public testing::Test {
 protected:
  void listen(ListenOptions options) {
    transport_ = std::move(*Transport::create({.threads = 1}));
    options.pool = pool_;
    auto listener = transport_->listen(endpoint_, options, server_);
    ASSERT_TRUE(listener) << listener.error().message;
    listener_ = std::move(*listener);
  }
  Socket connect() {
    const TimePoint until = steady_now() + 5s;
    auto socket = connect_to(endpoint_, until);
    EXPECT_TRUE(socket);
    EXPECT_TRUE(send_frame(socket->file(), wire::encode(wire::Hello{.methods = 2}, {}), until));
    EXPECT_TRUE(receive_frame(socket->file(), until));
    return std::move(*socket);
  }
  // Sends a write without the last `missing` bytes.
  static void send_write(const Socket& socket, std::size_t size, std::size_t missing, std::uint64_t tag = 1) {
    alignas(4096) static const std::array<std::byte, kLarge> memory{};  // all of it may be sent as pages
    wire::WriteRequest request;
    request.extents.push_back({0, size});
    const std::span<const std::byte> payload(memory.data(), size);
    auto frame = wire::encode_scattered(request, tag, std::span(&payload, 1), false);
    frame.resize(frame.size() + size - missing);
    ASSERT_TRUE(send_frame(socket.file(), frame, steady_now() + 5s));
  }
  // False: the socket is full.
  static bool send_write_at_once(const Socket& socket, std::size_t size, std::uint64_t tag) {
    static const std::vector<std::byte> memory(size);
    wire::WriteRequest request;
    request.extents.push_back({0, size});
    auto frame = wire::encode(request, {.tag = tag, .payload = memory});
    frame.insert(frame.end(), memory.begin(), memory.end());
    return send_frame(socket.file(), frame, steady_now() + 100ms).has_value();
  }
  static bool answered(const Socket& socket, std::chrono::milliseconds within = 10s) {
    pollfd input{.fd = socket.file(), .events = POLLIN, .revents = 0};
    return ::poll(&input, 1, static_cast<int>(within.count())) > 0 &&
           receive_frame(socket.file(), steady_now() + 1s).has_value();
  }
  static std::size_t descriptors() {
    using std::filesystem::directory_iterator;
    return static_cast<std::size_t>(std::distance(directory_iterator("/proc/self/fd"), directory_iterator()));
  }
  template <typename Condition>
  static bool wait(const Condition& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
    return condition();
  }

  LimitedServer server_;
  const std::shared_ptr<BufferPool> pool_ = BufferPool::create(Bytes(kLarge));  // one large payload
  Endpoint endpoint_{.kind = Endpoint::Kind::kUnix, .name = "/tmp/tutti-limits-" + std::to_string(::getpid())};
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(LimitsTest, AConnectionThatWaitsForMemoryIsServedAlthoughTheOneBeforeItHasLeft) {
  listen({});
  auto holder = std::optional(connect());
  send_write(*holder, kLarge, kLarge);
  auto leaver = std::optional(connect());
  send_write(*leaver, kLarge, kLarge);
  const Socket last = connect();
  send_write(last, kMedium, 0);
  leaver.reset();
  ASSERT_TRUE(wait([&] { return server_.closed_ == 1; }));
  holder.reset();
  EXPECT_TRUE(answered(last));
}

TEST_F(LimitsTest, ClosedConnectionsThatWaitedForMemoryAreReleased) {
  listen({});
  const Socket holder = connect();
  send_write(holder, kLarge, kLarge);
  const std::size_t before = descriptors();
  constexpr int kCount = 50;
  for (int i = 0; i < kCount; ++i) {
    const Socket socket = connect();
    send_write(socket, kLarge, kLarge);
  }
  EXPECT_TRUE(wait([&] { return server_.closed_ == kCount; }));
  EXPECT_TRUE(wait([&] { return descriptors() <= before; })) << descriptors() << " instead of " << before;
}

TEST_F(LimitsTest, APeerThatDoesNotSendItsPayloadLosesItsMemory) {
  listen({.receive_timeout = 100ms});
  std::vector<Socket> slow;
  for (std::size_t i = 0; i < kLarge / kMedium; ++i) {
    slow.push_back(connect());
    send_write(slow.back(), kMedium, i % 2 == 0 ? kMedium : 1);
  }
  const Socket other = connect();
  send_write(other, kMedium, 0);
  EXPECT_TRUE(answered(other));
  EXPECT_TRUE(wait([&] { return server_.closed_ == static_cast<int>(slow.size()); }));
}

TEST_F(LimitsTest, APeerThatDoesNotSendTheRestOfItsRequestIsDisconnected) {
  listen({.receive_timeout = 100ms});
  const Socket slow = connect();
  wire::WriteRequest request;
  request.data.stamp.operation = 1;
  for (std::uint64_t i = 0; i < 1000; ++i) request.extents.push_back({i * 8192, 4096});
  request.on_request = true;
  std::vector<std::byte> frame = wire::encode(request, {.tag = 1});
  frame.pop_back();
  ASSERT_TRUE(send_frame(slow.file(), frame, steady_now() + 5s));
  EXPECT_TRUE(wait([&] { return server_.closed_ == 1; }));
}

// Each message takes one place in the pipe, however small it is. The end of the stream finds the pipe full and nothing
// in the socket.
TEST_F(LimitsTest, APeerThatLeavesWhenItsPayloadHasFilledThePipeLosesItsMemory) {
  listen({.pages = true});
  auto leaver = std::optional(connect());
  const int room = 1 << 20;
  ASSERT_EQ(::setsockopt(leaver->file(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
  {
    const std::lock_guard wait_in_handler(server_.gate_);
    send_write(*leaver, kMedium, 0);
    ASSERT_TRUE(wait([&] { return server_.received_ == 1; }));
    send_write(*leaver, kLarge, kLarge, 2);
    for (std::size_t i = 0; i < PagePipe::kMost / 4096; ++i)
      ASSERT_TRUE(send_frame(leaver->file(), std::vector<std::byte>(1), steady_now() + 5s));
    leaver.reset();
  }
  EXPECT_TRUE(wait([&] { return server_.closed_ == 1; }));
  EXPECT_EQ(pool_->in_use().count(), 0u);
}

TEST_F(LimitsTest, SmallPayloadsHaveMemoryOfTheirOwn) {
  listen({});
  const Socket holder = connect();
  send_write(holder, kLarge, kLarge);
  const Socket other = connect();
  send_write(other, 64 << 10, 0);
  EXPECT_TRUE(answered(other));
}

// They may be what the client must read to go on. Only replies count as requests that are not answered.
TEST_F(LimitsTest, NoticesThatAPeerDoesNotReadDoNotStopItsRequests) {
  server_.silent_ = true;
  server_.notices_ = 20'000;  // more than the socket takes
  listen({});
  const Socket socket = connect();
  send_write(socket, 1, 0, 1);
  ASSERT_TRUE(wait([&] { return server_.received_ == 1; }));
  send_write(socket, 1, 0, 2);
  EXPECT_TRUE(wait([&] { return server_.received_ == 2; }));
}

// No user takes all connections, and root can always connect.
TEST_F(LimitsTest, ConnectionsOfSomeUsersLeaveRoomForOthers) {
  TUTTI_NEEDS(::geteuid() == 0, "root: to connect as another user");
  std::atomic<std::size_t> refused{0};
  listen({.max_connections = 64, .max_connections_per_user = 32, .refused = [&](const std::string&, const Error&) {
            ++refused;
          }});
  const auto connect_as = [&](long user) {                 // false: refused
    EXPECT_EQ(::syscall(SYS_setresuid, -1, user, -1), 0);  // of this thread
    auto socket = connect_to(endpoint_, steady_now() + 5s);
    EXPECT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
    (void)send_frame(socket->file(), wire::encode(wire::Hello{.methods = 2}, {}), steady_now() + 5s);
    const auto answer = receive_frame(socket->file(), steady_now() + 5s);
    const auto welcome = answer ? wire::decode<wire::Welcome>(answer->header, answer->body) : Failure(answer.error());
    if (!welcome || welcome->head.status != wire::kOk) return std::optional<Socket>();
    return std::optional(std::move(*socket));
  };
  std::vector<Socket> open;
  for (const long user : {65534L, 65533L, 65532L}) {
    std::size_t connections = 0;
    for (int i = 0; i < 40; ++i)
      if (auto socket = connect_as(user)) open.push_back(std::move(*socket)), ++connections;
    EXPECT_GE(connections, 2u) << user;
    EXPECT_LE(connections, 32u) << user;
  }
  EXPECT_GT(refused, 0u) << "refusals are reported";
  for (int i = 0; i < 20; ++i) {
    auto socket = connect_as(0);
    ASSERT_TRUE(socket);
    open.push_back(std::move(*socket));
  }
}

// The payload of a large write and the replies of the small ones never come: the small payloads of one user wait.
TEST_F(LimitsTest, SmallPayloadsOfOneUserLeaveMemoryForOthers) {
  TUTTI_NEEDS(::geteuid() == 0, "root: to connect as another user");
  server_.silent_ = true;
  listen({});
  std::vector<Socket> greedy;
  for (std::size_t sent = 0; sent <= 2 * (kLarge + Budget::kReserve); sent += Budget::kSmall) {
    greedy.push_back(connect());
    send_write(greedy.back(), Budget::kSmall, 0);
  }
  ASSERT_TRUE(wait([&] { return server_.received_ * Budget::kSmall >= kLarge / 2; }));
  server_.silent_ = false;
  ASSERT_EQ(::syscall(SYS_setresuid, -1, 65534, -1), 0);  // of this thread
  const Socket other = connect();
  ASSERT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
  send_write(other, Budget::kSmall, 0);
  EXPECT_TRUE(answered(other));
}

// A connection that owes a payload need not wait for memory of its user: the payload is behind its other requests.
// These must not use the memory of other users.
TEST_F(LimitsTest, RequestsBeforePayloadsThatAreNotSentLeaveMemoryForOthers) {
  TUTTI_NEEDS(::geteuid() == 0, "root: to connect as another user");
  server_.silent_ = true;
  server_.notices_ = 1;  // each write is asked for a payload
  listen({});
  std::vector<Socket> greedy;
  for (int i = 0; i < 12; ++i) {
    greedy.push_back(connect());
    send_write(greedy.back(), 1, 0);
    ASSERT_TRUE(answered(greedy.back())) << "the payload is asked for";
  }
  for (std::size_t i = 0; i < greedy.size(); ++i)
    for (std::uint64_t tag = 2; tag < 60; ++tag) {
      const auto list = wire::encode(wire::ReadDirectoryRequest{.path = "d"}, {.tag = tag});
      if (i < 4)
        ASSERT_TRUE(send_frame(greedy[i].file(), list, steady_now() + 5s));
      else if (!send_write_at_once(greedy[i], Budget::kSmall, tag))
        break;
    }
  std::this_thread::sleep_for(200ms);
  server_.silent_ = false;
  server_.notices_ = 0;
  ASSERT_EQ(::syscall(SYS_setresuid, -1, 65534, -1), 0);  // of this thread
  const Socket other = connect();
  ASSERT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
  send_write(other, Budget::kSmall, 0);
  EXPECT_TRUE(answered(other));
}

TEST(BufferPool, AClientThatReleasesNothingLeavesMemoryForOthers) {
  const auto pool = BufferPool::create(Bytes(32 << 20));
  int released = 0;
  pool->when_released([&] { ++released; });
  const auto slow = std::make_shared<BufferAccount>(), other = std::make_shared<BufferAccount>();
  std::vector<Buffer> held;
  while (pool->within_share(*slow, 1 << 20)) {
    held.push_back(pool->try_allocate(1 << 20));
    held.back().charge(slow);
  }
  EXPECT_EQ(slow->held, std::size_t{16 << 20});
  EXPECT_TRUE(pool->within_share(*other, 16 << 20));
  held.pop_back();
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(pool->within_share(*slow, 1 << 20));
  held.clear();
  EXPECT_EQ(slow->held, 0u);
}

}  // namespace
}  // namespace tutti::net
