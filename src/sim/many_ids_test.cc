// SPDX-License-Identifier: Apache-2.0
// A client that states another application id with each operation, to servers that do not check job numbers.
#include <gtest/gtest.h>

#include "sim/simulation.h"

namespace tutti::sim {
namespace {

using namespace literals;
using namespace std::chrono_literals;

// Ten users with equal jobs that compute and write in turn. The first job is the author of the trick.
Scenario ten_users(Trick trick, const PolicyOptions& options, std::uint64_t seed) {
  Scenario scenario;
  scenario.name = "ten users";
  scenario.seed = seed;
  scenario.servers = {.count = 4, .device = FixedFigures{.latency = 100us, .bandwidth = 400e6}, .depth = 4};
  scenario.servers.policy = {"concert", options};
  scenario.network.jitter = 50us;
  for (unsigned i = 0; i < 10; ++i) {
    Application job;
    job.name = "job" + std::to_string(i);
    job.user = 1000 + i;
    job.job_proven = false;
    job.start = i * 30ms;
    job.iterations = 6;
    job.compute = 50ms + i * 40ms;
    job.operations = 32;
    job.size = 4_MiB;
    job.stripe_size = 256_KiB;
    job.outstanding = 4;
    job.direction = Direction::kWrite;
    job.sizes = PhaseSizes::kAnnounced;
    scenario.applications.push_back(job);
  }
  scenario.applications.front().trick = trick;
  return scenario;
}

struct PhaseTimes {
  double author = 0, others = 0;  // sums, in seconds
};

PhaseTimes phase_times(Trick trick, const PolicyOptions& options) {
  PhaseTimes times;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const auto outcome = run(ten_users(trick, options, seed), {.operation_records = false});
    if (!outcome) throw std::runtime_error(outcome.error().message);
    for (const PhaseRecord& phase : outcome->phases)
      (phase.application == 0 ? times.author : times.others) +=
          std::chrono::duration<double>(phase.end - phase.begin).count();
  }
  return times;
}

TEST(ManyIds, GainNothingWithDefaultOptions) {
  const PhaseTimes honest = phase_times(Trick::kNone, {}), cheating = phase_times(Trick::kIds, {});
  EXPECT_GE(cheating.author, 0.95 * honest.author);
  EXPECT_LE(cheating.others, 1.05 * honest.others);
}

TEST(ManyIds, GainMuchIfEachHasAnAccount) {
  const PolicyOptions job = {{"account", "job"}};
  EXPECT_LE(phase_times(Trick::kIds, job).author, 0.5 * phase_times(Trick::kNone, job).author);
}

}  // namespace
}  // namespace tutti::sim
