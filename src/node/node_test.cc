// SPDX-License-Identifier: Apache-2.0
// A whole live node, through its socket.
#include "node/node.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "base/prng.h"
#include "base/temporary_directory.h"
#include "engine/engine.h"
#include "node/control.h"
#include "node/engine_latch_testing.h"
#include "node/test_client.h"

namespace tutti::node {
namespace {

namespace fs = std::filesystem;

class NodeTest : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::warn);
    chmod(base_.path().c_str(), 0755);
    fs::create_directory(directory_);
    options_.directory = directory_;
    options_.listen = {endpoint_};
  }
  void TearDown() override { node_.reset(); }
  void start() {
    auto started = Node::start(options_);
    ASSERT_TRUE(started) << started.error().message;
    node_ = std::move(*started);
  }
  // One operation at a time, in an engine that the test releases.
  void start_with(EngineLatch& latch) {
    options_.depth = 1;
    options_.wrap_engine = latch.wrapper();
    start();
  }
  wire::FileReference create(TestClient& client, const std::string& path, std::uint64_t key) {
    wire::CreateRequest request;
    request.path = path;
    const auto made = client.call(request);
    EXPECT_EQ(made.head.status, 0) << made.head.message;
    return {key, path, made.attributes.inode};
  }
  std::string content(const std::string& path) {
    std::ifstream stream(directory_ + "/" + path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const TemporaryDirectory base_;
  const std::string directory_ = base_ / "data";
  const std::string endpoint_ = "unix:" + base_ / "socket";
  NodeOptions options_;
  std::unique_ptr<Node> node_;
};

TEST_F(NodeTest, WritesAndReadsPlainFiles) {
  start();
  TestClient client(endpoint_);
  auto file = create(client, "a", 1);
  EXPECT_EQ(client.write(file, 0, "hello world").written, 11U);
  EXPECT_EQ(content("a"), "hello world");
  file.path.clear();
  EXPECT_EQ(client.read(file, {{6, 5}}), "world");
  EXPECT_EQ(client.read(file, {{6, 3}, {0, 5}, {9, 10}}), "worhellold") << "list I/O, short only at the end";
  wire::ReadRequest past;
  past.data.file = file;
  past.extents = {{1000, 10}, {0, 1}};
  const auto reply = client.call(past);
  EXPECT_THAT(reply.lengths, testing::ElementsAre(0U, 1U));
  std::ofstream(directory_ + "/a", std::ios::app) << "!";
  EXPECT_EQ(client.read(file, {{11, 10}}), "!") << "what other programs write without Tutti is in the same file";
}

TEST_F(NodeTest, NamesActOnTheDirectory) {
  start();
  TestClient client(endpoint_);
  EXPECT_EQ(client.call(wire::MakeDirectoryRequest{.path = "d"}).head.status, 0);
  EXPECT_EQ(client.call(wire::MakeDirectoryRequest{.path = "d"}).head.status, EEXIST);
  create(client, "d/f", 1);
  EXPECT_EQ(client.call(wire::SymlinkRequest{.path = "d/l", .target = "f"}).head.status, 0);
  EXPECT_EQ(client.call(wire::ReadLinkRequest{.path = "d/l"}).target, "f");
  const auto listing = client.call(wire::ReadDirectoryRequest{.path = "d"});
  EXPECT_TRUE(listing.end);
  EXPECT_EQ(listing.entries.size(), 2U);
  EXPECT_EQ(client.call(wire::RenameRequest{.from = "d/f", .to = "g"}).head.status, 0);
  EXPECT_TRUE(fs::exists(directory_ + "/g"));
  EXPECT_EQ(client.call(wire::LookupRequest{.path = "nothing"}).head.status, ENOENT);
  EXPECT_EQ(client.call(wire::UnlinkRequest{.path = "g"}).head.status, 0);
  EXPECT_GT(client.call(wire::StatFsRequest{}).blocks, 0U);
  EXPECT_EQ(client.call(wire::RemoveDirectoryRequest{.path = "d"}).head.status, ENOTEMPTY);
}

TEST_F(NodeTest, PipelinedNamespaceAndDataRequestsKeepTheirOrder) {
  start();
  TestClient client(endpoint_);
  const auto made = client.send(wire::MakeDirectoryRequest{.path = "d"});
  const auto created = client.send(wire::CreateRequest{.path = "d/f"});
  const auto written = client.send(TestClient::write_request({1, "d/f", 0}, 0, 4), "data");
  wire::TruncateRequest truncate;
  truncate.data.file = {1, "", 0};
  truncate.size = 2;
  const auto cut = client.send(truncate);
  const auto more = client.send(TestClient::write_request({1, "", 0}, 2, 2), "TA");
  wire::FsyncRequest sync;
  sync.data.file = {1, "", 0};
  const auto synced = client.send(sync);
  for (const auto tag : {made, created, written, cut, more, synced}) EXPECT_EQ(client.head(tag).status, 0);
  EXPECT_EQ(content("d/f"), "daTA");
}

TEST_F(NodeTest, KeysPathsAndInodes) {
  start();
  TestClient client(endpoint_);
  auto file = create(client, "a", 7);
  EXPECT_EQ(client.write({7, "", 0}, 0, "x").head.status, wire::kUnknownFile);
  EXPECT_EQ(client.write(file, 0, "x").head.status, 0);
  EXPECT_EQ(client.write({7, "", file.inode + 1}, 0, "y").head.status, ESTALE);
  EXPECT_EQ(client.write({8, "a", file.inode + 1}, 0, "y").head.status, ESTALE);
  fs::remove(directory_ + "/a");
  EXPECT_EQ(client.write({7, "", 0}, 1, "z").head.status, 0) << "unlinked while in use";
  EXPECT_EQ(client.read({7, "", 0}, {{0, 10}}), "xz");
  EXPECT_EQ(client.call(wire::StatRequest{{7, "", 0}}).attributes.size, 2U);
  EXPECT_EQ(client.call(wire::CloseRequest{7}).head.status, 0);
  EXPECT_EQ(client.write({7, "", 0}, 1, "z").head.status, wire::kUnknownFile);
  EXPECT_EQ(client.write({7, "a", 0}, 1, "z").head.status, ENOENT);
  fs::create_directory(directory_ + "/d");
  EXPECT_EQ(client.write({9, "d", 0}, 0, "x").head.status, EISDIR);
}

TEST_F(NodeTest, AnErrorInAMergedBatchFailsOnlyTheRequestItBelongsTo) {
  options_.depth = 1;
  options_.policy = "to";  // merges what adjoins
  EngineLatch latch;
  options_.wrap_engine = [&](std::unique_ptr<Engine> inner) {
    auto faulty = make_faulty_engine(std::move(inner), [](const Operation& operation) -> std::optional<Fault> {
      const std::uint64_t bad = 4096 + 100;
      if (operation.offset <= bad && bad < operation.offset + operation.length()) return Fault{.error = EIO};
      return std::nullopt;
    });
    return latch.wrapper()(std::move(faulty));
  };
  start();
  TestClient first(endpoint_), second(endpoint_);
  const auto file = create(first, "a", 1);
  const auto blocker = first.send(TestClient::write_request(file, 1 << 20, 1), "b");
  latch.wait(1);
  // These three wait behind the first one and are then merged into one operation.
  const auto before = second.send(TestClient::write_request(file, 0, 4096), std::string(4096, '1'));
  const auto bad = first.send(TestClient::write_request(file, 4096, 4096), std::string(4096, '2'));
  const auto after = second.send(TestClient::write_request(file, 8192, 4096), std::string(4096, '3'));
  while (node_->statistics().waiting < 3) std::this_thread::yield();
  latch.open();
  EXPECT_EQ(first.head(blocker).status, 0);
  EXPECT_EQ(first.head(bad).status, EIO);
  EXPECT_EQ(second.head(before).status, 0);
  EXPECT_EQ(second.head(after).status, 0);
  EXPECT_EQ(content("a").substr(8192, 4096), std::string(4096, '3'));
}

TEST_F(NodeTest, TheEngineGetsTheDeadlineOfAWrite) {
  std::atomic<TimePoint> got{};
  options_.wrap_engine = [&](std::unique_ptr<Engine> inner) {
    return make_faulty_engine(std::move(inner), [&](const Operation& operation) -> std::optional<Fault> {
      got = operation.deadline;
      return std::nullopt;
    });
  };
  start();
  TestClient client(endpoint_);
  auto write = TestClient::write_request(create(client, "a", 1), 0, 5);
  write.data.deadline = net::steady_now() + std::chrono::seconds(60);
  EXPECT_TRUE(client.head(client.send(write, "hello")).status == 0 && got.load() == write.data.deadline);
}

// A merged operation fails when the deadline of one of its requests has passed: that one is not repeated.
TEST_F(NodeTest, PartsOfAFailedBatchAreNotRepeatedAfterTheirDeadline) {
  options_.depth = 1;
  options_.policy = "to";  // merges what adjoins
  EngineLatch latch;
  std::atomic<TimePoint> deadline{};
  std::atomic<bool> repeated = false;  // the engine, which checks deadlines too, got the late part
  options_.wrap_engine = [&](std::unique_ptr<Engine> inner) {
    auto faulty = make_faulty_engine(std::move(inner), [&](const Operation& operation) -> std::optional<Fault> {
      if (operation.memory.size() == 1 && operation.offset == 0) repeated = true;
      if (operation.memory.size() == 1) return std::nullopt;
      while (net::steady_now() <= deadline.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return Fault{.error = EIO};
    });
    return latch.wrapper()(std::move(faulty));
  };
  start();
  TestClient client(endpoint_);
  const auto file = create(client, "a", 1);
  const auto blocker = client.send(TestClient::write_request(file, 1 << 20, 1), "b");
  latch.wait(1);
  auto write = TestClient::write_request(file, 0, 4096);
  write.data.deadline = deadline = net::steady_now() + std::chrono::seconds(2);
  const auto late = client.send(write, std::string(4096, '1'));
  const auto other = client.send(TestClient::write_request(file, 4096, 4096), std::string(4096, '2'));
  while (node_->statistics().waiting < 2) std::this_thread::yield();
  latch.open();
  EXPECT_EQ(client.head(blocker).status, 0);
  EXPECT_EQ(client.head(late).status, wire::kExpired);
  EXPECT_EQ(client.head(other).status, 0);
  EXPECT_FALSE(repeated);
  EXPECT_EQ(content("a").substr(0, 8192), std::string(4096, '\0') + std::string(4096, '2'));
}

std::string pattern(std::size_t size, std::size_t seed) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i + seed) * 7 + i / 4096);
  return text;
}

