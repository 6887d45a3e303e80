// SPDX-License-Identifier: Apache-2.0
#include "sim/random_scenario.h"

#include <gmock/gmock.h>

#include "base/testing.h"
#include "sched/policy.h"
#include "sim/scenario_file.h"
#include "sim/simulation.h"

namespace tutti::sim {
namespace {

void finishes(std::uint64_t seed, std::uint64_t number, const std::string& policy) {
  SCOPED_TRACE(policy + ", scenario " + std::to_string(number) + " of seed " + std::to_string(seed));
  const auto scenario = parse_scenario(random_scenario(seed, number), "random", {.policy = policy});
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto outcome = run(*scenario, {.operation_records = false});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_THAT(outcome->stuck, testing::IsEmpty());
  EXPECT_EQ(outcome->failed_operations, 0u);
}

TEST(RandomScenario, IsAFunctionOfSeedAndNumber) {
  EXPECT_EQ(random_scenario(3, 4), random_scenario(3, 4));
  EXPECT_NE(random_scenario(3, 4), random_scenario(3, 5));
  EXPECT_NE(random_scenario(3, 4), random_scenario(4, 4));
}

TEST(RandomScenario, FinishesUnderEveryPolicy) {
  for (const std::uint64_t seed : testing_support::seeds({1}))
    for (std::uint64_t number = 0; number < 4; ++number)
      for (const PolicyInfo& policy : policies()) finishes(seed, number, policy.name);
}

// Batches that merge reads of several operations and need more memory than the server has stood still.
TEST(RandomScenario, MergedReadsDoNotWaitForEachOthersMemory) {
  for (const PolicyInfo& policy : policies()) finishes(1, 10, policy.name);
}

}  // namespace
}  // namespace tutti::sim
