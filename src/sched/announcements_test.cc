// SPDX-License-Identifier: Apache-2.0
#include "sched/announcements.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using namespace literals;

struct Announced {
  ApplicationId application;
  PhaseNumber phase;
  Bytes total;
  Bytes shown;
};

Stamp stamp(const Announced& announced) {
  Stamp stamp;
  stamp.application = announced.application;
  stamp.phase = announced.phase;
  stamp.phase_total = announced.total;
  stamp.attained = announced.shown - 1_KiB;
  stamp.bottleneck = 1_KiB;
  return stamp;
}

void one_phase(AnnouncementAccuracy& accuracy, ApplicationId application, Bytes announced, Bytes true_size) {
  accuracy.observe(stamp({application, 1, announced, true_size}));
  accuracy.observe(stamp({application, 2, 0_B, 1_KiB}));
}

TEST(AnnouncementAccuracy, TrustsAnnouncementsWhileThereIsNoHistory) {
  EXPECT_TRUE(AnnouncementAccuracy().trusted());
}

TEST(AnnouncementAccuracy, APhaseThatEndsFarFromItsAnnouncementCountsAsWrong) {
  for (const Bytes true_size : {5_MiB, 20_MiB}) {
    AnnouncementAccuracy accuracy;
    one_phase(accuracy, 1, 10_MiB, true_size);
    EXPECT_FALSE(accuracy.trusted());
  }
  AnnouncementAccuracy accuracy;
  one_phase(accuracy, 1, 10_MiB, 8_MiB);
  EXPECT_TRUE(accuracy.trusted());
}

TEST(AnnouncementAccuracy, APhaseThatExceedsItsAnnouncementIsSeenBeforeItEnds) {
  AnnouncementAccuracy accuracy;
  accuracy.observe(stamp({1, 1, 10_MiB, 10_MiB}));
  EXPECT_TRUE(accuracy.trusted());
  accuracy.observe(stamp({1, 1, 10_MiB, 16_MiB}));
  EXPECT_FALSE(accuracy.trusted());
  accuracy.observe(stamp({1, 1, 10_MiB, 17_MiB}));  // is counted once
  one_phase(accuracy, 2, 10_MiB, 10_MiB);
  one_phase(accuracy, 3, 10_MiB, 10_MiB);
  EXPECT_TRUE(accuracy.trusted());
}

TEST(AnnouncementAccuracy, TwoRightAnnouncementsMakeUpForAWrongOne) {
  AnnouncementAccuracy accuracy;
  one_phase(accuracy, 1, 10_MiB, 30_MiB);
  one_phase(accuracy, 2, 10_MiB, 10_MiB);
  EXPECT_FALSE(accuracy.trusted());
  one_phase(accuracy, 3, 10_MiB, 10_MiB);
  EXPECT_TRUE(accuracy.trusted());
}

TEST(AnnouncementAccuracy, LateRanksChangeNothing) {
  AnnouncementAccuracy accuracy;
  accuracy.observe(stamp({1, 1, 10_MiB, 10_MiB}));
  accuracy.observe(stamp({1, 2, 10_MiB, 1_MiB}));
  accuracy.observe(stamp({1, 1, 10_MiB, 2_MiB}));
  accuracy.observe(stamp({1, 2, 10_MiB, 2_MiB}));
  accuracy.observe(stamp({1, 3, 10_MiB, 2_MiB}));  // only first phases count: the client itself checks later ones
  EXPECT_TRUE(accuracy.trusted());
}

}  // namespace
}  // namespace tutti
