// SPDX-License-Identifier: Apache-2.0
// Live nodes in one process share the limits of their policy. The figures are tested in virtual time
// (sim/cluster_limits_test.cc); here threads and sockets are.
#include "node/limit_exchange.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <array>
#include <filesystem>
#include <thread>

#include "base/temporary_directory.h"
#include "node/node.h"
#include "node/test_client.h"

namespace tutti::node {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class LiveLimits : public testing::Test {
 protected:
  static constexpr std::size_t kNodes = 3, kBlock = 32768;
  const PolicyOptions limited_{{"limits", "7=2MB/s"}};

  void SetUp() override {
    spdlog::set_level(spdlog::level::warn);
    std::filesystem::create_directory(base_ / "data");
    for (std::size_t i = 0; i < kNodes; ++i) start(i);
  }
  void TearDown() override {
    for (auto& node : nodes_) node.reset();
  }
  std::string endpoint(std::size_t node) const { return "unix:" + base_ / ("socket" + std::to_string(node)); }
  void start(std::size_t node) {
    NodeOptions options;
    options.name = "node" + std::to_string(node);
    options.directory = base_ / "data";
    options.listen = {endpoint(node)};
    options.engine = "null";
    options.policy = "fair";
    options.policy_options = limited_;
    for (std::size_t i = 0; i < kNodes; ++i) options.cluster.push_back({"node" + std::to_string(i), endpoint(i)});
    auto started = Node::start(options);
    ASSERT_TRUE(started) << started.error().message;
    nodes_[node] = std::move(*started);
  }
  std::uint32_t shares(std::size_t node) { return TestClient(endpoint(node)).call(wire::LimitsShowRequest{}).shares; }
  bool has_shares(std::size_t node, std::uint32_t wanted) {
    for (const auto until = Steady::now() + 30s; Steady::now() < until; std::this_thread::sleep_for(20ms))
      if (shares(node) == wanted) return true;
    return false;
  }
  // Job 7 writes `count` blocks to a node, eight at a time.
  void write(std::size_t node, std::size_t count) {
    TestClient client(endpoint(node));
    wire::CreateRequest create;
    create.path = "file" + std::to_string(node);
    const wire::FileReference file{1, create.path, client.call(create).attributes.inode};
    const std::string data(kBlock, 'x');
    std::vector<std::uint64_t> tags;
    for (std::size_t i = 0; i < count; ++i) {
      wire::WriteRequest request = TestClient::write_request(file, i * kBlock, kBlock);
      request.data.stamp.application = 7;
      tags.push_back(client.send(request, data));
      if (i >= 8) {
        EXPECT_EQ(client.head(tags[i - 8]).status, 0);
      }
    }
    for (std::size_t i = count > 8 ? count - 8 : 0; i < count; ++i) EXPECT_EQ(client.head(tags[i]).status, 0);
  }

  const TemporaryDirectory base_;
  std::array<std::unique_ptr<Node>, kNodes> nodes_;
};

TEST_F(LiveLimits, HoldForThreeNodesTogether) {
  ASSERT_TRUE(has_shares(0, 3));
  const auto begin = Steady::now();
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < kNodes; ++i) writers.emplace_back([this, i] { write(i, 30); });
  for (std::thread& writer : writers) writer.join();
  // 2.9 MB at 2 MB/s; three nodes with a limit each would need a third of that.
  EXPECT_GE(Steady::now() - begin, 1200ms);
}

TEST_F(LiveLimits, NothingIsLostWhileNodesComeAndGoAndPoliciesChange) {
  ASSERT_TRUE(has_shares(0, 3));
  std::thread one([this] { write(1, 60); }), two([this] { write(2, 60); });
  for (int i = 0; i < 3; ++i) {
    nodes_[0].reset();
    EXPECT_TRUE(nodes_[1]->set_policy("fifo", {}));
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(nodes_[1]->set_policy("fair", limited_));
    start(0);
    std::this_thread::sleep_for(200ms);
  }
  one.join();
  two.join();
  nodes_[0].reset();
  EXPECT_TRUE(has_shares(1, 3)) << "the share of a node that has ended counts";
}

}  // namespace
}  // namespace tutti::node
