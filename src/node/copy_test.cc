// SPDX-License-Identifier: Apache-2.0
// Copies between files of a live node, and those that are refused.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/temporary_directory.h"
#include "node/node.h"
#include "node/test_client.h"

namespace tutti::node {
namespace {

class CopyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(base_ / "data");
    NodeOptions options;
    options.directory = base_ / "data";
    options.listen = {endpoint_};
    auto node = Node::start(options);
    ASSERT_TRUE(node) << node.error().message;
    node_ = std::move(*node);
    client_ = std::make_unique<TestClient>(endpoint_);
    { std::ofstream(base_ / "data/source") << "0123456789"; }
    { std::ofstream(base_ / "data/copy") << "...."; }
  }
  static wire::CopyRequest request(std::uint64_t from, const wire::Extent& range) {
    wire::CopyRequest made;
    made.data.file = {1, "copy", 0};
    made.source = {2, "source", 0};
    made.source_offset = from;
    made.range = range;
    return made;
  }
  std::string content() {
    std::ifstream stream(base_ / "data/copy");
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const TemporaryDirectory base_;
  const std::string endpoint_ = "unix:" + base_ / "socket";
  std::unique_ptr<Node> node_;
  std::unique_ptr<TestClient> client_;
};

TEST_F(CopyTest, ARangeIsCopiedAndCountsAsAWrite) {
  auto reply = client_->call(request(2, {1, 5}));
  EXPECT_EQ(reply.head.status, 0) << reply.head.message;
  EXPECT_EQ(reply.copied, 5u);
  EXPECT_EQ(content(), ".23456");
  reply = client_->call(request(8, {6, 1000}));
  EXPECT_EQ(reply.copied, 2u) << "the end of the source";
  EXPECT_EQ(content(), ".2345689");
  const auto usage = node_->statistics().usage;
  ASSERT_EQ(usage.size(), 1u);
  EXPECT_EQ(usage[0].written_bytes, 7u);
  EXPECT_EQ(usage[0].requests, 2u);
  EXPECT_EQ(usage[0].waiting, 0u);
}

TEST_F(CopyTest, NothingIsCopiedAfterTheDeadline) {
  auto late = request(0, {0, 4});
  late.data.deadline = TimePoint(Duration(1));
  EXPECT_EQ(client_->call(late).head.status, wire::kExpired);
  EXPECT_EQ(content(), "....");
}

TEST_F(CopyTest, RangesOfOneFileMustNotOverlap) {
  auto same = request(0, {2, 3});
  same.source = {1, "copy", 0};
  EXPECT_EQ(client_->call(same).head.status, EINVAL);
  same.source_offset = 0;
  same.range = {2, 2};
  EXPECT_EQ(client_->call(same).head.status, 0);
}

TEST_F(CopyTest, WrongFilesAreRefused) {
  auto wrong = request(0, {0, 1});
  wrong.source = {2, "missing", 0};
  EXPECT_EQ(client_->call(wrong).head.status, ENOENT);
  wrong.source = {3, "", 0};
  EXPECT_EQ(client_->call(wrong).head.status, wire::kUnknownFile);
  wrong = request(0, {0, 1});
  wrong.source.inode = 12345678;
  EXPECT_EQ(client_->call(wrong).head.status, ESTALE);
  wrong = request(0, {0, 1});
  wrong.data.file = {4, "nowhere/copy", 0};
  EXPECT_EQ(client_->call(wrong).head.status, ENOENT);
  EXPECT_EQ(client_->call(request(0, {0, 1})).head.status, 0) << "the connection stays usable";
}

// A copy is a barrier's business like a write: a sync and a truncate wait for it.
TEST_F(CopyTest, ManyCopiesAtOnceAreAllCarriedOut) {
  const std::string text(4 << 20, 't');
  { std::ofstream(base_ / "data/source") << text; }
  std::vector<std::uint64_t> tags;
  for (std::uint64_t at = 0; at < text.size(); at += 64 << 10)
    tags.push_back(client_->send(request(at, {at, 64 << 10})));
  wire::FsyncRequest sync;
  sync.data.file = {1, "copy", 0};
  const auto synced = client_->send(sync);
  for (const auto tag : tags) EXPECT_EQ(client_->head(tag).status, 0);
  EXPECT_EQ(client_->head(synced).status, 0);
  EXPECT_TRUE(content() == text);
}

}  // namespace
}  // namespace tutti::node
