// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/prng.h"
#include "base/units.h"

namespace tutti {
namespace {

using namespace literals;
using std::chrono::hours;
using std::chrono::milliseconds;

TEST(Units, DurationsAndSizesRoundTrip) {
  EXPECT_EQ(*parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(*parse_duration(" 1.5 s "), milliseconds(1500));
  EXPECT_EQ(*parse_duration("0"), Duration::zero());
  EXPECT_EQ(*parse_bytes("64KiB"), 64_KiB);
  EXPECT_EQ(*parse_bytes("4 MB"), Bytes(4'000'000));
  EXPECT_EQ(*parse_bytes("17"), 17_B);
  for (const char* wrong : {"", "ms", "5", "-1s", "1 parsec", "1e300s", "nan"}) EXPECT_FALSE(parse_duration(wrong)) << wrong;
  for (const char* wrong : {"", "KiB", "-1", "4 MiBB", "1e30", "inf"}) EXPECT_FALSE(parse_bytes(wrong)) << wrong;
  EXPECT_EQ(format(milliseconds(250)), "250 ms");
  EXPECT_EQ(format(64_KiB), "64 KiB");
}

TEST(Prng, OneSeedOneSequence) {
  Prng a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const auto x = a();
    EXPECT_EQ(x, b());
    differs |= x != c();
  }
  EXPECT_TRUE(differs);
}

TEST(Prng, BelowCoversItsRangeAndNothingElse) {
  Prng prng(1);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(prng.below(10));
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(*seen.rbegin(), 9u);
}

TEST(Prng, MeansAreWhatTheyShouldBe) {
  Prng prng(3);
  double uniform = 0, exponential = 0, pareto = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    uniform += prng.uniform();
    exponential += prng.exponential(4.0);
    pareto += prng.pareto(1.0, 3.0);
  }
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.01);
  EXPECT_NEAR(exponential / kDraws, 4.0, 0.1);
  EXPECT_NEAR(pareto / kDraws, 1.5, 0.05);
}

TEST(ManualClock, AWaiterWakesWhenTheClockReachesItsTime) {
  ManualClock clock;
  std::mutex mutex;
  std::condition_variable wakeup;
  const TimePoint until = clock.now() + hours(1);
  std::atomic<bool> woke{false};
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    while (clock.now() < until) clock.wait(wakeup, lock, until);
    woke = true;
  });
  clock.advance(milliseconds(1));
  EXPECT_FALSE(woke);
  clock.advance(hours(1));
  waiter.join();
  EXPECT_TRUE(woke);
}

TEST(RealClock, AWaitInThePastReturnsAtOnce) {
  std::mutex mutex;
  std::condition_variable wakeup;
  std::unique_lock lock(mutex);
  real_clock().wait(wakeup, lock, real_clock().now() - hours(1));
  SUCCEED();
}

}  // namespace
}  // namespace tutti