// By reference or copied, merged or not, in one extent or several, after failed ones.
TEST_F(NodeTest, LargeWritesOfEveryKindGiveTheSameFile) {
  options_.depth = 1;
  options_.policy = "to";
  EngineLatch latch;
  options_.wrap_engine = [&](std::unique_ptr<Engine> inner) {
    return latch.wrapper()(make_faulty_engine(std::move(inner), [](const Operation& operation) -> std::optional<Fault> {
      if (operation.offset >= 64 << 20) return Fault{.error = EIO};
      if (operation.offset == 12 << 20) return Fault{.at_most = 70000};
      return std::nullopt;
    }));
  };
  start();
  TestClient client(endpoint_);
  EXPECT_TRUE(client.connection().welcome().by_reference);
  const auto file = create(client, "a", 1);
  struct Write {
    std::uint64_t offset;
    std::size_t size;
    bool checksum = false;
    int status = 0;
  };
  const std::vector<Write> writes{{0, 1 << 20},
                                  {1 << 20, 100001},
                                  {2 << 20, (1 << 20) + 1},
                                  {4 << 20, (3 << 20) + 17},
                                  {8 << 20, 1 << 20, true},
                                  {9 << 20, 65536},
                                  {64 << 20, 1 << 20, false, EIO},
                                  {(9 << 20) + 65536, 5},
                                  {10 << 20, 200000},
                                  {12 << 20, 300000, false, EIO},
                                  {14 << 20, 64 << 10}};
  std::string expected(15 << 20, '\0');
  std::vector<std::uint64_t> tags;
  for (const Write& write : writes) {
    const std::string text = pattern(write.size, write.offset);
    if (write.status == 0) expected.replace(write.offset, write.size, text);
    client.checksums = write.checksum;
    tags.push_back(client.send(TestClient::write_request(file, write.offset, write.size), text));
  }
  auto list = TestClient::write_request(file, 13 << 20, 100000);
  list.extents.push_back({(13 << 20) + 200000, 100000});
  const std::string text = pattern(200000, 99);
  expected.replace(13 << 20, 100000, text.substr(0, 100000)).replace((13 << 20) + 200000, 100000, text.substr(100000));
  expected.replace(12 << 20, 70000, pattern(300000, 12 << 20).substr(0, 70000));
  const auto listed = client.send(list, text);
  while (node_->statistics().waiting < writes.size()) std::this_thread::yield();
  latch.open();
  for (std::size_t i = 0; i < writes.size(); ++i) EXPECT_EQ(client.head(tags[i]).status, writes[i].status) << i;
  EXPECT_EQ(client.head(listed).status, 0);
  const std::string found = content("a");
  expected.resize((14 << 20) + (64 << 10));
  ASSERT_EQ(found.size(), expected.size());
  for (const Write& write : writes)
    EXPECT_TRUE(write.status != 0 ||
                found.substr(write.offset, write.size) == expected.substr(write.offset, write.size))
        << write.offset;
  EXPECT_TRUE(found == expected);
}

