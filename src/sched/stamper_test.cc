// SPDX-License-Identifier: Apache-2.0
#include "sched/stamper.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(Duration since_start) {
  return TimePoint{} + since_start;
}

TEST(Stamper, CountsBytesOnTheBusiestTarget) {
  Stamper stamper(7);
  stamper.begin_phase({.now = at(1s)});
  const TargetShare first[] = {{0, Bytes(100)}, {1, Bytes(40)}, {0, Bytes(20)}};
  const Stamp one = stamper.stamp(1, first, at(2s));
  EXPECT_EQ(one.application, 7u);
  EXPECT_EQ(one.phase, 1u);
  EXPECT_EQ(one.phase_start, at(2s));  // when the first operation was issued
  EXPECT_EQ(one.attained, Bytes(0));
  EXPECT_EQ(one.bottleneck, Bytes(120));
  EXPECT_EQ(one.phase_total, Bytes(0));

  const TargetShare second[] = {{1, Bytes(100)}};
  const Stamp two = stamper.stamp(2, second, at(3s));
  EXPECT_EQ(two.attained, Bytes(40));  // on its own target: what others have got says nothing of this one
  EXPECT_EQ(two.phase_start, at(2s));
  EXPECT_EQ(stamper.stamp(3, second, at(4s)).attained, Bytes(140));
  stamper.end_phase();
  EXPECT_EQ(stamper.learned(), Bytes(240));
}

TEST(Stamper, AttainedAndBottleneckAreWhatTheOperationsTargetsHaveAtMost) {
  Stamper stamper(1);
  const TargetShare uneven[] = {{0, Bytes(10)}, {1, Bytes(100)}};
  const TargetShare other[] = {{0, Bytes(200)}, {1, Bytes(30)}};
  stamper.stamp(1, uneven, at(0s));
  const Stamp stamp = stamper.stamp(2, other, at(0s));
  EXPECT_EQ(stamp.bottleneck, Bytes(200));
  EXPECT_EQ(stamp.attained, Bytes(10));
}

TEST(Stamper, LearnsTheSizeOfAPhasePerKind) {
  Stamper stamper(1);
  const TargetShare big[] = {{0, Bytes(1000)}};
  const TargetShare small[] = {{3, Bytes(10)}};
  stamper.begin_phase({.now = at(0s), .kind = 1});
  stamper.stamp(1, big, at(0s));
  stamper.begin_phase({.now = at(1s), .kind = 2});  // ends the other
  EXPECT_EQ(stamper.stamp(2, small, at(1s)).phase_total, Bytes(0));
  stamper.end_phase();
  stamper.begin_phase({.now = at(2s), .kind = 1});
  const Stamp again = stamper.stamp(3, big, at(2s));
  EXPECT_EQ(again.phase_total, Bytes(1000));
  EXPECT_EQ(again.phase, 3u);
  EXPECT_EQ(again.attained, Bytes(0));
  EXPECT_EQ(stamper.learned(2), Bytes(10));
}

TEST(Stamper, AnAnnouncedSizeGoesBeforeALearnedOne) {
  Stamper stamper(1);
  stamper.remember(0, Bytes(500));
  const TargetShare share[] = {{0, Bytes(1)}};
  EXPECT_EQ(stamper.stamp(1, share, at(0s)).phase_total, Bytes(500));
  EXPECT_TRUE(stamper.in_phase());
  stamper.begin_phase({.now = at(1s), .announced = Bytes(800)});
  EXPECT_EQ(stamper.stamp(2, share, at(1s)).phase_total, Bytes(800));
  stamper.end_phase();
  stamper.end_phase();
  EXPECT_EQ(stamper.learned(), Bytes(1));
}

// One phase of so many bytes; what its stamp said of them.
Bytes said(Stamper& stamper, Bytes announced, Bytes size) {
  stamper.begin_phase({.now = at(0s), .announced = announced});
  const TargetShare share[] = {{0, size}};
  const Bytes total = stamper.stamp(1, share, at(0s)).phase_total;
  stamper.end_phase();
  return total;
}

TEST(Stamper, WhoAnnouncedWronglyIsNotBelievedUntilItIsRightAgain) {
  Stamper stamper(1);
  EXPECT_EQ(said(stamper, Bytes(200), Bytes(100)), Bytes(200));
  EXPECT_EQ(said(stamper, Bytes(50), Bytes(100)), Bytes(0));
  EXPECT_EQ(said(stamper, Bytes(145), Bytes(100)), Bytes(0));
  EXPECT_EQ(said(stamper, Bytes(200), Bytes(100)), Bytes(200));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(100)), Bytes(100));  // what was learned is another matter
}

TEST(Stamper, PhasesThatVaryTeachNothing) {
  Stamper stamper(1);
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(100)), Bytes(0));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(149)), Bytes(100));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(300)), Bytes(149));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(310)), Bytes(0));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(310)), Bytes(310));
}

}  // namespace
}  // namespace tutti
