// SPDX-License-Identifier: Apache-2.0
// What nodes see of an MPI program: every collective call is one operation with one stamp, whichever ranks send its
// parts, and independent calls go through the nodes, too.
//
// The nodes of this test keep files in memory, so the file of the mount stays empty.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/temporary_directory.h"
#include "client/cluster_file.h"
#include "client/fake_node.h"
#include "tests/e2e/processes.h"

namespace tutti {
namespace {

// As in carried.c.
constexpr std::uint64_t kRounds = 5, kRanks = 4, kPart = 3 * 4096;

// Two nodes with three targets that share a disk in memory, and an empty file in a served directory.
class OneStampTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::create_directory(directory_ / "files"));
    std::ofstream(directory_ / "files/data").flush();
    struct stat status {};
    ASSERT_EQ(::stat((directory_ / "files/data").c_str(), &status), 0);
    disk_.files["data"];
    disk_.inodes["data"] = status.st_ino;
    disk_.modes["data"] = 0644;
    ClusterFile file;
    file.cluster.stripe_size = Bytes(4096);
    file.cluster.nodes = {{"a", "unix:" + directory_ / "a", {0, 2}}, {"b", "unix:" + directory_ / "b", {1}}};
    file.defaults.directory = directory_ / "files";
    ASSERT_TRUE(save_cluster_file(file, directory_ / "cluster.toml"));
    for (const char* name : {"a", "b"})
      nodes_.push_back(std::make_unique<FakeNode>(disk_, name, wire::Limits{}, directory_ / name));
  }

  e2e::Outcome run(const std::string& plan) {
    ::setenv("TUTTI_PLAN", plan.c_str(), 1);
    ::setenv("TUTTI_CLUSTER", (directory_ / "cluster.toml").c_str(), 1);
    ::setenv("TUTTI_ROUTE", "nodes", 1);
    return e2e::run({TUTTI_MPI_RUN, TUTTI_MPI_NAME, TUTTI_MPI_LIBRARY, TUTTI_MPI_YIELD, "4", "behave",
                     TUTTI_MPI_PROGRAM, directory_ / "files/data", "unseen"});
  }

  // The requests of both nodes by operation.
  std::map<OperationId, std::vector<FakeNode::Seen>> operations() {
    std::map<OperationId, std::vector<FakeNode::Seen>> found;
    for (const auto& node : nodes_)
      for (const auto& seen : node->seen())
        if (seen.type == wire::Type::kRead || seen.type == wire::Type::kWrite)
          found[seen.stamp.operation].push_back(seen);
    return found;
  }

  TemporaryDirectory directory_;
  FakeDisk disk_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
};

class OneStampPerPlanTest : public OneStampTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(OneStampPerPlanTest, OfACollectiveCall) {
  const auto outcome = run(GetParam());
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto operations = this->operations();
  std::set<ApplicationId> applications;
  std::uint64_t together = 0, largest = 0;
  for (const auto& [id, requests] : operations) {
    const Stamp& stamp = requests.front().stamp;
    std::set<TargetId> targets;
    for (const auto& request : requests) {
      EXPECT_EQ(request.type, requests.front().type);
      EXPECT_EQ(request.stamp.issued, stamp.issued);
      EXPECT_EQ(request.stamp.attained, stamp.attained);
      EXPECT_EQ(request.stamp.bottleneck, stamp.bottleneck);
      EXPECT_EQ(request.stamp.phase, stamp.phase);
      targets.insert(request.target);
      applications.insert(request.stamp.application);
    }
    // The data of all ranks, 12 stripes over 3 targets, is in the stamp.
    if (stamp.bottleneck == Bytes(kRanks * kPart / 3) && targets.size() == 3) ++together;
    largest = std::max<std::uint64_t>(largest, requests.size());
  }
  EXPECT_EQ(applications.size(), 1u) << "all ranks are one application";
  // Per round a collective write and read, and an independent write and read of every rank. The last rank also reads at
  // the end of the file.
  EXPECT_EQ(operations.size(), kRounds * (2 + 2 * kRanks) + 1);
  EXPECT_GE(together, kRounds * 2);
  EXPECT_GE(largest, 3u);
}

INSTANTIATE_TEST_SUITE_P(Plans, OneStampPerPlanTest, ::testing::Values("resonant", "timed"),
                         [](const auto& plan) { return std::string(plan.param); });

}  // namespace
}  // namespace tutti
