// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/json.h"
#include "lab/experiment.h"
#include "lab/sc11_scenarios.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using testing::HasSubstr;

const Claim& claim_of(const ExperimentResult& result, std::string_view id) {
  for (const Claim& claim : result.claims)
    if (claim.id == id) return claim;
  ADD_FAILURE() << "no claim " << id;
  return result.claims.front();
}

TEST(Lab, ListsEveryExperimentOnce) {
  std::set<std::string> names;
  for (const Experiment& experiment : experiments()) EXPECT_TRUE(names.insert(experiment.name).second);
  for (const char* name :
       {"sc11-figure2",  "sc11-formulas",       "sc11-figure5",          "sc11-figure6",     "sc11-figure7",
        "sc11-figure8",  "agios-figure3",       "agios-patterns",        "twins-forwarding", "thesis-identical",
        "thesis-mixed",  "thesis-scale",        "thesis-striped",        "thesis-outsider",  "thesis-overhead",
        "resonant-demo", "resonant-benchmarks", "resonant-interference", "resonant-scaling", "predicted-sizes",
        "beyond-unequal"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const char* name : {"sc11-figure5", "thesis-identical", "thesis-mixed", "thesis-scale"})
    EXPECT_TRUE(find_experiment(name)->live) << name;
  const Json json = to_json(experiments());
  EXPECT_EQ(json.size(), names.size());
}

TEST(Lab, AnUnknownNameListsAllExperiments) {
  const auto result = run_experiment("sc12", {});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("sc11-figure2"));
}

TEST(Lab, Figure2IsExact) {
  const auto result = run_experiment("sc11-figure2", {});
  ASSERT_TRUE(result);
  EXPECT_DOUBLE_EQ(claim_of(*result, "sc11-figure2.uncoordinated").ours, 4);
  EXPECT_DOUBLE_EQ(claim_of(*result, "sc11-figure2.window").ours, 3);
  const Json json = to_json({*result});
  EXPECT_EQ(json[0]["rows"][0]["policy"], "fifo");
  EXPECT_EQ(json[0]["claims"][0]["holds"], true);
}

TEST(Lab, TheAdvancesOfFigure5Hold) {
  const auto first = run_experiment("sc11-figure5", {});
  ASSERT_TRUE(first);
  for (const Claim& claim : first->claims)
    EXPECT_TRUE(claim.reproduced || claim.holds() == true) << claim.id << " is " << claim.ours;
}

TEST(Claims, AReproductionMissesOnBothSides) {
  Claim claim;
  claim.reproduced = true;
  claim.paper = 10;
  claim.ours = 12.5;
  EXPECT_EQ(claim.holds(), false);
  claim.ours = 7.5;
  EXPECT_EQ(claim.holds(), false);
  claim.ours = 11;
  EXPECT_EQ(claim.holds(), true);
  claim.interval = 1.5;  // up to 12.5
  EXPECT_EQ(claim.holds(), std::nullopt);
  claim.fitted = true;
  claim.interval = {};
  EXPECT_EQ(claim.holds(), std::nullopt);
}

TEST(Claims, AStatementOfThePaperHasAGoalInsteadOfABand) {
  Claim claim;
  claim.reproduced = true;
  claim.goal = 0;
  claim.goal_is = Claim::Goal::kAtLeast;
  claim.ours = 25;
  EXPECT_EQ(claim.low(), std::nullopt);
  EXPECT_EQ(claim.holds(), true);
  claim.ours = -1;
  EXPECT_EQ(claim.holds(), false);
  claim.undecidable = true;
  EXPECT_EQ(claim.holds(), std::nullopt);
}

TEST(Sc11, ThePapersMethodHasNeitherOffsetOrderNorCommonStarts) {
  const Scenario paper = figure6_scenario({.paper = true, .policy = "window", .width = "1000ms"}, {2, 8}, {});
  EXPECT_FALSE(paper.servers.policy.options.contains("order"));
  EXPECT_FALSE(paper.servers.policy.options.contains("gather"));
  EXPECT_EQ(paper.applications.front().flow, Bytes(256 << 10));
  EXPECT_EQ(paper.applications.front().rank_spread, start_spread(false));
  const Scenario ours = figure6_scenario({.policy = "window", .width = "1000ms"}, {2, 8}, {});
  EXPECT_EQ(ours.servers.policy.options.at("order"), "offset");
  EXPECT_EQ(ours.applications.front().rank_spread, Duration{});
}

TEST(Sc11, EveryServersFinishIsRecorded) {
  Scenario scenario = figure7_scenario({.paper = true}, {.servers = 4, .processes = 1});
  scenario.applications.resize(2);
  for (Application& application : scenario.applications) application.operations = 1;
  std::vector<sim::ServerFinish> finishes;
  const auto done = average(Mode::kFast, [&](std::uint64_t) { return scenario; },
                            {.inspect = [&](std::size_t, const sim::MeasuredRun& run) {
                              finishes = run.outcome.finishes;
                              for (const sim::ServerFinish& finish : finishes) EXPECT_GT(finish.after, Duration{});
                            }});
  ASSERT_TRUE(done);
  EXPECT_EQ(finishes.size(), 2u * 4u);
}

TEST(Claims, AnAdvanceIsUndecidedIfTheGoalIsInsideItsInterval) {
  Claim claim;
  claim.goal_is = Claim::Goal::kAtLeast;
  claim.goal = 5;
  claim.ours = 6;
  claim.interval = 0.5;
  EXPECT_EQ(claim.holds(), true);
  claim.interval = 1.5;
  EXPECT_EQ(claim.holds(), std::nullopt);
  claim.ours = 3;
  EXPECT_EQ(claim.holds(), false);
}

TEST(Claims, TheIntervalOfARatioComesFromItsSeeds) {
  EXPECT_EQ(ratio_over_seeds({1, 2}, {2, 4}).interval, std::nullopt);
  const ValueWithInterval exact = reduction_over_seeds({2, 4, 6, 8}, {1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(exact.value, 50);
  EXPECT_NEAR(*exact.interval, 0, 1e-9);
  // Equal baselines: the jackknife is the usual interval of a mean, t(3) * deviation / sqrt(4).
  const ValueWithInterval spread = ratio_over_seeds({1, 2, 3, 4}, {1, 1, 1, 1});
  EXPECT_DOUBLE_EQ(spread.value, 2.5);
  EXPECT_NEAR(*spread.interval, 3.182 * std::sqrt(5.0 / 3) / 2, 1e-9);
}

// An experiment that ignored the mode printed fast results as those of production nodes.
TEST(Lab, RefusesModesThatAnExperimentDoesNotHave) {
  for (const Experiment& experiment : experiments())
    for (const Mode mode : {Mode::kFull, Mode::kLive}) {
      if (experiment.runs(mode)) continue;
      const auto result = run_experiment(experiment.name, {.mode = mode});
      ASSERT_FALSE(result) << experiment.name;
      EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    }
  EXPECT_FALSE(find_experiment("resonant-interference")->runs(Mode::kFull));
}

}  // namespace
}  // namespace tutti::lab
