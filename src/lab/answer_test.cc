// SPDX-License-Identifier: Apache-2.0
#include "lab/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::lab {
namespace {

using testing::HasSubstr;

TEST(Answer, TimesHaveTheUnitPeopleRead) {
  EXPECT_EQ(time_text(0.000976), "976 \u00b5s");
  EXPECT_EQ(time_text(0.0123), "12.3 ms");
  EXPECT_EQ(time_text(1.3), "1.30 s");
  EXPECT_EQ(time_text(78.86), "78.9 s");
  EXPECT_EQ(time_text(325.95), "326 s");
  EXPECT_EQ(time_text(23456), "23456 s");
  EXPECT_EQ(time_text(0.9996), "1.00 s");
  EXPECT_EQ(time_text(0.9996, 4), "999.6 ms");
  EXPECT_EQ(time_text(0), "0 s");
}

TEST(Answer, ComparesTwoRunsInOneSentenceAndOnePicture) {
  const Answer answer = compare_runs("mean checkpoint", {"fifo", 1.9, 5}, {"concert", 1.31, 4.9});
  EXPECT_EQ(answer.sentence, "mean checkpoint 1.90 s \u2192 1.31 s, 31% shorter; the last one 2% earlier");
  const std::string text = to_text(answer);
  EXPECT_THAT(text, HasSubstr("fifo     \u2588"));
  EXPECT_THAT(text, HasSubstr("\u2588 1.31 s\n"));
  EXPECT_THAT(compare_runs("mean", {"a", 1, 1}, {"b", 1.2, 1}).sentence,
              HasSubstr("20% longer; the last one the same"));
}

TEST(Answer, OfClaimsIsTheFirstOneBesideThePaperAndHowManyHold) {
  const Claim fitted{.id = "f", .what = "fitted", .unit = "x", .paper = 1, .ours = 1, .fitted = true};
  const Claim holds{.id = "a", .what = "time", .unit = "s", .paper = 2, .goal = 1, .ours = 0.5};
  const Claim fails{.id = "b", .what = "gain", .unit = "%", .goal = 1, .ours = 2};
  const Answer answer = answer_of_claims({fitted, fails, holds});
  EXPECT_EQ(answer.sentence, "gain: 2% (goal: 1%); 1 of 2 claims hold; not: b");
  EXPECT_THAT(to_text(answer), HasSubstr("  goal  \u2588"));
  EXPECT_EQ(answer_of_claims({holds}).sentence, "time: 500 ms (paper: 2.00 s); 1 of 1 claims hold");
  EXPECT_EQ(answer_of_claims({fitted}).sentence, "fitted: 1x (paper: 1x)");
  EXPECT_EQ(to_text(answer_of_claims({})), "");

  ExperimentResult one, two;
  one.claims = {holds, fitted};
  two.claims = {holds, fails};
  EXPECT_EQ(count_claims({one, two}).sentence, "2 of 3 claims hold; not: b");
  EXPECT_THAT(to_text(count_claims({one, two})), HasSubstr("fitted or undecided  "));
  EXPECT_THAT(to_text(count_claims({two})), testing::Not(HasSubstr("undecided")));
}

}  // namespace
}  // namespace tutti::lab
