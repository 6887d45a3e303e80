// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "net/admission.h"
#include "net/crypto.h"
#include "net/endpoint.h"
#include "net/handshake.h"
#include "net/peer_clock.h"
#include "net/watchdog.h"

namespace tutti::net {
namespace {

using ::testing::HasSubstr;

TEST(BufferPool, NeverExceedsItsBudget) {
  auto pool = BufferPool::create(Bytes(16 << 20));
  std::vector<Buffer> held;
  for (int i = 0; i < 16; ++i) {
    held.push_back(pool->try_allocate(1 << 20));
    ASSERT_FALSE(held.back().empty());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back().data()) % kBufferAlignment, 0u);
  }
  EXPECT_TRUE(pool->try_allocate(Budget::kSmall + 1).empty());
  bool notified = false;
  pool->when_released([&] { notified = true; });
  EXPECT_TRUE(pool->try_allocate(Budget::kSmall + 1).empty());
  held.pop_back();
  EXPECT_TRUE(notified);
  // Buffers kept for reuse are freed if another size needs the budget.
  held.clear();
  EXPECT_EQ(pool->try_allocate(16 << 20).size(), std::size_t{16 << 20});
  EXPECT_EQ(pool->in_use().count(), 0u);
}

TEST(BufferPool, AWaitingThreadGetsReleasedMemory) {
  auto pool = BufferPool::create(Bytes(16 << 20));
  Buffer all = pool->allocate(16 << 20);
  std::thread waiter([&] { EXPECT_EQ(pool->allocate(5).size(), 5u); });
  all = Buffer();
  waiter.join();
}

TEST(BufferPool, ABufferKeepsItsPoolAlive) {
  Buffer buffer = BufferPool::create(Bytes(1))->allocate(100);
  buffer.resize(4096);
  EXPECT_EQ(buffer.span().size(), 4096u);
  Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.size(), 4096u);
}

