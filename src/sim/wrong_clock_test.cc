// SPDX-License-Identifier: Apache-2.0
// An honest client whose clock is wrong neither gains nor loses, and does not delay others: nodes limit issue times by
// the arrival of the request.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.h"
#include "sim/scenario_file.h"
#include "sim/simulation.h"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kFirstSeed = 7301;

struct ClockError {
  const char* key = "";  // "ahead" or "behind"; empty: none
  const char* value = "";
};

// Eight jobs that compute and write in turn. The clock of the first one is wrong.
Scenario eight_jobs(const std::string& policy, const ClockError& error, std::uint64_t seed,
                    const Overrides& overrides = {}) {
  Prng chance(seed);
  std::string text = fmt::format(
      "[servers]\ncount = 4\ndepth = 4\npolicy = '{}'\ndevice = {{ latency = '100us', bandwidth = '400MB' }}\n"
      "[network]\nlatency = '50us'\njitter = '50us'\n",
      policy);
  for (int i = 0; i < 8; ++i)
    text += fmt::format(
        "[[applications]]\nname = 'job{}'\nstart = '{:.3f}ms'\niterations = 4\ncompute = '{:.3f}ms'\noperations = {}\n"
        "size = '2MiB'\nstripe_size = '256KiB'\noutstanding = 4\ndirection = 'write'\nsizes = 'announced'\n",
        i, chance.uniform(0, 100), chance.uniform(20, 100), 16 + chance.below(32));
  if (*error.key)
    text += fmt::format("[[faults]]\nkind = 'skew'\napplication = 'job0'\n{} = '{}'\n", error.key, error.value);
  auto scenario = parse_scenario(text, "test", overrides);
  EXPECT_TRUE(scenario) << scenario.error().message;
  scenario->seed = seed;
  return *scenario;
}

// Logarithms of the mean phases of the first job and of the others.
struct PhaseTimes {
  double first = 0, others = 0;
};

PhaseTimes phase_times(const Scenario& scenario, bool full) {
  const auto outcome = run(scenario, {.full = full, .operation_records = false});
  EXPECT_TRUE(outcome) << outcome.error().message;
  PhaseTimes sums;
  double first = 0, others = 0;
  for (const PhaseRecord& phase : outcome->phases) {
    const bool is_first = phase.application == 0;
    (is_first ? sums.first : sums.others) += std::chrono::duration<double>(phase.end - phase.begin).count();
    (is_first ? first : others) += 1;
  }
  return {std::log(sums.first / first), std::log(sums.others / others)};
}

void expect_no_effect(const std::string& policy, bool full, std::uint64_t seeds) {
  for (const ClockError& error :
       {ClockError{"behind", "3ms"}, {"ahead", "3ms"}, {"behind", "3600s"}, {"ahead", "3600s"}}) {
    PhaseTimes sum;
    for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + seeds; ++seed) {
      const PhaseTimes right = phase_times(eight_jobs(policy, {}, seed), full);
      const PhaseTimes wrong = phase_times(eight_jobs(policy, error, seed), full);
      sum.first += (wrong.first - right.first) / static_cast<double>(seeds);
      sum.others += (wrong.others - right.others) / static_cast<double>(seeds);
    }
    EXPECT_NEAR(std::exp(sum.first), 1, 0.05) << policy << ", " << error.value << " " << error.key;
    EXPECT_NEAR(std::exp(sum.others), 1, 0.05) << policy << ", " << error.value << " " << error.key;
  }
}

TEST(WrongClock, OfOneJobHasNoEffect) {
  expect_no_effect("window", false, 12);
  expect_no_effect("concert", false, 12);
}

TEST(WrongClock, OfAProductionClientHasNoEffect) {
  expect_no_effect("window", true, 4);
  expect_no_effect("concert", true, 4);
}

// Without the limit by arrival, the clock decides.
TEST(WrongClock, HasAnEffectIfIssueTimesAreNotLimited) {
  double sum = 0;
  constexpr std::uint64_t kSeeds = 12;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
    const Overrides unlimited{.assignments = {"policies.window.slack=7200s"}};
    const PhaseTimes right = phase_times(eight_jobs("window", {}, seed, unlimited), false);
    const PhaseTimes wrong = phase_times(eight_jobs("window", {"behind", "3600s"}, seed, unlimited), false);
    sum += (wrong.first - right.first) / kSeeds;
  }
  EXPECT_LT(std::exp(sum), 0.95);
}

}  // namespace
}  // namespace tutti::sim
