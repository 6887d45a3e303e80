// SPDX-License-Identifier: Apache-2.0
// A live node that records its requests.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/temporary_directory.h"
#include "node/node.h"
#include "node/test_client.h"
#include "trace/live_files.h"

namespace tutti::node {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NodeTraceTest : public testing::Test {
 protected:
  NodeTraceTest() {
    spdlog::set_level(spdlog::level::warn);
    chmod(base_.path().c_str(), 0755);
    std::filesystem::create_directory(base_ / "data");
    options_.name = "io1";
    options_.directory = base_ / "data";
    options_.listen = {endpoint_};
    options_.trace_directory = traces_;
  }

  const TemporaryDirectory base_;
  const std::string traces_ = base_ / "traces";
  const std::string endpoint_ = "unix:" + base_ / "socket";
  NodeOptions options_;
};

TEST_F(NodeTraceTest, RecordsFilesByPathWithCompletions) {
  options_.policy_options = {{"stretch", "8"}, {"prediction", "off"}};
  auto node = Node::start(options_);
  ASSERT_TRUE(node) << node.error().message;
  {
    TestClient client(endpoint_);
    wire::CreateRequest request;
    request.path = "out.17";
    const auto made = client.call(request);
    ASSERT_EQ(made.head.status, 0) << made.head.message;
    const wire::FileReference file{1, "out.17", made.attributes.inode};
    request.path = "put.tutti-tmp.123-0a1b";
    const auto temporary = client.call(request);
    EXPECT_EQ(client.write({2, request.path, temporary.attributes.inode}, 0, "y").written, 1U);
    EXPECT_EQ(client.write(file, 4096, std::string(1000, 'x')).written, 1000U);
    EXPECT_EQ(client.read(file, {{4096, 10}}), std::string(10, 'x'));
  }
  ASSERT_TRUE((*node)->stop(Scheduler::Stop::kDrain));
  const auto read = trace::read_files({traces_}, trace::Names::kPaths);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(*read, SizeIs(1));
  const trace::Recording& recording = read->front();
  EXPECT_THAT(recording.problems.texts(), IsEmpty());
  EXPECT_EQ(recording.facts.at("node"), "io1");
  EXPECT_EQ(recording.facts.at("policy"), "concert");
  EXPECT_EQ(recording.facts.at("policy_options"), R"({"prediction":"off","stretch":"8"})");
  EXPECT_THAT(recording.trace.files, ElementsAre("put", "out.17"));
  ASSERT_THAT(recording.trace.requests, SizeIs(3));
  const TraceRequest& write = recording.trace.requests[1];
  EXPECT_EQ(write.direction, Direction::kWrite);
  EXPECT_EQ(write.offset, 4096u);
  EXPECT_EQ(write.length, Bytes(1000));
  EXPECT_TRUE(write.has_completed());
  EXPECT_GE(write.completed, write.time);
  EXPECT_EQ(recording.trace.requests[2].direction, Direction::kRead);
  EXPECT_GE(recording.trace.requests[2].time, write.completed);
}

TEST_F(NodeTraceTest, DoesNotStartIfItCannotRecord) {
  options_.trace_directory = base_ / "no/such/directory";
  const auto node = Node::start(options_);
  ASSERT_FALSE(node);
  EXPECT_THAT(node.error().message, HasSubstr("no/such/directory: No such file"));
}

// What the predictions change is tested in src/sched/prediction; here they arrive at the policy, also after a switch.
TEST_F(NodeTraceTest, PredictsFromTracesOfEarlierRuns) {
  const auto write_all = [&] {
    auto node = Node::start(options_);
    ASSERT_TRUE(node) << node.error().message;
    TestClient client(endpoint_);
    wire::CreateRequest request;
    request.path = "out.17";
    const auto made = client.call(request);
    ASSERT_EQ(made.head.status, 0) << made.head.message;
    const wire::FileReference file{1, "out.17", made.attributes.inode};
    for (std::uint64_t i = 0; i < 20; ++i)
      ASSERT_EQ(client.write(file, i * 1000, std::string(1000, 'x')).written, 1000U) << i;
  };
  write_all();
  options_.trace_directory.clear();
  options_.predict = traces_;
  options_.policy = "mlf";
  options_.policy_options = {{"prediction", "traces"}};
  write_all();
  options_.predict = base_ / "none";
  const auto refused = Node::start(options_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("none"));
}

}  // namespace
}  // namespace tutti::node
