// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/fault_run.h"

#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include <set>

namespace tutti::sim {
namespace {

class QuietNodes : public testing::Environment {
  void SetUp() override { spdlog::set_level(spdlog::level::warn); }
};
const auto* const kQuietNodes = testing::AddGlobalTestEnvironment(new QuietNodes);

TEST(FaultPlan, HasTheRequiredSizeAndUsesAllKinds) {
  std::set<FaultKind> all;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const FaultPlan plan = make_fault_plan(seed);
    std::set<FaultKind> kinds;
    for (const PlannedFault& fault : plan.faults) {
      kinds.insert(fault.kind);
      EXPECT_LE(fault.end, plan.length.count());
    }
    EXPECT_GE(plan.nodes, 3u);
    EXPECT_GE(plan.clients, 3u);
    EXPECT_GE(plan.operations, 2000u);
    EXPECT_GE(plan.faults.size(), 10u);
    EXPECT_GE(kinds.size(), 4u);
    EXPECT_GE(plan.length, std::chrono::seconds(300));
    all.merge(kinds);
  }
  EXPECT_EQ(all.size(), kFaultKinds);
}

TEST(FaultRun, EqualSeedsGiveEqualRuns) {
  const FaultOutcome one = run_faults(make_fault_plan(4)), two = run_faults(make_fault_plan(4));
  EXPECT_EQ(one.hash, two.hash);
  EXPECT_EQ(one.operations, two.operations);
  EXPECT_NE(one.hash, run_faults(make_fault_plan(5)).hash);
}

TEST(FaultRun, UsesEveryKindOfOperation) {
  const FaultOutcome outcome = run_faults(make_fault_plan(6));
  EXPECT_GE(outcome.all_operations(), 2000u);
  EXPECT_GE(outcome.simulated, std::chrono::seconds(300));
  EXPECT_LT(outcome.failed_operations, outcome.all_operations() / 2);
  for (std::size_t i = 0; i < kLoadKinds; ++i)
    EXPECT_GT(outcome.operations[i], 0u) << name_of(static_cast<LoadKind>(i));
}

// Seeds that find a repair that is taken back (docs/reliability.md), 20490: a disk that is stalled until the end, and
// 701075: a node that is killed while it opens files.
class FixedSeeds : public testing::TestWithParam<std::uint64_t> {};

TEST_P(FixedSeeds, HaveNoViolation) {
  EXPECT_THAT(run_faults(make_fault_plan(GetParam())).violations, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, FixedSeeds, testing::Values(2, 6, 8, 9, 14, 16, 48, 95, 20490, 701075));

}  // namespace
}  // namespace tutti::sim