TEST_F(NodeTest, PagesOfALostConnectionAreNotWritten) {
  EngineLatch latch;
  start_with(latch);
  TestClient other(endpoint_);
  const auto file = create(other, "a", 1);
  const auto blocker = other.send(TestClient::write_request(file, 0, 1), "b");
  latch.wait(1);
  {
    TestClient client(endpoint_);
    client.checksums = false;
    for (int i = 0; i < 3; ++i)
      client.send(TestClient::write_request(file, 1 << 20, 1 << 20), std::string(1 << 20, 'x'));
    while (node_->statistics().waiting < 3) std::this_thread::yield();
  }
  while (node_->statistics().waiting > 0 || node_->statistics().buffer_bytes > 4096) std::this_thread::yield();
  latch.open();
  EXPECT_EQ(other.head(blocker).status, 0);
  EXPECT_EQ(content("a"), "b");
}

TEST_F(NodeTest, ARequestPastItsDeadlineIsRefusedAndNeverApplied) {
  EngineLatch latch;
  start_with(latch);
  TestClient client(endpoint_);
  const auto file = create(client, "a", 1);
  const auto blocker = client.send(TestClient::write_request(file, 0, 1), "b");
  latch.wait(1);
  auto late = TestClient::write_request(file, 10, 4);
  late.data.deadline = client.connection().welcome().now + std::chrono::milliseconds(5);
  const auto refused = client.send(late, "late");
  auto in_time = TestClient::write_request(file, 20, 2);
  in_time.data.deadline = client.connection().welcome().now + std::chrono::hours(1);
  const auto kept = client.send(in_time, "ok");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  latch.open();
  EXPECT_EQ(client.head(blocker).status, 0);
  EXPECT_EQ(client.head(refused).status, wire::kExpired);
  EXPECT_EQ(client.head(kept).status, 0);
  EXPECT_EQ(content("a"), std::string("b") + std::string(19, '\0') + "ok");
}

