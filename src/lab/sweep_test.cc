// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep.h"

#include <gmock/gmock.h>

#include <cmath>

namespace tutti::lab {
namespace {

using testing::HasSubstr;

SweepRow row_of(std::uint64_t number, bool disk, double mean) {
  SweepRow row{.number = number, .disk = disk, .contention = 2};
  row.ratios = {
      {.mean = mean, .p99 = 2 * mean, .makespan = 3 * mean, .worst_slowdown = 4 * mean, .latest_end = 9 - mean}};
  return row;
}

TEST(SweepSummaries, AreByDeviceAndPolicy) {
  std::vector<SweepRow> rows;
  for (std::uint64_t i = 0; i < 40; ++i) rows.push_back(row_of(i, false, i < 10 ? 0.5 : 2));
  rows.push_back(row_of(40, true, 1.02));  // not a loss
  rows.push_back(row_of(41, true, 1.03));
  rows[3].contention = 1.1;  // not contended
  const auto summaries = summarize(rows, {"concert"});
  ASSERT_EQ(summaries.size(), 4u);
  EXPECT_EQ(summaries[0].policy, "fifo, other delays");
  EXPECT_TRUE(summaries[0].disk && summaries[1].disk);
  EXPECT_EQ(summaries[0].contended_mean, 1) << "the rows' noise";
  EXPECT_EQ(summaries[1].policy, "concert");
  EXPECT_EQ(summaries[1].losses, 0.5);
  const SweepSummary& flash = summaries[3];
  EXPECT_FALSE(flash.disk);
  EXPECT_EQ(flash.scenarios, 40u);
  EXPECT_EQ(flash.contended, 39u);
  EXPECT_NEAR(flash.contended_mean, std::exp((9 * std::log(0.5) + 30 * std::log(2)) / 39), 1e-12);
  EXPECT_EQ(flash.losses, 0.75);
  EXPECT_EQ(flash.worst.worst_slowdown, 8);
  EXPECT_EQ(flash.worst_scenario, 10u);
  EXPECT_EQ(flash.latest_scenario, 0u);
  EXPECT_EQ(flash.worst.latest_end, 8.5);
}

TEST(SweepSummaries, ThePercentileIsExceededByOneInTwenty) {
  std::vector<SweepRow> rows;
  for (std::uint64_t i = 1; i <= 100; ++i) rows.push_back(row_of(i, true, static_cast<double>(i)));
  const auto summaries = summarize(rows, {"concert"});
  EXPECT_EQ(summaries[1].percentile95.mean, 95);
  EXPECT_EQ(summaries[1].percentile95.p99, 190);
  EXPECT_EQ(summaries[1].percentile95.makespan, 285);
  EXPECT_EQ(summaries[3].scenarios, 0u) << "no scenario on flash";
  EXPECT_EQ(summaries[3].losses, 0);
}

TEST(Sweep, FifoEqualsItselfAndScenariosRepeat) {
  const SweepOptions options{.seed = 7, .first = 2, .scenarios = 3, .policies = {"fifo", "concert"}};
  const auto rows = sweep(options), again = sweep(options);
  ASSERT_TRUE(rows && again) << rows.error().message;
  ASSERT_EQ(rows->size(), 3u);
  bool changed = false, noisy = false;
  for (std::size_t i = 0; i < 3; ++i) {
    const SweepRow& row = (*rows)[i];
    EXPECT_EQ(row.number, 2 + i);
    ASSERT_EQ(row.ratios.size(), 2u);
    EXPECT_EQ(row.ratios[0].mean, 1);
    EXPECT_EQ(row.ratios[0].latest_end, 1);
    EXPECT_EQ(row.ratios[1].mean, (*again)[i].ratios[1].mean);
    EXPECT_GE(row.contention, 0.9);
    changed |= row.ratios[1].mean != 1;
    noisy |= row.noise.mean != 1;
  }
  EXPECT_TRUE(changed && noisy);
}

TEST(Sweep, ErrorsNameTheScenario) {
  const auto rows = sweep({.seed = 7, .first = 4, .scenarios = 1, .policies = {"nope"}});
  ASSERT_FALSE(rows);
  EXPECT_THAT(rows.error().message, HasSubstr("random scenario 4 of seed 7: nope"));
}

}  // namespace
}  // namespace tutti::lab