TEST(Endpoint, ParsesItsOwnText) {
  for (const std::string text : {"unix:/tmp/a.sock", "tcp:localhost:7000", "tcp:[::1]:0", "local:x"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(to_text(*endpoint), text);
  }
  for (const std::string text : {"", "unix:", "tcp:host", "tcp:host:x", "tcp:host:70000", "tcp:::1:80", "serial:1"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_THAT(endpoint.error().message, HasSubstr("unix:/path"));
  }
}

TEST(Crypto, DigestsDependOnKeyPurposeAndParts) {
  const ClusterKey key(32, std::byte{1}), other(32, std::byte{2});
  const std::vector<std::byte> ab(2, std::byte{7}), a(1, std::byte{7});
  const auto digest = authenticate(key, "client", {ab, a});
  EXPECT_TRUE(same_digest(digest, authenticate(key, "client", {ab, a})));
  EXPECT_FALSE(same_digest(digest, authenticate(other, "client", {ab, a})));
  EXPECT_FALSE(same_digest(digest, authenticate(key, "node", {ab, a})));
  EXPECT_FALSE(same_digest(digest, authenticate(key, "client", {a, ab})));
  EXPECT_NE(random_nonce(), random_nonce());
}

TEST(Crypto, AKeyThatOthersCanReadIsRefused) {
  const auto path = std::filesystem::temp_directory_path() / ("tutti-key-" + std::to_string(::getpid()));
  std::ofstream(path) << std::string(32, 'k');
  ::chmod(path.c_str(), 0644);
  EXPECT_EQ(load_key(path).error().code, ErrorCode::kDenied);
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(load_key(path)->size(), 32u);
  std::ofstream(path) << "short";
  EXPECT_EQ(load_key(path).error().code, ErrorCode::kInvalid);
  std::filesystem::remove(path);
  EXPECT_EQ(load_key(path).error().code, ErrorCode::kNotFound);
}

// A client's handshake with a simulated node: over TCP, or over a Unix socket if the node's user is given.
class FakeNode {
 public:
  explicit FakeNode(ConnectOptions options, std::optional<wire::Identity> known = std::nullopt)
      : options_(std::move(options)), client_(options_, std::move(known)) {
    hello_ = body_of(client_.hello().value());
  }

  // The client's answer to a challenge.
  Result<wire::Proof> challenge(wire::Method method) {
    const auto frame = wire::encode(wire::Challenge{method, {}}, {});
    challenge_ = body_of(frame);
    auto proof = client_.receive(header_of(frame), challenge_);
    if (!proof) return Failure(proof.error());
    return wire::decode<wire::Proof>(header_of(*proof), body_of(*proof));
  }
  // The client's error; "" if it accepts the welcome.
  std::string welcome(const wire::Welcome& welcome) {
    const auto frame = wire::encode(welcome, {});
    auto taken = client_.receive(header_of(frame), body_of(frame));
    if (taken) return "";
    EXPECT_EQ(taken.error().code, ErrorCode::kDenied);
    return taken.error().message;
  }
  wire::Digest digest(const ClusterKey& key, const std::string& purpose) const {
    return authenticate(key, purpose, {hello_, challenge_});
  }

 private:
  static wire::Header header_of(const std::vector<std::byte>& frame) {
    return wire::decode_header(std::span(frame).first<wire::kHeaderSize>()).value();
  }
  static std::vector<std::byte> body_of(const std::vector<std::byte>& frame) {
    return {frame.begin() + wire::kHeaderSize, frame.end()};
  }

  const ConnectOptions options_;
  ClientHandshake client_;
  std::vector<std::byte> hello_, challenge_;
};

TEST(Handshake, OverTcpAClientRequiresTheNodesProof) {
  const ClusterKey key(32, std::byte{1}), other(32, std::byte{2});
  const ConnectOptions options{.key = key};
  EXPECT_THAT(FakeNode(options).welcome({}), HasSubstr("did not authenticate itself"));
  const auto after_challenge = [&](auto&& welcome_of) {
    FakeNode node(options);
    const auto proof = node.challenge(wire::Method::kKey).value();
    return node.welcome(welcome_of(node, proof));
  };
  EXPECT_THAT(after_challenge([](auto&, auto&) { return wire::Welcome{}; }), HasSubstr("does not hold")) << "none";
  EXPECT_THAT(after_challenge([](auto&, auto& proof) { return wire::Welcome{.digest = proof.digest}; }),
              HasSubstr("does not hold"))
      << "the client's own, sent back";
  EXPECT_THAT(
      after_challenge([&](auto& node, auto&) { return wire::Welcome{.digest = node.digest(other, "tutti 3 node")}; }),
      HasSubstr("does not hold"))
      << "with another key";
  FakeNode earlier(options);
  ASSERT_TRUE(earlier.challenge(wire::Method::kKey));
  EXPECT_THAT(
      after_challenge([&](auto&, auto&) { return wire::Welcome{.digest = earlier.digest(key, "tutti 3 node")}; }),
      HasSubstr("does not hold"))
      << "of an earlier handshake";
  EXPECT_EQ(
      after_challenge([&](auto& node, auto&) { return wire::Welcome{.digest = node.digest(key, "tutti 3 node")}; }),
      "");
}

TEST(Handshake, ANodeCannotChooseAWeakerMethod) {
  const ConnectOptions keyed{.key = ClusterKey(32, std::byte{1})};
  EXPECT_EQ(FakeNode(keyed).challenge(wire::Method::kMunge).error().code, ErrorCode::kProtocol);
  EXPECT_EQ(FakeNode(keyed).challenge(wire::Method::kPeer).error().code, ErrorCode::kProtocol);
  EXPECT_EQ(FakeNode({.munge = true}).challenge(wire::Method::kKey).error().code, ErrorCode::kProtocol);
  EXPECT_THAT(FakeNode({.munge = true}).welcome({}), HasSubstr("did not authenticate itself"));
  const ConnectOptions nothing;
  EXPECT_EQ(ClientHandshake(nothing, std::nullopt).hello().error().code, ErrorCode::kDenied);
}

TEST(Handshake, AUnixSocketOfAnUntrustedUserIsRefused) {
  const auto served_by = [](std::uint32_t uid, ConnectOptions options = {}) {
    return FakeNode(std::move(options), wire::Identity{.uid = uid, .gid = uid}).welcome({});
  };
  EXPECT_EQ(served_by(0), "");
  EXPECT_EQ(served_by(::geteuid()), "");
  EXPECT_THAT(served_by(4711), HasSubstr("node_user"));
  EXPECT_EQ(served_by(4711, {.node_user = 4711}), "");
  EXPECT_THAT(served_by(4712, {.node_user = 4711}), HasSubstr("runs as user 4712"));
}

TEST(Handshake, ANodeRefusesAClientThatNamesAnotherNode) {
  const ListenOptions listen{.node = "io1", .now = steady_now};
  const auto state_for = [&](const std::string& meant) {
    const ConnectOptions connect{.node = meant};
    const auto frame = ClientHandshake(connect, wire::Identity{}).hello().value();
    NodeHandshake node(listen, wire::Identity{});
    return node.receive(*wire::decode_header(std::span(frame).first<wire::kHeaderSize>()),
                        std::span(frame).subspan(wire::kHeaderSize));
  };
  EXPECT_EQ(state_for("io1").state, NodeHandshake::Step::State::kAccepted);
  EXPECT_EQ(state_for("").state, NodeHandshake::Step::State::kAccepted);
  EXPECT_EQ(state_for("io2").state, NodeHandshake::Step::State::kRefused);
}

// Runs `child` in a new process and returns its process id.
pid_t in_child(const std::function<void()>& child) {
  const pid_t process = ::fork();
  if (process == 0) {
    child();
    ::_exit(0);
  }
  return process;
}

// ThreadSanitizer does not support threads in a child that was made by fork() beside other threads.
#ifdef __SANITIZE_THREAD__
#define TUTTI_SKIP_UNDER_TSAN GTEST_SKIP() << "starts threads after fork()"
#else
#define TUTTI_SKIP_UNDER_TSAN static_cast<void>(0)
#endif

TEST(Watchdog, DoesNotKillARunningProcess) {
  TUTTI_SKIP_UNDER_TSAN;
  int status = -1;
  ::waitpid(in_child([] {
              auto watchdog = Watchdog::start(std::chrono::milliseconds(400));
              std::this_thread::sleep_for(std::chrono::milliseconds(1000));
              watchdog->reset();
              std::this_thread::sleep_for(std::chrono::milliseconds(600));
            }),
            &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Watchdog, KillsAStoppedProcess) {
  TUTTI_SKIP_UNDER_TSAN;
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t process = in_child([&] {
    auto watchdog = Watchdog::start(std::chrono::milliseconds(200));
    (void)!::write(pipe[1], "x", 1);
    std::this_thread::sleep_for(std::chrono::seconds(30));
  });
  char started = 0;
  ASSERT_EQ(::read(pipe[0], &started, 1), 1);
  ::kill(process, SIGSTOP);
  int status = -1;
  ::waitpid(process, &status, 0);  // waitpid() does not return for a stopped process: it was killed
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(PeerClock, ImpossibleTimesOfThePeerAreClamped) {
  using namespace std::chrono_literals;
  const TimePoint here(1h);
  for (const TimePoint there : {TimePoint::min(), TimePoint::max(), TimePoint(-1ns), TimePoint(5h)}) {
    PeerClock clock;
    clock.sample(there, here);
    const Duration ahead = clock.node_time(here + 24h) - clock.node_time(here);
    EXPECT_LE(ahead, 24h);
    EXPECT_GE(ahead, 24h - 20s) << "less the drift";
  }
}

}  // namespace
}  // namespace tutti::net
