// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tutti/client.h>
#include <tutti/tutti_client.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  Result<Cluster> load(const std::string& text) {
    std::ofstream(directory_ / "cluster.toml") << text;
    return load_cluster(directory_ / "cluster.toml");
  }
  std::filesystem::path directory_ = std::filesystem::path(testing::TempDir()) / "tutti-cluster-test";
};

TEST_F(ClusterTest, ReadsNodesAndTheirTargets) {
  auto cluster = load(R"(
stripe_size = "64KiB"
stripe_count = 2
key_file = "key"
request_timeout = "5s"
[[node]]
name = "a"
endpoint = "unix:a.sock"
targets = "0-2,7"
[[node]]
endpoint = "tcp:host:7000"
targets = "3"
)");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->stripe_size.count(), 65536u);
  EXPECT_THAT(cluster->nodes[0].targets, ElementsAre(0, 1, 2, 7));
  EXPECT_EQ(cluster->nodes[0].endpoint, "unix:" + (directory_ / "a.sock").string());
  EXPECT_EQ(cluster->nodes[1].name, "node1");
  EXPECT_EQ(cluster->key_file, (directory_ / "key").string());
}

TEST_F(ClusterTest, NodesRunAsTheOwnerOfTheFileUnlessItSaysOtherwise) {
  const std::string node = "[[node]]\nendpoint = 'unix:/x'\ntargets = '0'\n";
  EXPECT_EQ(load(node)->node_user, ::geteuid());
  EXPECT_EQ(load("node_user = '4711'\n" + node)->node_user, 4711U);
  EXPECT_EQ(load("node_user = 4712\n" + node)->node_user, 4712U);
  EXPECT_EQ(load("node_user = 'root'\n" + node)->node_user, 0U);
  EXPECT_THAT(load("node_user = 'no such user'\n" + node).error().message, HasSubstr("node_user"));
}

TEST_F(ClusterTest, TheFormerNameOfTheFenceTimeIsReadWithAWarning) {
  const std::string node = "[[node]]\nendpoint = 'unix:/x'\ntargets = '0'\n";
  EXPECT_EQ(load("fence_time = '3s'\n" + node)->fence_time, std::chrono::seconds(3));
  testing::internal::CaptureStderr();
  EXPECT_EQ(load("lease = '4s'\n" + node)->fence_time, std::chrono::seconds(4));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("`lease` is called `fence_time` now"));
}

TEST_F(ClusterTest, ImpossibleTimesAreRefused) {
  const std::string node = "[[node]]\nendpoint = 'unix:/x'\ntargets = '0'\n";
  for (const std::string time : {"request_timeout = '0s'\n", "request_timeout = '1ns'\n", "fence_time = '0s'\n"}) {
    const auto loaded = load(time + node);
    ASSERT_FALSE(loaded) << time;
    EXPECT_THAT(loaded.error().message, HasSubstr("must be at least"));
  }
}

TEST_F(ClusterTest, AFullDiskIsReported) {
  Cluster cluster;
  cluster.nodes = {{"a", "unix:/tmp/x.sock", {0}}};
  std::filesystem::create_symlink("/dev/full", directory_ / "cluster.toml.new");
  const auto saved = save_cluster(cluster, directory_ / "cluster.toml");
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().system, ENOSPC);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "cluster.toml"));
}

TEST_F(ClusterTest, SavedFilesCanBeLoaded) {
  Cluster cluster;
  cluster.nodes = {{"a", "unix:/tmp/x.sock", {0, 1}}, {"b", "tcp:[::1]:80", {4}}};
  cluster.stripe_size = Bytes(12288);
  cluster.request_timeout = std::chrono::milliseconds(1500);
  cluster.order_ids = {100, 199};
  const auto path = (directory_ / "out.toml").string();
  ASSERT_TRUE(save_cluster(cluster, path));
  auto again = load_cluster(path);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->stripe_size.count(), 12288u);
  EXPECT_EQ(again->request_timeout, cluster.request_timeout);
  EXPECT_EQ(again->order_ids.low, 100u);
  EXPECT_EQ(again->order_ids.high, 199u);
  ASSERT_EQ(again->nodes.size(), 2u);
  EXPECT_EQ(again->nodes[1].endpoint, "tcp:[::1]:80");
  EXPECT_THAT(again->nodes[0].targets, ElementsAre(0, 1));
}

TEST_F(ClusterTest, ErrorsNameTheMistake) {
  const std::string node = "[[node]]\nname = 'a'\nendpoint = 'unix:/x'\ntargets = '0'\n";
  EXPECT_THAT(load("").error().message, HasSubstr("at least one"));
  EXPECT_THAT(load(node + node).error().message, HasSubstr("two nodes have the name"));
  EXPECT_THAT(load(node + "[[node]]\nname = 'b'\nendpoint = 'unix:/y'\ntargets = '0'\n").error().message,
              HasSubstr("owned by a and by b"));
  EXPECT_THAT(load("[[node]]\nendpoint = 'unix:/y'\ntargets = '3-1'\n").error().message, HasSubstr("ranges"));
  EXPECT_THAT(load("[[node]]\nendpoint = 'serial:/y'\ntargets = '3'\n").error().message, HasSubstr("serial"));
  EXPECT_THAT(load("stripe_count = 9\n" + node).error().message, HasSubstr("stripe_count is 9"));
  EXPECT_THAT(load("order_ids = '9-1'\n" + node).error().message, HasSubstr("cluster.toml:1: order_ids: '9-1'"));
  EXPECT_FALSE(load("speed = 9\n" + node));
  EXPECT_FALSE(load_cluster("/does/not/exist"));
}

TEST(CInterface, PointersThatAreNullAreRefused) {
  tutti_client* client = nullptr;
  tutti_file* file = nullptr;
  EXPECT_EQ(tutti_client_connect("/nonexistent/cluster.toml", nullptr), -EFAULT);
  EXPECT_EQ(tutti_client_connect("/nonexistent/cluster.toml", &client), -ENOENT);
  EXPECT_EQ(tutti_client_unlink(nullptr, "x"), -EFAULT);
  EXPECT_EQ(tutti_client_sync_directory(nullptr, ""), -EFAULT);
  EXPECT_EQ(tutti_client_open(nullptr, "x", 0, 0, &file), -EFAULT);
  EXPECT_EQ(tutti_file_write(nullptr, "x", 1, 0), -EFAULT);
  EXPECT_EQ(tutti_file_sync(nullptr, 0), -EFAULT);
  tutti_client_end_phase(nullptr);
  ssize_t result = 0;
  tutti_file_read_async(
      nullptr, nullptr, 0, [](void* context, ssize_t count) { *static_cast<ssize_t*>(context) = count; }, &result);
  EXPECT_EQ(result, -EFAULT);
  EXPECT_STREQ(tutti_client_error(), "an argument is NULL");
}

}  // namespace
}  // namespace tutti
