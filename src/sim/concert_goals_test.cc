// SPDX-License-Identifier: Apache-2.0
// What docs/design/concert.md says of large phases beside small ones, in the scenarios that it names.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sim/scenario_file.h"
#include "sim/simulation.h"

namespace tutti::sim {
namespace {

// Of the phases of all jobs whose names begin in the same way, in seconds.
struct PhaseEnds {
  double mean = 0;  // from begin to end
  double last = 0;  // end
};

struct ScenarioRun {
  std::string file;
  std::uint64_t seed = 0;
  std::string policy;
  std::vector<std::string> assignments{};
};

PhaseEnds ends_of(const ScenarioRun& which, const std::string& jobs) {
  const auto scenario = load_scenario(std::string(TUTTI_SCENARIOS "/") + which.file,
                                      {.policy = which.policy, .seed = which.seed, .assignments = which.assignments});
  if (!scenario) throw std::runtime_error(scenario.error().message);
  const auto outcome = run(*scenario, {.operation_records = false});
  if (!outcome) throw std::runtime_error(outcome.error().message);
  PhaseEnds result;
  double count = 0;
  for (const PhaseRecord& phase : outcome->phases) {
    if (!scenario->applications[phase.application].name.starts_with(jobs)) continue;
    ++count;
    result.mean += std::chrono::duration<double>(phase.end - phase.begin).count();
    result.last = std::max(result.last, std::chrono::duration<double>(phase.end).count());
  }
  EXPECT_GT(count, 0);
  result.mean /= count;
  return result;
}

const std::vector<std::string> kNoBound = {"policies.concert.stretch=1000"};

TEST(ConcertGoals, ALargePhaseEndsAtMostTwiceAsLateAsUnderFifo) {
  for (const std::uint64_t seed : {5u, 12u}) {
    const double fifo = ends_of({"starvation.toml", seed, "fifo"}, "large").last;
    EXPECT_LE(ends_of({"starvation.toml", seed, "concert"}, "large").last, 2 * fifo) << seed;
    EXPECT_GT(ends_of({"starvation.toml", seed, "concert", kNoBound}, "large").last, 2 * fifo) << "the bound matters";
  }
}

// The goal of 1.1 times the mean without a bound is missed (docs/design/concert.md).
TEST(ConcertGoals, TheBoundCostsAtMostAQuarterOfTheMeanInABacklog) {
  for (const std::uint64_t seed : {5u, 12u}) {
    const double mean = ends_of({"backlog.toml", seed, "concert"}, "job").mean;
    EXPECT_LE(mean, 1.25 * ends_of({"backlog.toml", seed, "concert", kNoBound}, "job").mean) << seed;
    EXPECT_LE(mean, 0.6 * ends_of({"backlog.toml", seed, "fifo"}, "job").mean) << seed;
  }
}

TEST(ConcertGoals, TinyJobsOnDisksDoNotBreakUpALargeWriteAndKeepTheirMean) {
  for (const std::uint64_t seed : {4001u, 4002u}) {
    const double fifo = ends_of({"seeks.toml", seed, "fifo"}, "large").last;
    EXPECT_LE(ends_of({"seeks.toml", seed, "concert"}, "large").last, 1.6 * fifo) << seed;
    EXPECT_GT(ends_of({"seeks.toml", seed, "concert", {"policies.concert.seek=0B"}}, "large").last, 2 * fifo)
        << "the cost of seeks matters";
    EXPECT_LE(ends_of({"seeks.toml", seed, "concert"}, "tiny").mean,
              1.1 * ends_of({"seeks.toml", seed, "fifo"}, "tiny").mean);
  }
}

}  // namespace
}  // namespace tutti::sim
