// SPDX-License-Identifier: Apache-2.0
#include "job/stamper.h"

#include <gtest/gtest.h>

namespace tutti::job {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(Duration since_start) {
  return TimePoint{} + since_start;
}

// A file on this many targets, with stripes of ten bytes.
Spread over(std::uint32_t targets) {
  const std::vector layouts{std::make_shared<const Layout>(Layout::round_robin(Bytes(10), targets))};
  return Spread::over(layouts, {});
}

TEST(Stamper, StampsTheIssuedPartOfThePhaseOnTheBusiestTarget) {
  Stamper stamper(7, 5);
  stamper.begin_phase({.announced = Bytes(1000)});
  const Stamp one = stamper.stamp({1, Bytes(200)}, over(4), at(2s));
  EXPECT_EQ(one.application, 7u);
  EXPECT_EQ(one.order, 5u);
  EXPECT_EQ(one.phase, 1u);
  EXPECT_EQ(one.phase_start, at(2s)) << "when the first operation was issued";
  EXPECT_EQ(one.phase_total, Bytes(250));
  EXPECT_EQ(one.attained, Bytes(0));
  EXPECT_EQ(one.bottleneck, Bytes(50));
  const Stamp two = stamper.stamp({2, Bytes(800)}, over(1), at(3s));
  EXPECT_EQ(two.phase_total, Bytes(250)) << "computed once per phase";
  EXPECT_EQ(two.attained, Bytes(50));
  EXPECT_EQ(two.attained + two.bottleneck, two.phase_total);
  EXPECT_EQ(two.phase_start, at(2s));
  stamper.end_phase();
  EXPECT_EQ(stamper.learned(0), Bytes(1000));
}

TEST(Stamper, WithoutALayoutTheSizeIsUnknown) {
  Stamper stamper(1, 1);
  stamper.begin_phase({.announced = Bytes(1000)});
  EXPECT_EQ(stamper.stamp({1, Bytes(500)}, Spread(), at(0s)).phase_total, Bytes(0));
  const Stamp second = stamper.stamp({2, Bytes(500)}, over(2), at(0s));
  EXPECT_EQ(second.phase_total, Bytes(500));
  EXPECT_EQ(second.attained, Bytes(250));
  stamper.begin_phase({.announced = Bytes(1000)});
  EXPECT_EQ(stamper.stamp({3, Bytes(500)}, over(2), at(1s)).phase_total, Bytes(500)) << "the announcement was right";
}

TEST(Stamper, OperationsOfAnUnknownPhaseAddUp) {
  Stamper stamper(1, 1);
  Bytes reached{};
  for (OperationId operation = 1; operation <= 20; ++operation) {
    const Stamp stamp = stamper.stamp({operation, Bytes(7)}, over(2), at(0s));
    EXPECT_EQ(stamp.phase_total, Bytes(0));
    EXPECT_GE(stamp.attained, reached);
    reached = stamp.attained;
  }
  EXPECT_EQ(reached, Bytes(70)) << "of 133 bytes, in stripes of ten";
}

TEST(Stamper, LearnsTheSizeOfAPhasePerKind) {
  Stamper stamper(1, 1);
  stamper.begin_phase({.kind = 1});
  stamper.stamp({1, Bytes(1000)}, over(2), at(0s));
  stamper.begin_phase({.kind = 2});  // ends the open phase
  EXPECT_EQ(stamper.stamp({2, Bytes(10)}, over(2), at(1s)).phase_total, Bytes(0));
  stamper.end_phase();
  stamper.begin_phase({.kind = 1});
  const Stamp again = stamper.stamp({3, Bytes(1000)}, over(2), at(2s));
  EXPECT_EQ(again.phase_total, Bytes(500));
  EXPECT_EQ(again.phase, 3u);
  EXPECT_EQ(again.attained, Bytes(0));
  EXPECT_EQ(stamper.learned(2), Bytes(10));
}

TEST(Stamper, AnAnnouncedSizeIsPreferredToALearnedOne) {
  Stamper stamper(1, 1);
  stamper.remember(0, Bytes(500));
  EXPECT_EQ(stamper.stamp({1, Bytes(1)}, over(1), at(0s)).phase_total, Bytes(500));
  stamper.begin_phase({.announced = Bytes(800)});
  EXPECT_EQ(stamper.stamp({2, Bytes(1)}, over(1), at(1s)).phase_total, Bytes(800));
  stamper.end_phase();
  stamper.end_phase();
  EXPECT_EQ(stamper.learned(0), Bytes(1));
}

// Runs one phase of `size` bytes; returns the size in its stamp.
Bytes said(Stamper& stamper, Bytes announced, Bytes size) {
  stamper.begin_phase({.announced = announced});
  const Bytes total = stamper.stamp({1, size}, over(1), at(0s)).phase_total;
  stamper.end_phase();
  return total;
}

TEST(Stamper, AnAnnouncementAfterAWrongOneIsNotUsed) {
  Stamper stamper(1, 1);
  EXPECT_EQ(said(stamper, Bytes(200), Bytes(100)), Bytes(200));
  EXPECT_EQ(said(stamper, Bytes(50), Bytes(100)), Bytes(0));
  EXPECT_EQ(said(stamper, Bytes(145), Bytes(100)), Bytes(0));
  EXPECT_EQ(said(stamper, Bytes(200), Bytes(100)), Bytes(200));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(100)), Bytes(100)) << "learned sizes are checked separately";
}

TEST(Stamper, SizesThatVaryAreNotUsed) {
  Stamper stamper(1, 1);
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(100)), Bytes(0));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(149)), Bytes(100));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(300)), Bytes(149));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(310)), Bytes(0));
  EXPECT_EQ(said(stamper, Bytes(0), Bytes(310)), Bytes(310));
}

TEST(Stamper, SizesAreLimited) {
  Stamper stamper(1, 1);
  stamper.begin_phase({.announced = Bytes(1)});
  for (int i = 0; i < 5; ++i) {
    const Stamp stamp = stamper.stamp({1, Bytes(~std::uint64_t{0})}, over(3), at(0s));
    EXPECT_LE((stamp.attained + stamp.bottleneck).count(), std::uint64_t{1} << 63);
    EXPECT_GE(stamp.bottleneck, Bytes(1));
  }
  stamper.end_phase();
  EXPECT_LE(stamper.learned(0).count(), std::uint64_t{1} << 62);
}

TEST(Stamper, TheNumberOfKindsIsLimited) {
  Stamper stamper(1, 1);
  for (PhaseKind kind = 0; kind < 10000; ++kind) {
    stamper.begin_phase({.kind = kind});
    stamper.stamp({1, Bytes(10)}, over(1), at(0s));
  }
  stamper.end_phase();
  EXPECT_EQ(stamper.learned().size(), 4096u);
}

}  // namespace
}  // namespace tutti::job
