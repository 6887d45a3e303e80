// SPDX-License-Identifier: Apache-2.0
// Fast and full simulations agree for every scenario in scenarios/fast.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/scenario_file.h"
#include "sim/simulation.h"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kFirstSeed = 7001;

struct Means {
  double phase = 0;
  double makespan = 0;
};

// At least ten; more for short scenarios, whose means vary more from seed to seed.
std::uint64_t seeds_for(const Scenario& scenario) {
  const auto outcome = run(scenario, {.operation_records = false});
  return std::clamp<std::uint64_t>(1'000'000 / std::max<std::uint64_t>(outcome ? outcome->events : 1, 1), 10, 60);
}

// Mean of all seeds, in seconds.
Means means_of(Scenario scenario, std::uint64_t seeds, const RunOptions& options) {
  Means sum;
  const auto count = static_cast<double>(seeds);
  for (std::uint64_t i = 0; i < seeds; ++i) {
    scenario.seed = kFirstSeed + i;
    const auto outcome = run(scenario, options);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
    if (!outcome) return sum;
    EXPECT_TRUE(outcome->stuck.empty()) << outcome->stuck.front();
    double phases = 0;
    for (const PhaseRecord& phase : outcome->phases)
      phases += std::chrono::duration<double>(phase.end - phase.begin).count();
    sum.phase += phases / static_cast<double>(std::max<std::size_t>(outcome->phases.size(), 1)) / count;
    sum.makespan += std::chrono::duration<double>(outcome->makespan).count() / count;
  }
  return sum;
}

double difference(double a, double b) {
  return std::abs(a / b - 1);
}

class Fidelity : public testing::TestWithParam<std::string> {};

TEST_P(Fidelity, FullAndFastAgree) {
  const auto scenario = load_scenario(std::string(TUTTI_SCENARIOS) + "/fast/" + GetParam(), {});
  ASSERT_TRUE(scenario) << scenario.error().message;
  const RunOptions plain{.operation_records = false};
  const std::uint64_t seeds = seeds_for(*scenario);
  const Means fast = means_of(*scenario, seeds, plain);
  const Means full = means_of(*scenario, seeds, {.full = true, .operation_records = false});

  // The difference between runs of fifo with different jitter of the network.
  Scenario fifo = *scenario;
  fifo.servers.policy = {};
  const Means base = means_of(fifo, seeds, plain);
  Means noise{0.02, 0.02};
  for (std::uint64_t jitter = 1; jitter <= 3; ++jitter) {
    const Means again = means_of(fifo, seeds, {.jitter = jitter, .operation_records = false});
    noise.phase = std::max(noise.phase, difference(again.phase, base.phase));
    noise.makespan = std::max(noise.makespan, difference(again.makespan, base.makespan));
  }
  EXPECT_LE(difference(full.phase, fast.phase), noise.phase) << full.phase << " full, " << fast.phase << " fast";
  EXPECT_LE(difference(full.makespan, fast.makespan), noise.makespan)
      << full.makespan << " full, " << fast.makespan << " fast";
}

// All but forwarding.toml, because production has no forwarding nodes. With sanitizers, only the short scenarios.
std::vector<std::string> scenarios() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {"disks.toml", "partial.toml", "unequal.toml"};
#endif
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TUTTI_SCENARIOS) + "/fast"))
    if (entry.path().filename() != "forwarding.toml") names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Fidelity, testing::ValuesIn(scenarios()), [](const auto& parameter) {
  std::string name = parameter.param.substr(0, parameter.param.find('.'));
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace tutti::sim
