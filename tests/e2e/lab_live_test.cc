// SPDX-License-Identifier: Apache-2.0
// Experiments with real processes: the timelines show that turns exclude each other, and all modes fill the same table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/catalogue.h"
#include "lab/experiment.h"
#include "lab/live.h"
#include "lab/live_client.h"
#include "lab/live_patterns.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using Segment = Timeline::Segment;

std::vector<Segment> writes_of(const Timeline& timeline) {
  std::vector<Segment> writes;
  for (const Segment& segment : timeline.segments)
    if (segment.kind == Segment::Kind::kInputOutput) writes.push_back(segment);
  std::sort(writes.begin(), writes.end(), [](const Segment& a, const Segment& b) { return a.from < b.from; });
  return writes;
}

std::size_t overlaps(const std::vector<Segment>& writes) {
  std::size_t count = 0;
  for (std::size_t i = 1; i < writes.size(); ++i) count += writes[i].from < writes[i - 1].to;
  return count;
}

TEST(LabLive, WithLockingNoTwoJobsWriteAtOnce) {
  const auto result = run_experiment("thesis-identical", {.mode = Mode::kLive});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->timelines.size(), 3u) << "base, backoff, locking";
  const auto base = writes_of(result->timelines.front());
  const auto locking = writes_of(result->timelines.back());
  ASSERT_FALSE(base.empty());
  EXPECT_EQ(locking.size(), base.size()) << "every checkpoint is written";
  EXPECT_GT(overlaps(base), 0u) << "without a gate there is something to coordinate";
  EXPECT_EQ(overlaps(locking), 0u);
  for (const Timeline& timeline : result->timelines) EXPECT_EQ(writes_of(timeline).size(), base.size());
}

// Rows by their texts and whole numbers: which set-ups were run.
std::vector<std::vector<Cell>> set_ups(const ExperimentResult& result) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& row : result.rows) {
    auto& kept = rows.emplace_back();
    for (const Cell& cell : row) {
      if (const auto* figure = std::get_if<double>(&cell))
        EXPECT_GT(*figure, 0) << result.mode;
      else
        kept.push_back(cell);
    }
  }
  return rows;
}

TEST(LabLive, AllModesFillTheSameTable) {
  using namespace literals;
  const CheckpointSize tiny{.jobs = 2, .smallest = 512_KiB, .operation = 128_KiB, .placements = 1};
  std::vector<ExperimentResult> results;
  for (const Mode mode : {Mode::kFast, Mode::kFull, Mode::kLive}) {
    auto result = checkpoints_in({.mode = mode}, 2, tiny);
    ASSERT_TRUE(result) << name_of(mode) << ": " << result.error().message;
    results.push_back(std::move(*result));
  }
  const ExperimentResult& fast = results.front();
  ASSERT_EQ(fast.rows.size(), 8u) << "four contenders, a shared file and one per process";
  for (const ExperimentResult& result : results) {
    EXPECT_EQ(result.columns, fast.columns);
    EXPECT_EQ(set_ups(result), set_ups(fast));
    ASSERT_EQ(result.claims.size(), fast.claims.size());
    for (std::size_t i = 0; i < fast.claims.size(); ++i) EXPECT_EQ(result.claims[i].id, fast.claims[i].id);
    ASSERT_EQ(result.timelines.size(), fast.timelines.size());
    for (std::size_t i = 0; i < fast.timelines.size(); ++i)
      EXPECT_EQ(writes_of(result.timelines[i]).size(), writes_of(fast.timelines[i]).size());
  }
}

// An application that alternates computing and reading with several operations in flight.
sim::Scenario small_scenario() {
  sim::Scenario scenario = sc11_cluster(true, 2, 4, Bytes{});
  sim::Application application;
  application.name = "reader";
  application.ranks = 3;
  application.ranks_per_node = 2;
  application.iterations = 2;
  application.compute = std::chrono::milliseconds(5);
  application.operations = 4;
  application.outstanding = 2;
  application.size = Bytes(128 << 10);
  application.pattern = sim::Pattern::kStrided;
  scenario.applications.push_back(application);
  return scenario;
}

