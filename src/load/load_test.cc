// SPDX-License-Identifier: Apache-2.0
#include "load/load.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "node/node.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

TEST(Load, WritesReadsAndMeasures) {
  std::string pattern = (fs::temp_directory_path() / "tutti-load-XXXXXX").string();
  const std::string directory = mkdtemp(pattern.data());
  fs::create_directory(directory + "/files");
  LoadOptions options;
  std::vector<std::unique_ptr<Node>> nodes;
  for (TargetId i = 0; i < 2; ++i) {
    const std::string endpoint = "unix:" + directory + "/" + std::to_string(i);
    NodeOptions node;
    node.directory = directory + "/files";
    node.listen = {endpoint};
    node.targets = {i};
    nodes.push_back(Node::start(node).value());
    options.cluster.nodes.push_back({"node" + std::to_string(i), endpoint, {i}});
  }
  options.cluster.stripe_size = Bytes(64 << 10);
  options.path = "file";
  options.total = Bytes((1 << 20) + 17);
  options.request = Bytes(100000);
  options.depth = 4;
  options.fsync = true;
  const auto written = run_load(options);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(written->moved, options.total);
  EXPECT_EQ(written->latencies.size(), 11U);
  EXPECT_EQ(fs::file_size(directory + "/files/file"), options.total.count());
  options.direction = Direction::kRead;
  const auto read = run_load(options);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->moved, options.total);
  EXPECT_GT(read->bytes_per_second(), 0);
  options.path = "none";
  EXPECT_FALSE(run_load(options));
  nodes.clear();
  fs::remove_all(directory);
}

}  // namespace
}  // namespace tutti
