// SPDX-License-Identifier: Apache-2.0
// Commands of a user inside and outside of jobs, against nodes of root that check job numbers. Needs root.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tutti/client.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/temporary_directory.h"
#include "node/control.h"
#include "processes.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using namespace e2e;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr const char* kUser = "4321";

class JobsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || run({"setpriv", "--reuid=4321", TUTTI_BINARY, "--version"}).status != 0)
      GTEST_SKIP() << "needs root, and a program that all users can run";
    chmod(base_.path().c_str(), 0755);
    for (const char* name : {"TUTTI_CLUSTER", "TUTTI_GATE", "TUTTI_APP", "SLURM_JOB_ID"}) unsetenv(name);
    { std::ofstream(base_ / "f") << "content"; }
    // Job 4711 is the user's. Every question is noted.
    {
      std::ofstream(base_ / "squeue") << "#!/bin/sh\necho $2 >> " << base_ / "asked"
                                      << "\ntest $2 != 4711 || echo 4321\n";
    }
    chmod((base_ / "squeue").c_str(), 0755);
  }
  void TearDown() override {
    if (fs::exists(directory_ + "/cluster.toml"))
      run({TUTTI_BINARY, "down", "--cluster", directory_, "--now", "--timeout", "2s"});
    for (fs::path path = cgroup_; path.filename() != "freezer"; path = path.parent_path()) ::rmdir(path.c_str());
  }

  void up(const std::string& settings = "") {
    fs::create_directories(directory_ + "/files");
    chmod((directory_ + "/files").c_str(), 01777);
    std::ofstream(directory_ + "/cluster.toml")
        << "[defaults]\ndirectory = \"files\"\n"
        << settings << "[[node]]\nname = \"node0\"\nendpoint = \"unix:node0.sock\"\ntargets = \"0\"\n";
    const Outcome outcome = run({TUTTI_BINARY, "up", "--cluster", directory_});
    ASSERT_EQ(outcome.status, 0) << outcome.output;
  }
  // `tutti put` as the user.
  Outcome put(const std::string& application, bool in_job = false) const {
    const std::string enter = in_job ? "echo $$ > " + (cgroup_ / "cgroup.procs").string() + " && " : "";
    const std::string variable = application.empty() ? "" : "TUTTI_APP=" + application + " ";
    return run({"sh", "-c",
                enter + variable + "exec setpriv --reuid=" + kUser + " --regid=" + kUser + " --clear-groups " +
                    TUTTI_BINARY + " put " + base_ / "f" + " --cluster " + directory_});
  }
  // Job and user of each row.
  std::vector<std::pair<ApplicationId, UserId>> jobs() const {
    const auto cluster = load_cluster(directory_);
    auto control = Control::connect({.endpoint = cluster->nodes[0].endpoint});
    EXPECT_TRUE(control) << control.error().message;
    std::vector<std::pair<ApplicationId, UserId>> found;
    const auto statistics = (*control)->statistics();
    EXPECT_TRUE(statistics);
    for (const wire::Usage& usage : statistics->usage) found.emplace_back(usage.application, usage.user);
    return found;
  }

  const TemporaryDirectory base_;
  const std::string directory_ = base_ / "cluster";
  const fs::path cgroup_ = "/sys/fs/cgroup/freezer/slurm_e2e_" + std::to_string(getpid()) + "/uid_4321/job_4711";
};

TEST_F(JobsTest, AClientInTheCgroupOfAJobIsThatJob) {
  std::error_code error;
  fs::create_directories(cgroup_, error);
  if (error) GTEST_SKIP() << "no freezer hierarchy of cgroups";
  up();
  const Outcome wrong = put("99", true);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.output, HasSubstr("the client states job 99, but runs in job 4711. Unset TUTTI_APP"));
  const Outcome right = put("", true);
  EXPECT_EQ(right.status, 0) << right.output;
  EXPECT_EQ(put("4711", true).status, 0);
  EXPECT_THAT(jobs(), ElementsAre(Pair(4711, 4321)));
  EXPECT_EQ(put("99").status, 0) << "outside of the job the number is not checked";
  EXPECT_THAT(jobs(), ElementsAre(Pair(99, 4321), Pair(4711, 4321)));
}

TEST_F(JobsTest, TheBatchSystemIsAskedOnce) {
  up("job_check = \"slurm\"\njob_command = \"" + base_ / "squeue" + " --jobs\"\n");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(put("4711").status, 0);
  EXPECT_EQ(content(base_ / "asked"), "4711\n");
  const Outcome wrong = put("17");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.output, HasSubstr("job 17 is not a running job of user 4321"));
  EXPECT_EQ(put("").status, 0);
  EXPECT_THAT(jobs(), ElementsAre(Pair(0, 4321), Pair(4711, 4321)));
  const Outcome status = run({TUTTI_BINARY, "status", "--cluster", directory_});
  EXPECT_THAT(status.output, HasSubstr("job numbers: checked with the batch system"));
}

}  // namespace
}  // namespace tutti
