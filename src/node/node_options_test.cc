// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_directory.h"
#include "node/node.h"

namespace tutti::node {
namespace {

TEST(NodeOptions, WrongOnesAreNamed) {
  const TemporaryDirectory base;
  const std::string endpoint = "unix:" + base / "socket";
  NodeOptions options;
  options.directory = base.path();
  options.listen = {endpoint};
  options.name = std::string(256, 'n');
  EXPECT_THAT(Node::start(options).error().message, testing::HasSubstr("at most 255"));
  options.name = "node0";
  options.engine = "paper";
  EXPECT_EQ(Node::start(options).error().code, ErrorCode::kInvalid);
  options.engine = "posix";
  options.policy = "none";
  EXPECT_EQ(Node::start(options).error().code, ErrorCode::kNotFound);
  options.policy = "fifo";
  options.listen = {"tcp:127.0.0.1:0"};
  EXPECT_THAT(Node::start(options).error().message, testing::HasSubstr("key"));
  options.listen = {endpoint};
  options.directory = base / "none";
  EXPECT_EQ(Node::start(options).error().system, ENOENT);
}

}  // namespace
}  // namespace tutti::node
