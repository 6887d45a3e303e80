// SPDX-License-Identifier: Apache-2.0
#include "gate/targets.h"

#include <gtest/gtest.h>

namespace tutti::gate {
namespace {

TEST(Targets, ListsRoundTripAndResolve) {
  for (const char* text : {"0", "0,4-7", "63-64,1", "*"}) EXPECT_EQ(TargetList::parse(text)->text(), text);
  EXPECT_EQ(text(*TargetList::parse("7,5-6,0,6")->resolve(8)), "0,5-7");
  EXPECT_EQ(text(*TargetList::parse("*")->resolve(130)), "0-129");
  EXPECT_EQ(TargetList::parse("*")->resolve(130)->count(), 130u);
}

TEST(Targets, WrongListsAreRefused) {
  for (const char* wrong : {"", ",", "1,", "a", "3-1", "-1", "1-", "65536", "1 ,2", "**", "1--2"})
    EXPECT_FALSE(TargetList::parse(wrong)) << wrong;
  EXPECT_FALSE(TargetList::parse("8")->resolve(8));
  EXPECT_FALSE(TargetList::parse("0-8")->resolve(8));
  EXPECT_FALSE(TargetList{}.resolve(8));
  EXPECT_FALSE((TargetList{.all = false, .ranges = {{3, 1}}}.resolve(8)));
  EXPECT_FALSE((TargetList{.all = false, .ranges = {{0, UINT32_MAX}}}.resolve(8)));
}

TEST(Targets, SetOperations) {
  TargetSet a = TargetSet::of(100, {1, 70}), b = TargetSet::of(100, {70, 99});
  EXPECT_TRUE(a.intersects(b));
  EXPECT_FALSE(a.within(b));
  b -= a;
  EXPECT_EQ(text(b), "99");
  EXPECT_FALSE(a.intersects(b));
  b |= a;
  EXPECT_TRUE(a.within(b));
  EXPECT_TRUE(TargetSet(100).empty());
}

}  // namespace
}  // namespace tutti::gate
