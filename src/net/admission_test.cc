// SPDX-License-Identifier: Apache-2.0
#include "net/admission.h"

#include <gmock/gmock.h>

namespace tutti::net {
namespace {

// The client may give up its credit as soon as it has the reply, before the node notices that the reply was sent.
TEST(Admission, AnAnsweredWriteUsesNoCredit) {
  Admission admission;
  admission.add(1, {.bytes = 1 << 20, .credit = 1 << 20});
  EXPECT_FALSE(admission.set_credit(0));
  const auto charge = admission.answered(1);
  ASSERT_TRUE(charge);
  EXPECT_TRUE(admission.set_credit(0));
  admission.release(*charge);
  EXPECT_TRUE(admission.set_credit(0));
  EXPECT_FALSE(admission.answered(1));
}

TEST(Admission, ARequestCountsUntilItsReplyIsSent) {
  Admission admission;
  const wire::Limits limits{.requests = 2};
  const auto verdict = [&](std::uint64_t tag) { return admission.check(limits, tag, {}); };
  admission.add(1, {});
  EXPECT_EQ(verdict(1), Admission::Verdict::kRepeated);
  admission.add(2, {});
  EXPECT_EQ(verdict(3), Admission::Verdict::kOver);
  const auto charge = admission.answered(1);
  ASSERT_TRUE(charge);
  EXPECT_EQ(verdict(3), Admission::Verdict::kOver);
  admission.release(*charge);
  EXPECT_EQ(verdict(3), Admission::Verdict::kFits);
}

}  // namespace
}  // namespace tutti::net
