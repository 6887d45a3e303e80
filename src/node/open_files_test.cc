// SPDX-License-Identifier: Apache-2.0
// More files in use than a node may have open, through its sockets.
#include "node/open_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/prng.h"
#include "base/temporary_directory.h"
#include "base/testing.h"
#include "engine/engine.h"
#include "node/node.h"
#include "node/test_client.h"

namespace tutti::node {
namespace {

namespace fs = std::filesystem;

constexpr UserId kSecondUser = 4711;

class OpenFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    chmod(base_.path().c_str(), 0755);
    fs::create_directory(directory_);
    chmod(directory_.c_str(), 0777);
    std::ofstream(base_ / "key") << std::string(64, '7');
    fs::permissions(base_ / "key", fs::perms::owner_read);
    options_.directory = directory_;
    options_.listen = {endpoint_, "tcp:127.0.0.1:0"};
    options_.key_file = base_ / "key";
    options_.max_open_files = 8;
    // Counts syncs, and fails them if the test wants it.
    options_.wrap_engine = [this](std::unique_ptr<Engine> inner) {
      return make_faulty_engine(std::move(inner), [this](const Operation& operation) -> std::optional<Fault> {
        if (operation.kind != Operation::Kind::kSync) return std::nullopt;
        ++syncs_;
        if (syncs_fail_) return Fault{.error = EIO};
        return std::nullopt;
      });
    };
  }
  void start() {
    auto started = Node::start(options_);
    ASSERT_TRUE(started) << started.error().message;
    node_ = std::move(*started);
  }
  std::unique_ptr<TestClient> other_user() {
    return std::make_unique<TestClient>(
        node_->endpoints().back(),
        net::ConnectOptions{.key = net::load_key(base_ / "key").value(),
                            .claim = wire::Identity{.uid = kSecondUser, .gid = kSecondUser}});
  }
  static wire::FileReference create(TestClient& client, const std::string& path, std::uint64_t key) {
    const auto made = client.call(wire::CreateRequest{.path = path});
    EXPECT_EQ(made.head.status, 0) << made.head.message;
    return {key, path, made.attributes.inode};
  }
  static wire::ReplyHead stat(TestClient& client, const wire::FileReference& file) {
    return client.call(wire::StatRequest{file}).head;
  }
  static wire::ReplyHead sync(TestClient& client, const wire::FileReference& file) {
    wire::FsyncRequest request;
    request.data.file = file;
    return client.call(request).head;
  }
  // Repeats the write as clients do. Other errors are returned.
  static wire::ReplyHead write(TestClient& client, wire::FileReference file, const std::string& text,
                               std::uint64_t offset = 0) {
    const std::string path = std::exchange(file.path, "");
    const auto until = std::chrono::steady_clock::now() + TestClient::kPatience;
    wire::ReplyHead head;
    do {
      head = client.write(file, offset, text).head;
      if (head.status == wire::kUnknownFile) file.path = path;
      if (head.status == EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while ((head.status == wire::kUnknownFile || head.status == EAGAIN) && std::chrono::steady_clock::now() < until);
    return head;
  }
  static bool known(TestClient& client, wire::FileReference file) {
    file.path.clear();
    return stat(client, file).status != wire::kUnknownFile;
  }
  std::string content(const std::string& path) {
    std::ifstream stream(directory_ + "/" + path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const TemporaryDirectory base_;
  const std::string directory_ = base_ / "data";
  const std::string endpoint_ = "unix:" + base_ / "socket";
  NodeOptions options_;
  std::atomic<int> syncs_{0};
  std::atomic<bool> syncs_fail_{false};
  std::unique_ptr<Node> node_;
};

TEST_F(OpenFilesTest, MoreFilesCanBeUsedThanAreOpen) {
  start();
  TestClient client(endpoint_);
  std::vector<wire::FileReference> files;
  for (std::uint64_t key = 1; key <= 20; ++key) {
    files.push_back(create(client, fmt::format("f{}", key), key));
    const auto head = write(client, files.back(), "first");
    ASSERT_EQ(head.status, 0) << head.message;
  }
  if (geteuid() == 0) {
    const auto other = other_user();
    for (std::uint64_t key = 1; key <= 4; ++key) {
      const auto head = write(*other, create(*other, fmt::format("o{}", key), key), "other");
      ASSERT_EQ(head.status, 0) << head.message;
    }
  }
  for (const auto& file : files) {
    EXPECT_EQ(write(client, file, "again").status, 0);
    EXPECT_EQ(content(file.path), "again");
  }
  EXPECT_LE(std::ranges::count_if(files, [&](const auto& file) { return known(client, file); }), 8);
}

// The other user's client sends each request once.
TEST_F(OpenFilesTest, AUserWithManyFilesLeavesRoomForOthers) {
  TUTTI_NEEDS(geteuid() == 0, "root: a node serves other users only as root");
  options_.max_open_files = 64;
  start();
  TestClient client(endpoint_);
  for (std::uint64_t key = 1; key <= 200; ++key)
    ASSERT_EQ(write(client, create(client, fmt::format("f{}", key), key), "x").status, 0);
  const auto other = other_user();
  for (std::uint64_t key = 1; key <= 16; ++key) {
    const auto reply = other->write(create(*other, fmt::format("o{}", key), key), 0, "y");
    ASSERT_EQ(reply.head.status, 0) << reply.head.message;
  }
}

TEST_F(OpenFilesTest, AFileWithChangesIsSyncedBeforeItIsClosed) {
  start();
  TestClient client(endpoint_);
  std::vector<wire::FileReference> files;
  for (std::uint64_t key = 1; key <= 4; ++key) {
    files.push_back(create(client, fmt::format("f{}", key), key));
    ASSERT_EQ(write(client, files.back(), "x").status, 0);
  }
  EXPECT_EQ(syncs_, 0);
  syncs_fail_ = true;
  const auto more = create(client, "more", 5);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.write(more, 0, "y").head.status, EAGAIN);
  for (const auto& file : files) {
    ASSERT_TRUE(known(client, file)) << "its data may be lost, and only this descriptor reports it";
    EXPECT_EQ(sync(client, {file.key, "", 0}).status, EIO);
  }
  syncs_fail_ = false;
  EXPECT_EQ(write(client, more, "y").status, 0);
  EXPECT_LT(std::ranges::count_if(files, [&](const auto& file) { return known(client, file); }), 4);
}

TEST_F(OpenFilesTest, FilesWithoutChangesAreClosedFirst) {
  start();
  TestClient client(endpoint_);
  const auto changed = create(client, "changed", 1), synced = create(client, "synced", 2);
  ASSERT_EQ(write(client, changed, "x").status, 0);
  ASSERT_EQ(write(client, synced, "x").status, 0);
  ASSERT_EQ(sync(client, {synced.key, "", 0}).status, 0);
  EXPECT_EQ(syncs_, 1);
  for (std::uint64_t key = 3; key <= 40; ++key)
    ASSERT_EQ(stat(client, create(client, fmt::format("f{}", key), key)).status, 0) << "at the first attempt";
  EXPECT_EQ(syncs_, 1);
  EXPECT_TRUE(known(client, changed));
  EXPECT_FALSE(known(client, synced));
}

// Four connections write their own blocks of shared files while the node closes files all the time.
TEST_F(OpenFilesTest, ManyConnectionsLoseNoWrites) {
  constexpr std::size_t kThreads = 4, kFiles = 12, kOperations = 300;
  start();
  std::vector<std::jthread> threads;
  std::array<std::array<std::string, kFiles>, kThreads> written;  // by thread and file
  for (std::size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      TestClient client(endpoint_);
      Prng random(thread + 1);
      for (std::size_t i = 0; i < kOperations; ++i) {
        const std::size_t number = random.below(kFiles);
        const auto file = create(client, fmt::format("f{}", number), number + 1);
        std::string& block = written[thread][number] = fmt::format("{:07} ", i);
        EXPECT_EQ(write(client, file, block, thread * block.size()).status, 0);
        if (random.chance(0.2)) {
          const auto status = sync(client, file).status;
          EXPECT_TRUE(status == 0 || status == EAGAIN) << status;
        }
        if (random.chance(0.1)) client.call(wire::CloseRequest{file.key});
      }
    });
  threads.clear();
  for (std::size_t thread = 0; thread < kThreads; ++thread)
    for (std::size_t number = 0; number < kFiles; ++number)
      if (const std::string& block = written[thread][number]; !block.empty()) {
        EXPECT_EQ(content(fmt::format("f{}", number)).substr(thread * block.size(), block.size()), block);
      }
}

TEST_F(OpenFilesTest, KeysOfManyConnectionsTakeLittleMemory) {
  constexpr std::size_t kConnections = 4, kKeys = 2048, kMost = 2048;
  options_.max_open_files = kMost;
  start();
  std::string path;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (std::size_t i = 0; i < kConnections; ++i) clients.push_back(std::make_unique<TestClient>(endpoint_));
  while (path.size() + 400 < 4096) {
    path += (path.empty() ? "" : "/") + std::string(200, 'd');
    ASSERT_EQ(clients[0]->call(wire::MakeDirectoryRequest{.path = path}).head.status, 0);
  }
  auto file = create(*clients[0], path + "/f", 1);
  const auto before = mallinfo2();
  for (const auto& client : clients)
    for (file.key = 1; file.key <= kKeys; ++file.key) ASSERT_EQ(stat(*client, file).status, 0);
  const auto after = mallinfo2();
  EXPECT_LT(after.uordblks + after.hblkhd, before.uordblks + before.hblkhd + (4 << 20));
  std::size_t count = 0;
  for (const auto& client : clients)
    for (file.key = 1; file.key <= kKeys; ++file.key) count += known(*client, file);
  EXPECT_LE(count, kMost);
  EXPECT_GT(count, kMost / 4);
}

}  // namespace
}  // namespace tutti::node
