// SPDX-License-Identifier: Apache-2.0
// What a client remembers of writes that are not on stable storage yet.
#include <gtest/gtest.h>
#include <tutti/client.h>

#include <algorithm>

#include "client/fake_node.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSyncStripe = 4096;

class SyncTest : public testing::Test {
 protected:
  void SetUp() override {
    Cluster cluster;
    for (TargetId i = 0; i < 2; ++i) {
      const auto name = "sync-test-" + std::to_string(i);
      nodes_.push_back(std::make_unique<FakeNode>(disk_, name));
      cluster.nodes.push_back({name, "local:" + name, {i}});
    }
    cluster.stripe_size = Bytes(kSyncStripe);
    ClientOptions options{.cluster = cluster, .application = 77, .job = "test"};
    options.sync_timeout = 200ms;
    auto client = Client::connect(options);
    ASSERT_TRUE(client) << client.error().message;
    client_ = std::move(*client);
    auto file = client_->open("file", {.read = true, .write = true, .create = true});
    ASSERT_TRUE(file) << file.error().message;
    file_ = *file;
  }
  // How often the node that has the file's stripe was asked to sync.
  std::ptrdiff_t syncs(std::size_t stripe) {
    const auto seen = nodes_[file_->layout().targets[stripe]]->seen();
    return std::ranges::count(seen, wire::Type::kFsync, &FakeNode::Seen::type);
  }

  FakeDisk disk_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
  std::unique_ptr<Client> client_;
  std::shared_ptr<File> file_;
};

// The second stripe's node: a sync without unsynced writes asks the node of the first one only.
TEST_F(SyncTest, AFailedSyncForgetsNoWritesThatAreNotLost) {
  ASSERT_TRUE(file_->write(kSyncStripe, std::vector<std::byte>(kSyncStripe)));
  FakeNode& node = *nodes_[file_->layout().targets[1]];
  node.stall();
  ASSERT_EQ(file_->fsync(false).error().code, ErrorCode::kTimeout);
  node.go_on();
  const auto before = syncs(1);
  ASSERT_TRUE(file_->fsync(false));
  EXPECT_EQ(syncs(1), before + 1) << "the write is still unsynced: its node must be asked again";
  ASSERT_TRUE(file_->fsync(false));
  EXPECT_EQ(syncs(1), before + 1) << "now it is synced";
}

}  // namespace
}  // namespace tutti
