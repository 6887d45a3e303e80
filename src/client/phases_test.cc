// SPDX-License-Identifier: Apache-2.0
#include "client/phases.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "client/identity.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;

const TimePoint kStart{std::chrono::hours(1)};
const std::vector<TargetShare> kShares = {{0, Bytes(100)}, {1, Bytes(60)}};

TEST(Phases, APauseBeginsANewPhaseThatIsExpectedToBeLikeTheLast) {
  Phases phases({.application = 3, .gap = 1s});
  auto stamp = phases.issue(1, kShares, kStart);
  EXPECT_EQ(stamp.phase_total.count(), 0u);
  phases.completed(kStart + 10ms);
  stamp = phases.issue(2, kShares, kStart + 900ms);
  EXPECT_EQ(stamp.phase, 1u);
  EXPECT_EQ(stamp.attained.count(), 100u);
  phases.completed(kStart + 950ms);
  stamp = phases.issue(3, kShares, kStart + 2s);
  EXPECT_EQ(stamp.phase, 2u);
  EXPECT_EQ(stamp.attained.count(), 0u);
  EXPECT_EQ(stamp.phase_total.count(), 200u);
  EXPECT_EQ(stamp.phase_start, kStart + 2s);
}

TEST(Phases, ASlowOperationIsNoPause) {
  Phases phases({.application = 3, .gap = 1s});
  phases.issue(1, kShares, kStart);
  EXPECT_EQ(phases.issue(2, kShares, kStart + 5s).phase, 1u) << "the first one is still under way";
  phases.completed(kStart + 6s);
  phases.completed(kStart + 6s);
  EXPECT_EQ(phases.issue(3, kShares, kStart + 6s + 500ms).phase, 1u);
}

TEST(Phases, AnAnnouncedPhaseEndsWhenItIsSaid) {
  Phases phases({.application = 3, .gap = 1s, .targets = 4});
  phases.begin({.total = Bytes(1000), .kind = 2}, kStart);
  auto stamp = phases.issue(1, kShares, kStart);
  EXPECT_EQ(stamp.phase_total.count(), 250u);
  phases.completed(kStart);
  EXPECT_EQ(phases.issue(2, kShares, kStart + 10s).phase, stamp.phase);
  phases.completed(kStart + 10s);
  phases.end();
  EXPECT_EQ(phases.learned(2).count(), 200u);
  EXPECT_EQ(phases.issue(3, kShares, kStart + 10s).phase, stamp.phase + 1);
}

// Each of four processes moves a quarter of what was announced, and none hears of the others.
TEST(Phases, AProcessSpeaksForAllThatDoTheSame) {
  Phases phases({.application = 3, .gap = 1s, .targets = 2, .processes = 4});
  for (int phase = 1; phase <= 2; ++phase) {
    phases.begin({.total = Bytes(1600)}, kStart);
    EXPECT_EQ(phases.issue(1, kShares, kStart).attained.count(), 0u);
    const Stamp second = phases.issue(2, kShares, kStart);
    EXPECT_EQ(second.phase_total.count(), 800u) << "phase " << phase << ": the one before was as large as was said";
    EXPECT_EQ(second.attained.count(), 400u);
    EXPECT_EQ(second.bottleneck.count(), 400u);
    phases.completed(kStart);
    phases.completed(kStart);
    phases.end();
  }
  EXPECT_EQ(phases.learned(0).count(), 800u);
}

TEST(Phases, TheNextRunRemembers) {
  const auto path = testing::TempDir() + "tutti-phases-test";
  std::filesystem::remove(path);
  {
    Phases phases({.application = 3, .memory_file = path});
    phases.begin({.kind = 7}, kStart);
    phases.issue(1, kShares, kStart);
    phases.completed(kStart);
    ASSERT_TRUE(phases.save());
  }
  Phases phases({.application = 4, .memory_file = path});
  phases.begin({.kind = 7}, kStart);
  EXPECT_EQ(phases.issue(1, kShares, kStart).phase_total.count(), 100u);
  std::ofstream(path) << "7 rubbish";
  Phases forgetful({.application = 4, .memory_file = path});
  EXPECT_EQ(forgetful.learned(7).count(), 0u);
  std::filesystem::remove(path);
}

TEST(Identity, ComesFromTheBatchSystem) {
  std::map<std::string, std::string> variables;
  const Environment environment = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  EXPECT_EQ(application_from(environment), static_cast<ApplicationId>(::getsid(0)));
  variables["PBS_JOBID"] = "4711.server";
  EXPECT_EQ(application_from(environment), 4711u);
  variables["SLURM_JOB_ID"] = "12";
  EXPECT_EQ(application_from(environment), 12u);
  variables["TUTTI_APP"] = "climate";
  const auto climate = application_from(environment);
  EXPECT_LT(climate, 32768u);
  EXPECT_EQ(application_from(environment), climate);
  EXPECT_EQ(processes_from(environment), 1u);
  variables["PMI_SIZE"] = "8";
  EXPECT_EQ(processes_from(environment), 8u);
  variables["SLURM_STEP_NUM_TASKS"] = "64";
  EXPECT_EQ(processes_from(environment), 64u);
  for (const char* nonsense : {"", "0", "-1", "12x", "99999999999"}) {
    variables["TUTTI_PROCESSES"] = nonsense;
    EXPECT_EQ(processes_from(environment), 64u) << nonsense;
  }
  variables["TUTTI_PROCESSES"] = "2";
  EXPECT_EQ(processes_from(environment), 2u);
  variables["SLURM_JOB_NAME"] = "ocean";
  EXPECT_EQ(job_from(environment), "ocean");
}

}  // namespace
}  // namespace tutti
