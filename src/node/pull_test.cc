// SPDX-License-Identifier: Apache-2.0
// Payloads that a live node pulls, and clients that break the rules for them.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temporary_directory.h"
#include "node/data_path.h"
#include "node/engine_latch_testing.h"
#include "node/node.h"
#include "node/test_client.h"

namespace tutti::node {
namespace {

constexpr std::size_t kSize = 1 << 20;

// Threads that are created while it exists have 2 MiB: enough for those of ThreadSanitizer.
class SmallStacks {
 public:
  SmallStacks() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t small = before_;
    ::pthread_attr_setstacksize(&small, 2 << 20);
    ::pthread_setattr_default_np(&small);
  }
  ~SmallStacks() { ::pthread_setattr_default_np(&before_); }

 private:
  pthread_attr_t before_{};
};

class PullTest : public testing::Test {
 protected:
  void start(Bytes write_buffers = Bytes(8 << 20)) {
    std::filesystem::create_directory(base_ / "data");
    options_.directory = base_ / "data";
    options_.listen = {endpoint_};
    options_.write_buffers = write_buffers;
    auto node = Node::start(options_);
    ASSERT_TRUE(node) << node.error().message;
    node_ = std::move(*node);
  }
  static wire::FileReference create(TestClient& client) {
    EXPECT_EQ(client.call(wire::CreateRequest{.path = "f"}).head.status, 0);
    return {1, "f", 0};
  }
  // Sends a write without its payload.
  static std::uint64_t announce(TestClient& client, const wire::FileReference& file, wire::Extents extents) {
    wire::WriteRequest request;
    request.data.file = file;
    request.on_request = true;
    request.extents = std::move(extents);
    return client.send(request);
  }
  std::string content() {
    std::ifstream stream(base_ / "data" + "/f");
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  bool settles() {
    for (int i = 0; i < 4000; ++i) {
      const auto now = node_->statistics();
      if (now.waiting + now.in_flight + now.buffer_bytes == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  const TemporaryDirectory base_;
  const std::string endpoint_ = "unix:" + base_ / "socket";
  NodeOptions options_;
  std::unique_ptr<Node> node_;
};

TEST_F(PullTest, PulledPayloadsAreWritten) {
  start();
  TestClient client(endpoint_);
  const auto file = create(client);
  for (const bool checksums : {true, false}) {  // without: by reference
    client.checksums = checksums;
    const std::string data(kSize, checksums ? 'c' : 'r');
    const auto tag = announce(client, file, {{0, kSize}});
    ASSERT_TRUE(client.pulled(tag));
    EXPECT_FALSE(client.answered(tag));
    client.tell(wire::Payload{}, tag, data);
    EXPECT_EQ(client.head(tag).status, 0);
    EXPECT_TRUE(content() == data);
  }
  const auto list = announce(client, file, {{0, 3}, {kSize, 4}});
  ASSERT_TRUE(client.pulled(list));
  client.tell(wire::Payload{}, list, "abcdefg");
  EXPECT_EQ(client.head(list).status, 0);
  EXPECT_EQ(content().substr(0, 4), "abcr");
  EXPECT_EQ(content().substr(kSize), "defg");
}

TEST_F(PullTest, AClientCanWithdrawAWriteItCannotRead) {
  start();
  TestClient client(endpoint_);
  const auto tag = announce(client, create(client), {{0, kSize}});
  ASSERT_TRUE(client.pulled(tag));
  client.tell(wire::Payload{}, tag);
  EXPECT_EQ(client.head(tag).status, EFAULT);
  EXPECT_TRUE(settles());
}

TEST_F(PullTest, ALatePayloadIsRefused) {
  start();
  TestClient client(endpoint_);
  const auto tag = announce(client, create(client), {{0, kSize}});
  ASSERT_TRUE(client.pulled(tag));
  client.tell(wire::Payload{.deadline = net::steady_now() - std::chrono::seconds(1)}, tag, std::string(kSize, 'x'));
  EXPECT_EQ(client.head(tag).status, wire::kExpired);
  EXPECT_EQ(content(), "");
}

TEST_F(PullTest, PayloadsThatWereNotAskedForCloseTheConnection) {
  start();
  const std::string data(kSize, 'x');
  enum class Lie { kUnknownTag, kTwice, kTooShort, kTooLong, kTwiceWithdrawn };
  for (const Lie lie : {Lie::kUnknownTag, Lie::kTwice, Lie::kTooShort, Lie::kTooLong, Lie::kTwiceWithdrawn}) {
    TestClient client(endpoint_);
    const auto tag = announce(client, create(client), {{0, kSize}});
    ASSERT_TRUE(client.pulled(tag));
    switch (lie) {
      case Lie::kUnknownTag:
        client.tell(wire::Payload{}, tag + 1, data);
        break;
      case Lie::kTwice:
        client.tell(wire::Payload{}, tag, data);
        client.tell(wire::Payload{}, tag, data);
        break;
      case Lie::kTooShort:
        client.tell(wire::Payload{}, tag, data.substr(1));
        break;
      case Lie::kTooLong:
        client.tell(wire::Payload{}, tag, data + "x");
        break;
      default:
        client.tell(wire::Payload{}, tag);
        client.tell(wire::Payload{}, tag);
    }
    EXPECT_TRUE(client.closed_by_node()) << static_cast<int>(lie);
    EXPECT_TRUE(settles());
  }
  TestClient other(endpoint_);
  EXPECT_EQ(other.write({2, "f", 0}, 0, "hello").written, 5u) << "the others are served";
}

TEST_F(PullTest, APayloadBeforeItsPullClosesTheConnection) {
  EngineLatch latch;
  options_.depth = 1;
  options_.wrap_engine = latch.wrapper();
  start();
  TestClient first(endpoint_), client(endpoint_);
  const auto file = create(first);
  const auto written = first.send(TestClient::write_request(file, 0, 5), "hello");
  latch.wait(1);
  for (std::size_t i = 0; i <= 2; ++i) first.send(TestClient::write_request(file, 10 * (i + 1), 5), "hello");
  const auto tag = announce(client, file, {{0, kSize}});
  client.tell(wire::Payload{}, tag, std::string(kSize, 'x'));
  EXPECT_TRUE(client.closed_by_node());
  latch.open();
  EXPECT_EQ(first.head(written).status, 0);
  EXPECT_TRUE(settles());
}

TEST_F(PullTest, APayloadBeyondTheCreditClosesTheConnection) {
  start();
  TestClient client(endpoint_);
  const auto file = create(client);
  client.tell(TestClient::write_request(file, 0, 128 << 10), 1000, std::string(128 << 10, 'x'));
  EXPECT_TRUE(client.closed_by_node());
  TestClient small(endpoint_);
  EXPECT_EQ(small.write(file, 0, std::string(64 << 10, 's')).written, 64u << 10) << "needs no credit";
}

// Also tag 0, which the node's own messages have: a Pull is not the answer.
TEST_F(PullTest, ATagIsUsedOnceUntilItsAnswer) {
  start();
  for (const std::uint64_t tag : {7, 0}) {
    TestClient client(endpoint_);
    wire::WriteRequest write;
    write.data.file = create(client);
    write.on_request = true;
    write.extents = {{0, kSize}};
    client.tell(write, tag);
    ASSERT_TRUE(client.pulled(tag));
    const auto begin = net::steady_now();
    client.tell(write, tag);
    EXPECT_TRUE(client.closed_by_node()) << tag;
    EXPECT_LT(net::steady_now() - begin, std::chrono::seconds(8)) << "not only because the payload does not arrive";
    EXPECT_TRUE(settles());
  }
}

// Neither a stop nor a lost connection leaves anything behind.
// Each of them ends as soon as it is started, and makes the next one ready.
TEST_F(PullTest, AnyNumberOfLateRequestsMayWaitBehindAWrite) {
  options_.limits.requests = 20'000;
  SmallStacks small_stacks;
  start();
  auto writer = std::make_optional<TestClient>(endpoint_);
  const auto file = create(*writer);
  ASSERT_TRUE(writer->pulled(announce(*writer, file, {{0, kSize}})));
  TestClient client(endpoint_);
  wire::TruncateRequest truncate{.size = 5};
  truncate.data.file = file;
  truncate.data.deadline = TimePoint(std::chrono::nanoseconds(1));
  std::uint64_t last = 0;
  for (int i = 0; i < 9'000; ++i) last = client.send(truncate);
  client.call(wire::LookupRequest{.path = "f"});  // all of them have arrived
  EXPECT_FALSE(client.answered(last));
  writer.reset();
  EXPECT_EQ(client.head(last).status, wire::kExpired);
}

// Policy `to` merges two writes. One client sends its payload late, the other one never.
TEST_F(PullTest, AWriteIsNotDelayedByOneThatItWasMergedWith) {
  constexpr std::size_t kPart = 128 << 10;
  options_.policy = "to";
  options_.depth = 1;
  start();
  TestClient busy(endpoint_), silent(endpoint_), late(endpoint_);
  const auto file = create(busy);
  std::vector<std::uint64_t> first;  // they occupy the queue while the next ones arrive
  for (std::uint64_t i = 1; i <= DataPath::kPulledAhead + 1; ++i)
    first.push_back(announce(busy, file, {{(i * 10) * kPart, kPart}}));
  ASSERT_TRUE(busy.pulled(first.front()));
  announce(silent, file, {{0, kPart}});
  const auto tag = announce(late, file, {{kPart, kPart}});
  ASSERT_TRUE(late.pulled(tag));
  std::this_thread::sleep_for(4 * DataPath::kPullPatience);
  late.tell(wire::Payload{}, tag, std::string(kPart, 'l'));
  EXPECT_EQ(late.head(tag).status, 0);
  EXPECT_FALSE(silent.is_closed()) << "it was answered because the other client was disconnected";
}

TEST_F(PullTest, TheNodeStopsWhilePayloadsAreAwaited) {
  start();
  {
    TestClient gone(endpoint_);
    const auto tag = announce(gone, create(gone), {{0, kSize}});
    ASSERT_TRUE(gone.pulled(tag));
  }
  EXPECT_TRUE(settles());
  TestClient client(endpoint_);
  const auto tag = announce(client, create(client), {{0, kSize}});
  ASSERT_TRUE(client.pulled(tag));
  std::thread stop([&] { EXPECT_TRUE(node_->stop(Scheduler::Stop::kDrop)); });
  EXPECT_FALSE(client.answered(tag)) << "not before the payload has arrived";
  client.tell(wire::Payload{}, tag, std::string(kSize, 'x'));
  EXPECT_EQ(client.head(tag).status, 0);
  stop.join();
}

}  // namespace
}  // namespace tutti::node
