// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/temporary_directory.h"
#include "sched/policy.h"
#include "sim/metrics.h"

namespace tutti::sim {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::string_view kScenario = R"(
seed = 7
[servers]
count = 8
depth = 4
policy = "window"
device = { preset = "hdd-7200" }
[policies.window]
width = "250ms"
[network]
jitter = "1ms"
client_bandwidth = "1GB"
[[applications]]
name = "mix"
count = 20
operations = "2..9"
size = "1MiB..64MiB pareto 1.1"
stripe_count = 4
[[faults]]
kind = "kill"
application = "mix3"
at = "2s"
)";

std::string message_of(std::string_view text, const Overrides& overrides = {}) {
  const auto scenario = parse_scenario(text, "x.toml", overrides);
  return scenario ? "" : scenario.error().message;
}

TEST(ScenarioFile, IsReadAndDrawnBySeed) {
  const auto scenario = parse_scenario(kScenario, "mix.toml");
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->name, "mix");
  EXPECT_EQ(scenario->servers.policy.options.at("width"), "250ms");
  EXPECT_EQ(scenario->network.client_bandwidth, 1e9);
  ASSERT_EQ(scenario->applications.size(), 20u);
  EXPECT_EQ(scenario->faults.at(0).application, 3u);
  for (const Application& application : scenario->applications) {
    EXPECT_GE(application.operations, 2u);
    EXPECT_LE(application.operations, 9u);
    EXPECT_GE(application.size, 1_MiB);
    EXPECT_LE(application.size, 64_MiB);
  }
  const auto other = parse_scenario(kScenario, "mix.toml", {.policy = {}, .seed = 8, .assignments = {}});
  EXPECT_NE(scenario->applications[0].size, other->applications[0].size);
}

TEST(ScenarioFile, TheCommandLineOverridesValues) {
  const auto scenario = parse_scenario(
      kScenario, "mix.toml",
      {.policy = "concert", .seed = {}, .assignments = {"servers.count=16", "applications.0.size=4MiB"}});
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->servers.policy.name, "concert");
  EXPECT_TRUE(scenario->servers.policy.options.empty());  // those were options of window
  EXPECT_EQ(scenario->servers.count, 16u);
  EXPECT_EQ(scenario->applications[5].size, 4_MiB);
}

TEST(ScenarioFile, MistakesNameFileLineKeyAndValidValues) {
  EXPECT_THAT(message_of("[servers]\ncuont = 4\n[[applications]]\nname='a'\n"),
              HasSubstr("x.toml:2: servers.cuont: unknown key; accepted here: "));
  EXPECT_THAT(message_of("[[applications]]\nname='a'\npattern='diagonal'\n"),
              HasSubstr("x.toml:3: applications[0].pattern: 'diagonal' is not accepted; one of: contiguous, strided"));
  EXPECT_THAT(message_of("[[applications]]\nname='a'\nsize='4 furlongs'\n"),
              HasSubstr("x.toml:3: applications[0].size"));
  EXPECT_THAT(message_of("[[applications]]\nname='a'\nsize=-5\n"), HasSubstr("x.toml:3: applications[0].size"));
  EXPECT_THAT(message_of("[servers]\ncount=4\n[[applications]]\nstripe_count=5\n"),
              HasSubstr("x.toml:4: applications[0].stripe_count: 5 must not exceed the number of servers, 4"));
  EXPECT_THAT(message_of("[servers]\ncount=4\n"), HasSubstr("at least one [[applications]]"));
  EXPECT_THAT(message_of("[[applications]]\nname='a'\n[[faults]]\nkind='kill'\napplication='b'\n"),
              HasSubstr("x.toml:5: faults[0].application: there is no application 'b'; there are: a"));
  EXPECT_THAT(message_of(kScenario, {.policy = "nope", .seed = {}, .assignments = {}}), "");  // the run reports it
}

// Every scenario in scenarios/fast finishes under every policy, serves every byte and is reproducible.
TEST(FastScenarios, FinishUnderEveryPolicyAndRepeat) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_SCENARIOS "/fast")) {
    ++files;
    for (const PolicyInfo& policy : policies()) {
      const auto scenario =
          load_scenario(entry.path().string(), {.policy = policy.name, .seed = {}, .assignments = {}});
      ASSERT_TRUE(scenario) << scenario.error().message;
      const auto first = run(*scenario);
      const auto again = run(*scenario);
      ASSERT_TRUE(first && again) << entry.path() << policy.name;
      EXPECT_TRUE(first->stuck.empty()) << entry.path() << policy.name;
      EXPECT_EQ(first->events, again->events) << entry.path() << policy.name;
      EXPECT_EQ(first->makespan, again->makespan) << entry.path() << policy.name;
      EXPECT_EQ(first->bytes, again->bytes) << entry.path() << policy.name;
      EXPECT_GT(first->bytes, Bytes{}) << entry.path() << policy.name;
    }
  }
  EXPECT_GE(files, 5u);
}

struct Totals {
  double phase = 0;
  double makespan = 0;
};

using Seeds = std::vector<std::optional<std::uint64_t>>;  // empty: the seed of the file

Totals totals(const std::string& file, const std::string& policy, const Seeds& seeds) {
  Totals sum;
  for (const auto& seed : seeds) {
    const auto scenario = load_scenario(file, {.policy = policy, .seed = seed, .assignments = {}});
    if (!scenario) throw std::runtime_error(scenario.error().message);
    const auto measured = measure(*scenario, {.slowdown = false, .bound = false});
    if (!measured) throw std::runtime_error(measured.error().message);
    sum.phase += measured->metrics.phase.mean;
    sum.makespan += measured->metrics.makespan;
  }
  return sum;
}

