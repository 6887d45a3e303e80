// SPDX-License-Identifier: Apache-2.0
#include "sim/variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_directory.h"

namespace tutti::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class Variants : public testing::Test {
 protected:
  std::string write(std::string_view sweep) {
    const std::string path = directory_.path() + "/s.toml";
    std::ofstream(path) << "[servers]\ncount = 4\n[[applications]]\nsize = \"1MiB\"\n" << sweep;
    return path;
  }
  const TemporaryDirectory directory_;
};

TEST_F(Variants, AreAllCombinations) {
  const std::string path =
      write("[sweep]\npolicy = [\"fifo\", \"window\"]\n\"servers.depth\" = [1, 4]\napplications.0.size = \"2MiB\"\n");
  const auto variants = load_variants(path, {});
  ASSERT_TRUE(variants) << variants.error().message;
  ASSERT_EQ(variants->size(), 4u);
  EXPECT_THAT((*variants)[2],
              ElementsAre(Pair("applications.0.size", "2MiB"), Pair("servers.depth", "4"), Pair("policy", "fifo")));
  const auto scenario = load_scenario(path, with({}, variants->back()));
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->servers.policy.name, "window");
  EXPECT_EQ(scenario->servers.depth, 4u);
  EXPECT_EQ(scenario->applications[0].size, Bytes(2 << 20));
}

TEST_F(Variants, WithoutASweepThereIsOne) {
  const auto variants = load_variants(write(""), {});
  ASSERT_TRUE(variants);
  EXPECT_THAT(*variants, ElementsAre(IsEmpty()));
}

TEST_F(Variants, TheCommandLineReplacesSettings) {
  const std::string path = write("[sweep]\npolicy = [\"fifo\", \"window\"]\n\"servers.depth\" = [1, 4]\n");
  Overrides overrides;
  overrides.policy = "concert";
  overrides.assignments = {"servers.depth=2"};
  EXPECT_THAT(load_variants(path, overrides).value(), ElementsAre(IsEmpty()));
}

TEST_F(Variants, MistakesNameLineAndKey) {
  const auto message = [&](std::string_view sweep) {
    const auto scenario = load_scenario(write(sweep));
    return scenario ? "" : scenario.error().message;
  };
  EXPECT_THAT(message("[sweep]\npolicy = []\n"), testing::AllOf(HasSubstr("s.toml:6"), HasSubstr("sweep.policy")));
  EXPECT_THAT(message("[sweep]\nseed = [1, 2]\n"), HasSubstr("--seeds"));
  EXPECT_THAT(message("[sweep]\n\"servers.depth\" = [[1]]\n"), HasSubstr("s.toml:6"));
  const auto unknown = load_scenario(write("[sweep]\n\"servers.dept\" = [1]\n"), with({}, {{"servers.dept", "1"}}));
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("servers.dept"));
}

}  // namespace
}  // namespace tutti::sim
