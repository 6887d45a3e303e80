// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tutti/client.h>

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

TEST_F(ClusterTest, WritesWhatItReads) {
  Cluster cluster;
  cluster.nodes = {{"a", "unix:/tmp/x.sock", {0, 1}}, {"b", "tcp:[::1]:80", {4}}};
  cluster.stripe_size = Bytes(12345);
  cluster.request_timeout = std::chrono::milliseconds(1500);
  const auto path = (directory_ / "out.toml").string();
  ASSERT_TRUE(save_cluster(cluster, path));
  auto again = load_cluster(path);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->stripe_size.count(), 12345u);
  EXPECT_EQ(again->request_timeout, cluster.request_timeout);
  ASSERT_EQ(again->nodes.size(), 2u);
  EXPECT_EQ(again->nodes[1].endpoint, "tcp:[::1]:80");
  EXPECT_THAT(again->nodes[0].targets, ElementsAre(0, 1));
}

TEST_F(ClusterTest, SaysWhatIsWrong) {
  const std::string node = "[[node]]\nname = 'a'\nendpoint = 'unix:/x'\ntargets = '0'\n";
  EXPECT_THAT(load("").error().message, HasSubstr("at least one"));
  EXPECT_THAT(load(node + node).error().message, HasSubstr("two nodes have the name"));
  EXPECT_THAT(load(node + "[[node]]\nname = 'b'\nendpoint = 'unix:/y'\ntargets = '0'\n").error().message,
              HasSubstr("owned by a and by b"));
  EXPECT_THAT(load("[[node]]\nendpoint = 'unix:/y'\ntargets = '3-1'\n").error().message, HasSubstr("ranges"));
  EXPECT_THAT(load("[[node]]\nendpoint = 'carrier:/y'\ntargets = '3'\n").error().message, HasSubstr("carrier"));
  EXPECT_THAT(load("stripe_count = 9\n" + node).error().message, HasSubstr("stripe_count is 9"));
  EXPECT_FALSE(load("speed = 9\n" + node));
  EXPECT_FALSE(load_cluster("/does/not/exist"));
}

}  // namespace
}  // namespace tutti