void expect_no_harm(const std::string& file, const Seeds& seeds) {
  const Totals fifo = totals(file, "fifo", seeds), concert = totals(file, "concert", seeds);
  EXPECT_LE(concert.phase, 1.02 * fifo.phase) << file;
  EXPECT_LE(concert.makespan, 1.02 * fifo.makespan) << file;
}

TEST(ScenarioFile, TheScenariosOfTheDocumentationAreValid) {
  std::ifstream page(TUTTI_SCENARIOS "/../docs/simulator.md");
  const TemporaryDirectory directory;
  int blocks = 0;
  for (std::string line; std::getline(page, line);) {
    if (line != "```toml") continue;
    const std::string path = directory / (std::to_string(++blocks) + ".toml");
    std::ofstream block(path);
    while (std::getline(page, line) && line != "```") block << line << '\n';
    block.close();
    const auto scenario = load_scenario(path, {});
    ASSERT_TRUE(scenario) << scenario.error().message;
    EXPECT_TRUE(check(*scenario)) << check(*scenario).error().message;
  }
  EXPECT_GE(blocks, 1);
}

// The default policy makes no scenario worse, with announced, learned, unknown and wrong sizes. Scenarios that measure
// the speed and memory of the simulator take too long and are left out.
TEST(FastScenarios, ConcertIsNeverMoreThanTwoPercentWorseThanFifo) {
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_SCENARIOS "/fast"))
    expect_no_harm(entry.path().string(), {std::nullopt});
  expect_no_harm(TUTTI_SCENARIOS "/phases-heavy.toml", {std::nullopt});
}

// The same for seeds that were not used to tune concert.
TEST(FastScenarios, ConcertIsNeverMoreThanTwoPercentWorseWithOtherSeeds) {
  Seeds seeds;
  for (std::uint64_t seed = 4001; seed <= 4012; ++seed) seeds.emplace_back(seed);
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_SCENARIOS "/fast"))
    expect_no_harm(entry.path().string(), seeds);
}

// Jobs whose sizes are unknown: in a backlog, serving those first that have attained least is at least nearly as good
// as fair shares. Seeds that were not used to tune concert.
TEST(Backlog, OfUnknownSizesIsServedNearlyAsWellAsByFair) {
  const std::string file = TUTTI_SCENARIOS "/backlog-unknown.toml";
  const Seeds seeds = {4001, 4002, 4003, 4004};
  const Totals fifo = totals(file, "fifo", seeds), fair = totals(file, "fair", seeds);
  const Totals concert = totals(file, "concert", seeds);
  EXPECT_LE(concert.phase, 1.2 * fair.phase);
  EXPECT_LE(concert.phase, 0.5 * fifo.phase);
}

// The end of the large write, in seconds, over seeds that were not used to tune concert.
double end_of_large(const std::string& policy) {
  double sum = 0;
  for (const std::uint64_t seed : {4001, 4002, 4003}) {
    const auto scenario = load_scenario(TUTTI_SCENARIOS "/seeks.toml", {.policy = policy, .seed = seed});
    if (!scenario) throw std::runtime_error(scenario.error().message);
    const auto measured = measure(*scenario, {.slowdown = false, .bound = false});
    if (!measured) throw std::runtime_error(measured.error().message);
    sum += measured->metrics.applications.front().end;
  }
  return sum;
}

TEST(Seeks, OfTinyJobsDoNotHoldUpALargeWrite) {
  EXPECT_LE(end_of_large("concert"), 1.6 * end_of_large("fifo"));
}

TEST(ScenarioFile, BytesOfEachServerAreWhatItGets) {
  constexpr std::string_view kUneven = R"([servers]
count = 4
device = { kind = "fixed", latency = "0s", bandwidth = "1MiB" }
[[applications]]
server_bytes = ["1MiB", 0, "300KiB", 100]
ranks = 2
operations = 3
)";
  const auto scenario = parse_scenario(kUneven, "x.toml");
  ASSERT_TRUE(scenario) << scenario.error().message;
  for (const bool full : {false, true}) {
    const auto outcome = run(*scenario, {.full = full, .demands = true});
    ASSERT_TRUE(outcome) << outcome.error().message;
    ASSERT_EQ(outcome->phases.size(), 1u);
    EXPECT_THAT(outcome->phases[0].demand, testing::ElementsAre(6_MiB, 0_B, 1800_KiB, 600_B)) << full;
  }
  const auto with_line = [&](std::string_view line) { return message_of(std::string(kUneven) + std::string(line)); };
  EXPECT_THAT(with_line("size = \"1MiB\"\n"), HasSubstr("sum of server_bytes"));
  EXPECT_THAT(with_line("stripe_count = 2\n"), HasSubstr("remove stripe_count"));
  EXPECT_THAT(message_of("[servers]\ncount = 2\n[[applications]]\nserver_bytes = [1]\n"),
              HasSubstr("server_bytes has 1 sizes and there are 2 servers"));
  EXPECT_THAT(message_of("[[applications]]\nserver_bytes = [\"x\"]\n"),
              testing::AllOf(HasSubstr("x.toml:2"), HasSubstr("server_bytes")));
}

}  // namespace
}  // namespace tutti::sim
