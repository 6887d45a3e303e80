// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "lab/experiment.h"

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
       {"sc11-figure2", "sc11-formulas", "sc11-figure5", "sc11-figure6", "sc11-figure7", "sc11-figure8",
        "agios-patterns", "twins-forwarding", "thesis-identical", "thesis-mixed", "thesis-scale", "resonant-demo",
        "resonant-benchmarks", "resonant-interference", "resonant-scaling", "beyond-unequal"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const char* name : {"sc11-figure5", "thesis-identical", "thesis-mixed", "thesis-scale"})
    EXPECT_TRUE(find_experiment(name)->live) << name;
  const Json json = to_json(experiments());
  EXPECT_EQ(json.size(), names.size());
  EXPECT_EQ(json[0]["status"], "ready");
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

TEST(Lab, AllClaimsOfFigure5Hold) {
  const auto first = run_experiment("sc11-figure5", {});
  ASSERT_TRUE(first);
  for (const Claim& claim : first->claims) EXPECT_EQ(claim.holds(), true) << claim.id << " is " << claim.ours;
}

}  // namespace
}  // namespace tutti::lab
