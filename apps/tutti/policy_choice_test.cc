// SPDX-License-Identifier: Apache-2.0
#include "policy_choice.h"

#include <gmock/gmock.h>

namespace tutti::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(PolicyChoice, HasOptionsAfterColons) {
  const auto plain = parse_policy_choice("fifo"), two = parse_policy_choice("concert:stretch=8:prediction=off");
  ASSERT_TRUE(plain && two);
  EXPECT_EQ(plain->name, "fifo");
  EXPECT_THAT(plain->options, IsEmpty());
  EXPECT_EQ(two->name, "concert");
  EXPECT_THAT(two->options, ElementsAre(Pair("prediction", "off"), Pair("stretch", "8")));
  EXPECT_EQ(policy_text(*two), "concert:prediction=off:stretch=8");
}

TEST(PolicyChoice, ValuesMayHaveColons) {
  const auto choice = parse_policy_choice("fair:limits=user:1000=1GB/s:burst=20ms:weights=");
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->options,
              ElementsAre(Pair("burst", "20ms"), Pair("limits", "user:1000=1GB/s"), Pair("weights", "")));
}

TEST(PolicyChoice, OptionsCanBeSetAsInTheSimulator) {
  std::vector<sim::PolicyChoice> choices{
      {.name = "fair"}, {.name = "concert", .options = {{"stretch", "8"}}}, {.name = "concert"}};
  ASSERT_TRUE(set_policy_option("policies.concert.stretch=5", choices));
  ASSERT_TRUE(set_policy_option("policies.fair.limits=17=1MB/s, name:ior=2MB/s", choices));
  EXPECT_EQ(choices[0].options.at("limits"), "17=1MB/s, name:ior=2MB/s");
  EXPECT_EQ(choices[1].options.at("stretch"), "8");
  EXPECT_EQ(choices[2].options.at("stretch"), "5");
}

TEST(PolicyChoice, MistakesAreReported) {
  EXPECT_THAT(parse_policy_choice(":stretch=8").error().message, HasSubstr("without a name"));
  EXPECT_THAT(parse_policy_choice("concert:8").error().message, HasSubstr("expected POLICY or POLICY:OPTION=VALUE"));
  std::vector<sim::PolicyChoice> choices{{.name = "fifo"}};
  EXPECT_THAT(set_policy_option("policies.concert.stretch=5", choices).error().message, HasSubstr("not in --policies"));
  for (const char* text : {"concert.stretch=5", "policies.concert=5", "policies.fifo", "policies.a=b.c"})
    EXPECT_THAT(set_policy_option(text, choices).error().message, HasSubstr("policies.POLICY.OPTION=VALUE")) << text;
}

}  // namespace
}  // namespace tutti::cli
