// SPDX-License-Identifier: Apache-2.0
// Requests that are merged because they adjoin in the object of a target.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temporary_directory.h"
#include "node/engine_latch_testing.h"
#include "node/node.h"
#include "node/test_client.h"

namespace tutti::node {
namespace {

// The file has stripes of 4 KiB on two targets; this node has the first.
TEST(ObjectBatch, StripesThatFollowEachOtherInAnObjectAreOneBatch) {
  const TemporaryDirectory base;
  std::filesystem::create_directory(base / "data");
  EngineLatch latch;
  NodeOptions options;
  options.directory = base / "data";
  options.listen = {"unix:" + base / "socket"};
  options.depth = 1;
  options.policy = "to";
  options.policy_options = {{"adjoin", "object"}};
  options.wrap_engine = latch.wrapper();
  const auto node = std::move(Node::start(options).value());
  TestClient client(options.listen.front());
  ASSERT_EQ(client.call(wire::CreateRequest{.path = "a"}).head.status, 0);
  const auto write = [&](std::uint64_t offset, char letter) {
    auto request = TestClient::write_request({1, "a", 0}, offset, 4096);
    request.data.stripe_log2 = 12;
    request.data.stripe_count = 2;
    return client.send(request, std::string(4096, letter));
  };
  const auto blocker = write(1 << 20, 'b');
  latch.wait(1);
  const auto first = write(0, '1'), second = write(8192, '2'), other = write(4096, 'o');
  while (node->statistics().waiting < 3) std::this_thread::yield();
  const auto before = node->statistics().batches;
  latch.open();
  for (const auto tag : {blocker, first, second, other}) EXPECT_EQ(client.head(tag).status, 0);
  EXPECT_EQ(node->statistics().batches - before, 2U);
  std::string content(12288, '?');
  std::ifstream(base / "data" + "/a").read(content.data(), static_cast<std::streamsize>(content.size()));
  EXPECT_EQ(content, std::string(4096, '1') + std::string(4096, 'o') + std::string(4096, '2'));
}

}  // namespace
}  // namespace tutti::node