TEST_F(NodeTest, AClientRenewsTheDeadlinesOfItsRequests) {
  EngineLatch latch;
  start_with(latch);
  TestClient client(endpoint_);
  const auto file = create(client, "a", 1);
  const auto blocker = client.send(TestClient::write_request(file, 0, 1), "b");
  latch.wait(1);
  const TimePoint now = client.connection().welcome().now;
  auto write = TestClient::write_request(file, 1, 2);
  write.data.deadline = now + std::chrono::seconds(2);  // it must arrive before that
  const auto renewed = client.send(write, "ok");
  client.send(wire::Renew{now + std::chrono::hours(1)});
  std::this_thread::sleep_for(std::chrono::milliseconds(2020));
  client.call(wire::HealthRequest{});  // the node has received the renewal
  latch.open();
  EXPECT_EQ(client.head(blocker).status, 0);
  EXPECT_EQ(client.head(renewed).status, 0);
  EXPECT_EQ(content("a"), "bok");
}

TEST_F(NodeTest, ANodeReportsProgressToClientsThatWait) {
  EngineLatch latch;
  start_with(latch);
  TestClient client(endpoint_), idle(endpoint_);
  const auto file = create(client, "a", 1);
  const auto sync = client.send(wire::FsyncRequest{{.file = file}});
  latch.wait(1);
  const auto progress = [](TestClient& of) {
    const auto answer = of.wait(0);
    return wire::decode<wire::Progress>(answer.message.header, answer.message.body).value();
  };
  const auto report = progress(client);
  EXPECT_TRUE(report.syncing);
  EXPECT_GT(report.head.now, client.connection().welcome().now);
  EXPECT_FALSE(progress(idle).syncing);
  latch.open();
  EXPECT_EQ(client.head(sync).status, 0);
}

