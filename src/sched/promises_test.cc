// SPDX-License-Identifier: Apache-2.0
#include "sched/promises.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using namespace literals;

struct Said {
  ApplicationId application;
  PhaseNumber phase;
  Bytes total;
  Bytes shown;
};

Stamp stamp(const Said& said) {
  Stamp stamp;
  stamp.application = said.application;
  stamp.phase = said.phase;
  stamp.phase_total = said.total;
  stamp.attained = said.shown - 1_KiB;
  stamp.bottleneck = 1_KiB;
  return stamp;
}

void one_phase(Promises& promises, ApplicationId application, Bytes said, Bytes true_size) {
  promises.heard(stamp({application, 1, said, true_size}));
  promises.heard(stamp({application, 2, 0_B, 1_KiB}));
}

TEST(Promises, AreTakenAsKeptWhileNothingIsKnown) {
  EXPECT_TRUE(Promises().are_kept());
}

TEST(Promises, APhaseThatEndsFarFromWhatWasSaidBreaksItsWord) {
  for (const Bytes true_size : {5_MiB, 20_MiB}) {
    Promises promises;
    one_phase(promises, 1, 10_MiB, true_size);
    EXPECT_FALSE(promises.are_kept());
  }
  Promises promises;
  one_phase(promises, 1, 10_MiB, 8_MiB);
  EXPECT_TRUE(promises.are_kept());
}

TEST(Promises, APhaseThatOutgrowsItsWordIsSeenBeforeItEnds) {
  Promises promises;
  promises.heard(stamp({1, 1, 10_MiB, 10_MiB}));
  EXPECT_TRUE(promises.are_kept());
  promises.heard(stamp({1, 1, 10_MiB, 16_MiB}));
  EXPECT_FALSE(promises.are_kept());
  promises.heard(stamp({1, 1, 10_MiB, 17_MiB}));  // is not held against it again
  one_phase(promises, 2, 10_MiB, 10_MiB);
  one_phase(promises, 3, 10_MiB, 10_MiB);
  EXPECT_TRUE(promises.are_kept());
}

TEST(Promises, TwoThatAreKeptMakeUpForABrokenOne) {
  Promises promises;
  one_phase(promises, 1, 10_MiB, 30_MiB);
  one_phase(promises, 2, 10_MiB, 10_MiB);
  EXPECT_FALSE(promises.are_kept());
  one_phase(promises, 3, 10_MiB, 10_MiB);
  EXPECT_TRUE(promises.are_kept());
}

TEST(Promises, RanksThatAreLateChangeNothing) {
  Promises promises;
  promises.heard(stamp({1, 1, 10_MiB, 10_MiB}));
  promises.heard(stamp({1, 2, 10_MiB, 1_MiB}));
  promises.heard(stamp({1, 1, 10_MiB, 2_MiB}));
  promises.heard(stamp({1, 2, 10_MiB, 2_MiB}));
  promises.heard(stamp({1, 3, 10_MiB, 2_MiB}));  // only first phases count: later ones answer for themselves
  EXPECT_TRUE(promises.are_kept());
}

}  // namespace
}  // namespace tutti