TEST(LabLive, ALiveOutcomeHasTheFieldsOfASimulatedOne) {
  const sim::Scenario scenario = small_scenario();
  const auto simulated = sim::run(scenario, {.demands = true});
  const auto live = run_live(scenario, {.slow_motion = 4, .demands = true});
  ASSERT_TRUE(live) << live.error().message;
  EXPECT_EQ(live->operations.size(), simulated->operations.size());
  EXPECT_EQ(live->bytes, simulated->bytes);
  EXPECT_EQ(live->timeline.size(), simulated->timeline.size());
  ASSERT_EQ(live->phases.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(live->phases[i].demand, simulated->phases[i].demand);
  EXPECT_GE(live->phases[0].begin, scenario.applications[0].compute);
  EXPECT_GE(live->makespan, simulated->phases[0].begin);
}

// The program of the live experiments compares every byte.
TEST(LabLive, MpiProgramsPerformThePatternsThroughNodes) {
  LivePatterns cluster({.device = FixedFigures{.latency = std::chrono::microseconds(10)}});
  if (const auto started = cluster.start(); !started) {
    ASSERT_EQ(started.error().code, ErrorCode::kInvalid) << started.error().message;
    GTEST_SKIP() << started.error().message;
  }
  std::vector<PatternRun> runs;
  for (const char* pattern : {"demonstration", "mpi-io-test", "ior-mpi-io", "noncontig", "coll_perf"})
    for (const char* method : {"alone", "two-phase", "resonant", "timed", "auto"})
      for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
        const bool array = std::string(pattern) == "coll_perf";
        runs.push_back({pattern, method, {4, array ? 32u : 48u << 10, direction, 1 << 20}});
      }
  const auto rates = cluster.run(runs);
  ASSERT_TRUE(rates) << rates.error().message;
  for (const double rate : *rates) EXPECT_GT(rate, 0);
  const auto wrong = cluster.run({{"demonstration", "fastest", {4, 4096, Direction::kRead, 65536}}});
  ASSERT_FALSE(wrong) << "a plan that does not exist";
}

// Requests of 8 KiB of their own, a trace, predictions from it, batches of several requests; every byte is compared.
TEST(LabLive, NodesRecordPredictAndTransferEveryByte) {
  const TemporaryDirectory traces;
  for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
    sim::Scenario scenario = small_scenario();
    scenario.servers.device = FixedFigures{.latency = std::chrono::milliseconds(2), .bandwidth = 0};
    scenario.servers.policy = {"mlf", {{"adjoin", "object"}}};
    scenario.applications[0].direction = direction;
    scenario.applications[0].largest_request = Bytes(8 << 10);
    scenario.applications[0].separate_requests = true;
    const auto recorded = run_live(scenario, {.verify = true, .traces = traces.path()});
    ASSERT_TRUE(recorded) << recorded.error().message;
    EXPECT_EQ(recorded->batched_requests, 2u * 3 * 4 * 16) << "iterations, ranks, operations, requests";
    EXPECT_LT(recorded->batches, recorded->batched_requests);
    scenario.servers.policy.options["prediction"] = "traces";
    const auto predicted = run_live(scenario, {.verify = true, .predict = traces.path()});
    ASSERT_TRUE(predicted) << predicted.error().message;
    EXPECT_EQ(predicted->batched_requests, recorded->batched_requests);
  }
}

TEST(LabLive, ContentOfAnotherPlaceIsWrong) {
  std::vector<std::byte> memory(4096);
  fill_content(4093, memory);
  EXPECT_TRUE(has_content(4093, memory));
  EXPECT_FALSE(has_content(4094, memory));
  memory[17] ^= std::byte{1};
  EXPECT_FALSE(has_content(4093, memory));
}

TEST(LabLive, UnsupportedFeaturesOfAScenarioAreNamed) {
  const auto refused = [](const std::function<void(sim::Scenario&)>& change) {
    sim::Scenario scenario = small_scenario();
    change(scenario);
    const auto result = run_live(scenario, {});
    return result ? std::string("accepted") : result.error().message;
  };
  EXPECT_THAT(refused([](sim::Scenario& each) { each.servers.count = 64; }), testing::HasSubstr("64 servers"));
  EXPECT_THAT(refused([](sim::Scenario& each) { each.applications[0].flow = Bytes(1 << 18); }),
              testing::HasSubstr("flow"));
  EXPECT_THAT(refused([](sim::Scenario& each) { each.forwarding.count = 2; }), testing::HasSubstr("forwarding"));
  EXPECT_THAT(refused([](sim::Scenario& each) { each.faults.push_back({.at = {}}); }), testing::HasSubstr("faults"));
}

TEST(LabLive, AModeThatCannotRunAnExperimentSaysWhy) {
  const auto live = run_experiment("sc11-figure7", {.mode = Mode::kLive});
  ASSERT_FALSE(live);
  EXPECT_THAT(live.error().message, testing::HasSubstr("--live"));
  const auto full = run_experiment("agios-patterns", {.mode = Mode::kFull});
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message, testing::HasSubstr("leave out --full"));
}

}  // namespace
}  // namespace tutti::lab