TEST_F(NodeTest, RepliesReportTimesOfQueueAndEngine) {
  EngineLatch latch;
  start_with(latch);
  TestClient client(endpoint_);
  const auto file = create(client, "a", 1);
  const auto first = client.send(TestClient::write_request(file, 0, 1), "1");
  latch.wait(1);
  const auto second = client.send(TestClient::write_request(file, 100, 1), "2");
  while (node_->statistics().waiting < 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  latch.open();
  EXPECT_GE(client.head(first).timing.engine, std::chrono::milliseconds(20));
  EXPECT_GE(client.head(second).timing.queued, std::chrono::milliseconds(20));
}

TEST_F(NodeTest, ThePolicyIsSwitchedUnderLoadAndNothingIsLost) {
  options_.depth = 2;
  start();
  TestClient client(endpoint_), control(endpoint_);
  const auto file = create(client, "a", 1);
  constexpr std::size_t kBlock = 4096, kBlocks = 2000;
  std::vector<std::uint64_t> tags;
  std::thread switching([&] {
    const std::vector<std::string> names{"fifo", "window", "concert", "to", "fair", "sjf", "hbrr", "twins"};
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(control.call(wire::PolicySetRequest{names[static_cast<std::size_t>(i) % names.size()], {}}).head.status,
                0);
  });
  for (std::size_t i = 0; i < kBlocks; ++i) {
    tags.push_back(client.send(TestClient::write_request(file, i * kBlock, kBlock),
                               std::string(kBlock, static_cast<char>('a' + i % 26))));
    if (tags.size() >= 100) {
      EXPECT_EQ(client.head(tags[tags.size() - 100]).status, 0);
    }
  }
  for (std::size_t i = kBlocks - 99; i < kBlocks; ++i) EXPECT_EQ(client.head(tags[i]).status, 0);
  switching.join();
  const std::string all = content("a");
  ASSERT_EQ(all.size(), kBlock * kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) ASSERT_EQ(all[i * kBlock], static_cast<char>('a' + i % 26));
  EXPECT_EQ(control.call(wire::PolicySetRequest{"nonsense", {}}).head.status, ENOENT);
  EXPECT_EQ(control.call(wire::PolicyShowRequest{}).policy, "twins");
}

TEST_F(NodeTest, StopWithDrainServesWaitingRequests) {
  EngineLatch latch;
  start_with(latch);
  TestClient client(endpoint_);
  const auto file = create(client, "a", 1);
  std::vector<std::uint64_t> tags;
  for (std::uint64_t i = 0; i < 10; ++i) tags.push_back(client.send(TestClient::write_request(file, 2 * i, 1), "x"));
  while (node_->statistics().waiting < 9) std::this_thread::yield();
  EXPECT_EQ(client.call(wire::StopRequest{.drain = true}).head.status, 0);
  EXPECT_EQ(node_->wait_for_stop(), Scheduler::Stop::kDrain);
  auto stopped = std::async(std::launch::async, [&] { return node_->stop(Scheduler::Stop::kDrain); });
  while (!node_->health().stopping) std::this_thread::yield();
  latch.open();
  EXPECT_TRUE(stopped.get());
  for (const auto tag : tags) EXPECT_EQ(client.head(tag).status, 0);
  EXPECT_EQ(fs::file_size(directory_ + "/a"), 19U);
}

TEST_F(NodeTest, StopWithDropFailsWaitingRequests) {
  EngineLatch latch;
  start_with(latch);
  TestClient client(endpoint_);
  const auto file = create(client, "a", 1);
  const auto under_way = client.send(TestClient::write_request(file, 0, 1), "x");
  latch.wait(1);
  const auto waits = client.send(TestClient::write_request(file, 10, 1), "x");
  while (node_->statistics().waiting < 1) std::this_thread::yield();
  auto stopped = std::async(std::launch::async, [&] { return node_->stop(Scheduler::Stop::kDrop); });
  EXPECT_EQ(client.head(waits).status, wire::kStopping);
  latch.open();
  EXPECT_TRUE(stopped.get());
  EXPECT_EQ(client.head(under_way).status, 0);
  EXPECT_EQ(fs::file_size(directory_ + "/a"), 1U);
}

TEST_F(NodeTest, WaitingRequestsOfALostConnectionAreCancelled) {
  EngineLatch latch;
  start_with(latch);
  auto lost = std::make_unique<TestClient>(endpoint_);
  TestClient client(endpoint_);
  const auto file = create(client, "a", 1);
  const auto blocker = client.send(TestClient::write_request(file, 0, 1), "b");
  latch.wait(1);
  for (std::uint64_t i = 1; i <= 20; ++i) lost->send(TestClient::write_request(file, 100 * i, 1), "l");
  while (node_->statistics().waiting < 20) std::this_thread::yield();
  lost.reset();
  while (node_->statistics().waiting > 0) std::this_thread::yield();
  latch.open();
  EXPECT_EQ(client.head(blocker).status, 0);
  EXPECT_EQ(fs::file_size(directory_ + "/a"), 1U);
  for (const wire::Usage& usage : node_->statistics().usage) EXPECT_EQ(usage.waiting, 0U);
}

TEST_F(NodeTest, ReadsWaitForMemoryAndAllGetIt) {
  options_.read_buffers = Bytes(0);  // raised to the minimum: one largest payload
  options_.depth = 8;
  options_.limits = {.requests = 64, .bytes = 1 << 30};
  start();
  { std::ofstream(directory_ + "/big") << std::string(4 << 20, 'b'); }
  TestClient client(endpoint_);
  std::vector<std::uint64_t> tags;
  for (int i = 0; i < 12; ++i) {
    wire::ReadRequest request;
    request.data.file = {1, "big", 0};
    request.extents = {{0, 4 << 20}};
    tags.push_back(client.send(request));
  }
  for (const auto tag : tags) EXPECT_EQ(client.wait(tag).message.payload.size(), std::size_t{4} << 20);
}

wire::ReadRequest read_request(const wire::FileReference& file, std::uint64_t offset, std::uint64_t length) {
  wire::ReadRequest request;
  request.data.file = file;
  request.extents = {{offset, length}};
  return request;
}

// Two batches of two reads need more memory together than there is.
TEST_F(NodeTest, BatchesHoldNoMemoryWhileTheyWait) {
  constexpr std::uint64_t kMiB = 1 << 20;
  options_.read_buffers = Bytes(16 * kMiB);
  options_.policy = "to";  // merges what adjoins
  options_.limits = {.requests = 64, .bytes = 1 << 30};
  EngineLatch latch;
  options_.wrap_engine = latch.wrapper();
  options_.depth = 3;
  start();
  TestClient client(endpoint_);
  const auto file = create(client, "big", 1);
  fs::resize_file(directory_ + "/big", 40 * kMiB);
  std::vector<std::uint64_t> tags{client.send(read_request(file, 36 * kMiB, 4 * kMiB)),
                                  client.send(TestClient::write_request(file, 31 * kMiB, 1), "w"),
                                  client.send(TestClient::write_request(file, 33 * kMiB, 1), "w")};
  latch.wait(3);
  for (const auto& [at, size] : {std::pair{0, 8}, {8, 8}, {17, 4}, {21, 8}})
    tags.push_back(client.send(read_request(file, at * kMiB, size * kMiB)));
  while (node_->statistics().waiting < 4) std::this_thread::yield();
  latch.release_writes();
  while (node_->statistics().waiting > 0) std::this_thread::yield();
  latch.open();
  for (const auto tag : tags) EXPECT_EQ(client.head(tag).status, 0);
}

TEST_F(NodeTest, ReadsGetMemoryInOrderAndSmallOnesAtOnce) {
  constexpr std::uint64_t kMiB = 1 << 20;
  options_.read_buffers = Bytes(16 * kMiB);
  options_.memory_patience = std::chrono::seconds(1);
  options_.policy = "fifo";
  options_.limits = {.requests = 64, .bytes = 1 << 30};
  EngineLatch latch;
  options_.wrap_engine = latch.wrapper();
  options_.depth = 8;
  start();
  TestClient client(endpoint_);
  const auto file = create(client, "big", 1);
  const auto opening = client.send(TestClient::write_request(file, 0, 1), "w");
  latch.wait(1);
  latch.release_writes();
  EXPECT_EQ(client.head(opening).status, 0);
  TestClient second(endpoint_), third(endpoint_), fourth(endpoint_);
  const auto read = [&](TestClient& from, std::uint64_t size) {
    from.call(wire::StatRequest{file});  // opens it
    const auto tag = from.send(read_request(file, 0, size));
    from.call(wire::HealthRequest{});  // it was dispatched
    return tag;
  };
  const auto first = read(client, 8 * kMiB), large = read(second, 16 * kMiB);
  const auto behind = read(third, 4 * kMiB), small = read(fourth, 4096);
  latch.wait(2);
  EXPECT_EQ(latch.held(), 2u) << "the first and the small one";
  EXPECT_EQ(second.head(large).status, EAGAIN);
  latch.wait(3);
  latch.open();
  EXPECT_EQ(client.head(first).status, 0);
  EXPECT_EQ(third.head(behind).status, 0);
  EXPECT_EQ(fourth.head(small).status, 0);
}

TEST_F(NodeTest, AConnectionThatHoldsItsShareOfReadMemoryDoesNotDelayOthers) {
  constexpr std::uint64_t kMiB = 1 << 20;
  options_.read_buffers = Bytes(16 * kMiB);
  options_.policy = "fifo";
  options_.limits = {.requests = 64, .bytes = 1 << 30};
  EngineLatch latch;
  options_.wrap_engine = latch.wrapper();
  options_.depth = 8;
  start();
  TestClient client(endpoint_);
  const auto file = create(client, "big", 1);
  const auto opening = client.send(TestClient::write_request(file, 0, 1), "w");
  latch.wait(1);
  latch.release_writes();
  EXPECT_EQ(client.head(opening).status, 0);
  TestClient other(endpoint_);
  other.call(wire::StatRequest{file});  // opens it
  std::vector<std::uint64_t> tags;
  for (int i = 0; i < 3; ++i) tags.push_back(client.send(read_request(file, 0, 4 * kMiB)));
  client.call(wire::HealthRequest{});  // all of them were dispatched
  const auto beside = other.send(read_request(file, 0, 4 * kMiB));
  latch.wait(3);
  EXPECT_EQ(latch.held(), 3u) << "two of the first client, and the one of the second";
  latch.open();
  EXPECT_EQ(other.head(beside).status, 0);
  for (const auto tag : tags) EXPECT_EQ(client.head(tag).status, 0);
}

TEST_F(NodeTest, StatisticsAreByApplicationAndTarget) {
  start();
  TestClient client(endpoint_, {.job = "ior"});
  const auto file = create(client, "a", 1);
  auto request = TestClient::write_request(file, 0, 5);
  request.data.stamp.application = 42;
  request.data.target = 3;
  client.call(request, "12345");
  const auto statistics = client.call(wire::StatisticsRequest{});
  ASSERT_EQ(statistics.usage.size(), 1U);
  EXPECT_EQ(statistics.usage[0].application, 42U);
  EXPECT_EQ(statistics.usage[0].target, 3U);
  EXPECT_EQ(statistics.usage[0].written_bytes, 5U);
  EXPECT_EQ(statistics.usage[0].job, "ior");
  EXPECT_EQ(client.call(wire::HealthRequest{}).process, static_cast<std::uint32_t>(getpid()));
}

TEST_F(NodeTest, StatisticsOfManyApplicationsAreComplete) {
  start();
  TestClient client(endpoint_, {.job = std::string(300, 'j')});
  const auto file = create(client, "a", 1);
  constexpr ApplicationId kApplications = 1500;
  for (ApplicationId id = 1; id <= kApplications; ++id) {
    auto request = TestClient::write_request(file, 0, 5);
    request.data.stamp.application = id;
    ASSERT_EQ(client.call(request, "12345").head.status, 0);
  }
  auto control = Control::connect({.endpoint = endpoint_});
  ASSERT_TRUE(control) << control.error().message;
  const auto statistics = (*control)->statistics();
  ASSERT_TRUE(statistics) << statistics.error().message;
  ASSERT_EQ(statistics->usage.size(), kApplications);
  for (ApplicationId id = 1; id <= kApplications; ++id) {
    EXPECT_EQ(statistics->usage[id - 1].application, id);
    EXPECT_EQ(statistics->usage[id - 1].written_bytes, 5U);
    EXPECT_EQ(statistics->usage[id - 1].job, std::string(255, 'j'));
  }
}

TEST_F(NodeTest, LongListingsContinueInFurtherMessages) {
  start();
  constexpr int kFiles = 2000;
  for (int i = 0; i < kFiles; ++i) {
    const auto number = std::to_string(i);
    std::ofstream(directory_ + "/" + std::string(255 - number.size(), 'n') + number).flush();
  }
  TestClient client(endpoint_);
  for (const bool attributes : {false, true}) {
    std::set<std::string> names;
    wire::ReadDirectoryRequest request{.path = "", .most = ~std::uint32_t{0}, .attributes = attributes};
    for (bool end = false; !end;) {
      const auto reply = client.call(request);
      ASSERT_EQ(reply.head.status, 0) << reply.head.message;
      for (const auto& entry : reply.entries) {
        EXPECT_TRUE(names.insert(entry.name).second);
        EXPECT_EQ(S_ISREG(entry.attributes.mode), attributes);
        EXPECT_EQ(entry.attributes.inode, attributes ? entry.inode : 0);
        request.cursor = entry.next;
      }
      end = reply.end;
    }
    EXPECT_EQ(names.size(), std::size_t{kFiles});
  }
}

TEST_F(NodeTest, TooLongPolicyOptionsAreAnErrorNotACrash) {
  std::string weights = "1=1";
  while (weights.size() < 2000) weights += fmt::format(",{}=1", 1 + weights.size());
  options_.policy = "fair";
  options_.policy_options = {{"weights", weights}};
  start();
  TestClient client(endpoint_);
  EXPECT_EQ(client.call(wire::PolicyShowRequest{}).options.at("weights"), weights);
  while (weights.size() <= wire::kMaxOption) weights += fmt::format(",{}=1", 1 + weights.size());
  ASSERT_TRUE(node_->set_policy("fair", {{"weights", weights}}));
  const auto reply = client.call(wire::PolicyShowRequest{});
  EXPECT_EQ(reply.head.status, EMSGSIZE);
  EXPECT_THAT(reply.head.message, testing::HasSubstr("option value is too long"));
  auto control = Control::connect({.endpoint = endpoint_});
  EXPECT_EQ((*control)->set_policy("fair", {{"weights", weights}}).error().system, EMSGSIZE);
  EXPECT_EQ(client.call(wire::HealthRequest{}).policy, "fair");
}

TEST_F(NodeTest, TimesBeyondTheRangeAreClamped) {
  start();
  TestClient client(endpoint_);
  create(client, "a", 1);
  const timespec far[2] = {{12'000'000'000, 0}, {12'000'000'000, 0}};  // the year 2350
  ASSERT_EQ(utimensat(AT_FDCWD, (directory_ + "/a").c_str(), far, 0), 0);
  EXPECT_GT(client.call(wire::LookupRequest{.path = "a"}).attributes.modified, TimePoint(std::chrono::hours(24 * 365)));
}

TEST_F(NodeTest, StopsWhileFilesAreBeingOpened) {
  for (int round = 0; round < 20; ++round) {
    start();
    TestClient client(endpoint_);
    auto file = create(client, "a", 1);
    for (; file.key < 200; ++file.key) client.send(wire::StatRequest{file});
    EXPECT_TRUE(node_->stop(Scheduler::Stop::kDrain));
  }
}

}  // namespace
}  // namespace tutti::node
