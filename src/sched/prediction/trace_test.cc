// SPDX-License-Identifier: Apache-2.0
#include "sched/prediction/trace.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(NamePattern, ReplacesEveryRunOfDigits) {
  EXPECT_EQ(name_pattern("/scratch/run17/ckpt.0003.h5"), "/scratch/run#/ckpt.#.h#");
  EXPECT_EQ(name_pattern("out.9"), name_pattern("out.10"));
  EXPECT_EQ(name_pattern("plain"), "plain");
  EXPECT_EQ(name_pattern(""), "");
  EXPECT_EQ(name_pattern("7"), "#");
}

}  // namespace
}  // namespace tutti
