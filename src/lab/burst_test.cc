// SPDX-License-Identifier: Apache-2.0
#include "lab/burst.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/temporary_directory.h"
#include "node/node.h"

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;

TEST(Burst, MovesAllOfItWithSeveralOperationsUnderWay) {
  const TemporaryDirectory directory;
  fs::create_directory(directory / "files");
  ClientOptions options;
  std::vector<std::unique_ptr<Node>> nodes;
  for (TargetId i = 0; i < 2; ++i) {
    const std::string endpoint = "unix:" + directory / std::to_string(i);
    NodeOptions node;
    node.directory = directory / "files";
    node.listen = {endpoint};
    node.targets = {i};
    nodes.push_back(Node::start(node).value());
    options.cluster.nodes.push_back({"node" + std::to_string(i), endpoint, {i}});
  }
  options.cluster.stripe_size = Bytes(64 << 10);
  auto client = Client::connect(options).value();
  auto file = client->open("file", {.read = true, .write = true, .create = true}).value();
  Burst burst{.offset = 17, .total = Bytes(1 << 20), .operation = Bytes(100000), .depth = 4};
  const auto written = run_burst(*file, burst);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(fs::file_size(directory / "files/file"), burst.offset + burst.total.count());
  burst.direction = Direction::kRead;
  EXPECT_TRUE(run_burst(*file, burst));
  burst.offset = 1 << 20;  // ends past the end of the file
  EXPECT_FALSE(run_burst(*file, burst));
  burst.operation = Bytes(0);
  EXPECT_FALSE(run_burst(*file, burst));
  file.reset();
  client.reset();
  nodes.clear();
}

}  // namespace
}  // namespace tutti::lab
