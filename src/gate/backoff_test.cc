// SPDX-License-Identifier: Apache-2.0
#include "gate/backoff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gate/calibration.h"

namespace tutti::gate {
namespace {

using namespace literals;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Runs a backoff on a file system whose rate is a function of the round, and records the steps.
struct BackoffRun {
  std::vector<std::string> steps;
  std::vector<Duration> backoffs;
  bool quiet = false;
};

template <typename Rate>
BackoffRun run(Backoff& backoff, Rate rate) {
  BackoffRun outcome;
  while (true) {
    const Backoff::Step step = backoff.next();
    if (const auto* write = std::get_if<Backoff::Write>(&step)) {
      outcome.steps.push_back(write->priming ? "prime" : "write" + std::to_string(write->target));
      const double taken = static_cast<double>(write->bytes.count()) / rate(backoff.rounds(), write->target);
      backoff.wrote(Duration(static_cast<std::int64_t>(taken * 1e9)));
    } else if (const auto* sleep = std::get_if<Backoff::Sleep>(&step)) {
      outcome.steps.push_back(sleep->backing_off ? "backoff" : "pause");
      if (sleep->backing_off) outcome.backoffs.push_back(sleep->time);
    } else {
      outcome.quiet = std::get<Backoff::Proceed>(step).quiet;
      return outcome;
    }
    if (outcome.steps.size() > 10'000) return outcome;
  }
}

TEST(Backoff, PlainAlgorithm1) {
  Backoff backoff({.data_size = 1_MiB, .priming = 0_B, .probes = 1}, 100e6, 1);
  const BackoffRun result = run(backoff, [](std::uint32_t round, std::uint32_t) { return round < 3 ? 50e6 : 120e6; });
  EXPECT_THAT(result.steps, testing::ElementsAre("write0", "backoff", "write0", "backoff", "write0"));
  EXPECT_TRUE(result.quiet);
  EXPECT_EQ(backoff.rounds(), 3u);
  EXPECT_EQ(backoff.written(), 3_MiB);
  EXPECT_NEAR(backoff.rate(), 120e6, 1e3);
}

TEST(Backoff, ProceedsAfterMaxCountRounds) {
  Backoff backoff({.max_count = 4, .priming = 0_B, .probes = 1}, 100e6, 1);
  const BackoffRun result = run(backoff, [](std::uint32_t, std::uint32_t) { return 1e6; });
  EXPECT_EQ(result.backoffs.size(), 3u);
  EXPECT_FALSE(result.quiet);
}

TEST(Backoff, PrimingIsNotMeasuredAndTheSlowestProbeDecides) {
  Backoff backoff({.max_count = 1, .probes = 3}, 100e6, 1);
  int writes = 0;
  const BackoffRun result = run(backoff, [&](std::uint32_t, std::uint32_t) {
    ++writes;
    return writes == 1 ? 1e3 : writes == 3 ? 90e6 : 200e6;  // the priming write is the slowest of all
  });
  EXPECT_THAT(result.steps, testing::ElementsAre("prime", "write0", "pause", "write0", "pause", "write0"));
  EXPECT_FALSE(result.quiet);
  EXPECT_NEAR(backoff.rate(), 90e6, 1e3);
}

TEST(Backoff, BacksOffIfOneTargetOfAStripedFileIsBusy) {
  Backoff backoff({.max_count = 1, .priming = 4_KiB, .probes = 2, .targets = 3}, 100e6, 1);
  const BackoffRun result =
      run(backoff, [](std::uint32_t, std::uint32_t target) { return target == 1 ? 20e6 : 200e6; });
  EXPECT_THAT(result.steps, testing::ElementsAre("prime", "prime", "prime", "write0", "write1", "write2", "pause",
                                                 "write0", "write1", "write2"));
  EXPECT_FALSE(result.quiet);
}

TEST(Backoff, SleepsAreRandomBelowBaseToTheExponent) {
  const BackoffOptions options{.max_count = 8,
                               .base = 2,
                               .starting_exponent = 2,
                               .max_exponent = 5,
                               .time_constant = milliseconds(10),
                               .fixed_sleep = seconds(1),
                               .priming = 0_B,
                               .probes = 1};
  std::vector<Duration> longest(7);
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Backoff backoff(options, 1e9, seed);
    const BackoffRun result = run(backoff, [](std::uint32_t, std::uint32_t) { return 1e6; });
    ASSERT_EQ(result.backoffs.size(), 7u);
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_GE(result.backoffs[i], seconds(1));
      longest[i] = std::max(longest[i], result.backoffs[i]);
    }
  }
  // 2^2 - 1 units at first, then 2^3 - 1, ..., never more than 2^5 - 1.
  const std::vector<int> units = {3, 7, 15, 31, 31, 31, 31};
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(longest[i], seconds(1) + milliseconds(10) * units[i]);
}

TEST(Backoff, AnUnknownThresholdPasses) {
  Backoff backoff({}, 0, 1);
  EXPECT_TRUE(run(backoff, [](std::uint32_t, std::uint32_t) { return 1.0; }).quiet);
  EXPECT_EQ(backoff.rounds(), 1u);
}

TEST(Backoff, OptionsAsTextHaveTheSameDefaults) {
  const BackoffOptions read = BackoffOptions::from(*OptionValues::check("prober", BackoffOptions::table(), {}));
  const BackoffOptions plain;
  EXPECT_EQ(read.data_size, plain.data_size);
  EXPECT_EQ(read.max_count, plain.max_count);
  EXPECT_EQ(read.base, plain.base);
  EXPECT_EQ(read.starting_exponent, plain.starting_exponent);
  EXPECT_EQ(read.max_exponent, plain.max_exponent);
  EXPECT_EQ(read.time_constant, plain.time_constant);
  EXPECT_EQ(read.fixed_sleep, plain.fixed_sleep);
  EXPECT_EQ(read.priming, plain.priming);
  EXPECT_EQ(read.probes, plain.probes);
  EXPECT_EQ(read.probe_pause, plain.probe_pause);
}

TEST(Calibration, UsesTheSecondBestRateOfTheLastDays) {
  const TimePoint start{hours(24 * 20'000)};
  Calibration calibration;
  EXPECT_EQ(calibration.threshold(start), 0);
  calibration.observe(100e6, start);
  EXPECT_DOUBLE_EQ(calibration.threshold(start), 85e6);
  calibration.observe(900e6, start);  // only reached a cache
  EXPECT_DOUBLE_EQ(calibration.threshold(start), 85e6);
  for (int i = 0; i < 1000; ++i)
    calibration.observe(5e6, start + hours(24));  // a busy day does not lower the threshold
  EXPECT_DOUBLE_EQ(calibration.threshold(start + hours(24)), 85e6);
  EXPECT_DOUBLE_EQ(calibration.threshold(start + hours(24 * 7)), 5e6 * 0.85);  // a week later it does
  EXPECT_EQ(calibration.threshold(start + hours(24 * 9)), 0);
}

TEST(Calibration, IsSavedAsTextAndDamagedLinesAreSkipped) {
  const TimePoint start{hours(24 * 20'000)};
  Calibration calibration;
  for (int day = 0; day < 9; ++day)
    for (double rate : {1e6, 2e6, 3e6}) calibration.observe(rate, start + hours(24 * day));
  const TimePoint now = start + hours(24 * 8);
  EXPECT_EQ(Calibration::parse(calibration.text()).text(), calibration.text());
  EXPECT_DOUBLE_EQ(Calibration::parse(calibration.text()).threshold(now), calibration.threshold(now));
  for (const char* damaged : {"", "\n\n", "day", "day x best 1 second 1", "day 5 best -1 second -2",
                              "day 20008 best nan second 1", "day 20008 best 1 second 2", "\xff\xfe"})
    EXPECT_EQ(Calibration::parse(damaged).threshold(now), 0) << damaged;
}

}  // namespace
}  // namespace tutti::gate
