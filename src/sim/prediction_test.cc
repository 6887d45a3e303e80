// SPDX-License-Identifier: Apache-2.0
// Traces, merging in objects and prediction in simulations.
#include <gmock/gmock.h>

#include "sched/prediction/predicted_queues.h"
#include "sim/simulation.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;
using namespace literals;
using testing::HasSubstr;
using testing::SizeIs;

// Eight processes write blocks of 16 KiB in turn, in requests of 8 KiB that arrive one by one; a batch takes 1 ms.
Scenario strided(const PolicyOptions& options, std::uint64_t seed) {
  Scenario scenario;
  scenario.name = "strided";
  scenario.seed = seed;
  scenario.servers = {.count = 2, .device = FixedFigures{.latency = 1us, .bandwidth = 0}, .depth = 64};
  scenario.servers.request_cost = 1ms;
  scenario.servers.policy = {"mlf", options};
  scenario.network.latency = 50us;
  scenario.network.jitter = 300us;
  Application application;
  application.name = "writer";
  application.ranks = 8;
  application.operations = 32;
  application.size = 16_KiB;
  application.largest_request = 8_KiB;
  application.separate_requests = true;
  application.stripe_size = 32_KiB;
  application.direction = Direction::kWrite;
  application.pattern = Pattern::kStrided;
  application.barrier = RankBarrier::kOperation;
  scenario.applications.push_back(application);
  return scenario;
}

double requests_per_batch(const Outcome& outcome) {
  return static_cast<double>(outcome.batched_requests) / static_cast<double>(outcome.batches);
}

TEST(SimulatedPrediction, EveryRequestIsInTheTraceOfItsServer) {
  const auto outcome = run(strided({}, 1), {.traces = true});
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->traces, SizeIs(2));
  for (TargetId server = 0; server < 2; ++server) {
    const Trace& trace = outcome->traces[server];
    EXPECT_THAT(trace.files, testing::ElementsAre("writer/iteration#"));
    ASSERT_THAT(trace.requests, SizeIs(8 * 32));  // half of the requests
    EXPECT_EQ(trace.requests.front().time, 0ns);
    Duration last{};
    for (const TraceRequest& request : trace.requests) {
      EXPECT_EQ(request.target, server);
      EXPECT_EQ(request.offset / (32 << 10) % 2, server);
      EXPECT_GE(request.time, last);
      last = request.time;
    }
  }
  EXPECT_THAT(run(strided({}, 1))->traces, SizeIs(0));
}

TEST(SimulatedPrediction, TracesOfAnEarlierRunMakeBatchesLargerAndTheRunShorter) {
  const PolicyOptions plain{{"adjoin", "object"}, {"max_requests", "1000"}};
  PolicyOptions predicting = plain;
  predicting["prediction"] = "traces";
  std::vector<std::vector<Trace>> traces(2);
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto outcome = run(strided(plain, seed), {.traces = true});
    ASSERT_TRUE(outcome);
    for (std::size_t server = 0; server < 2; ++server) traces[server].push_back(outcome->traces[server]);
  }
  Scenario scenario = strided(predicting, 9);
  for (const auto& each : traces) scenario.servers.predictions.push_back(PredictedQueues::combine(each));
  const auto predicted = run(scenario), without = run(strided(plain, 9));
  ASSERT_TRUE(predicted && without);
  EXPECT_EQ(predicted->bytes, without->bytes);
  EXPECT_GT(requests_per_batch(*predicted), 2 * requests_per_batch(*without));
  EXPECT_LT(predicted->makespan, 3 * without->makespan / 4);
}

TEST(SimulatedPrediction, LearningMakesTheSecondIterationShorter) {
  Scenario scenario = strided({{"adjoin", "object"}, {"prediction", "learn"}}, 4);
  scenario.applications[0].iterations = 2;
  scenario.applications[0].compute = 1s;
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->phases, SizeIs(2));
  const auto duration = [&](std::size_t phase) { return outcome->phases[phase].end - outcome->phases[phase].begin; };
  EXPECT_LT(duration(1), 3 * duration(0) / 4);
}

TEST(SimulatedPrediction, ObjectsMergeWhatOtherServersSeparateInTheFile) {
  Scenario scenario = strided({{"adjoin", "file"}, {"max_requests", "1000"}}, 1);
  scenario.servers.depth = 1;  // requests wait
  scenario.applications[0].size = 256_KiB;
  const auto file = run(scenario);
  scenario.servers.policy.options["adjoin"] = "object";
  const auto object = run(scenario);
  ASSERT_TRUE(file && object);
  EXPECT_LE(requests_per_batch(*file), 4) << "a stripe";
  EXPECT_GT(requests_per_batch(*object), 8);
}

TEST(SimulatedPrediction, TheThreadCopiesAtItsBandwidth) {
  Scenario scenario = strided({}, 1);
  scenario.servers.policy = {"fifo", {}};
  scenario.network = {.latency = 0ns};
  scenario.servers.request_cost = 0ns;
  scenario.servers.device = FixedFigures{};
  scenario.servers.write_back = true;
  scenario.servers.thread_bandwidth = 1 << 20;  // 2 MiB for each server
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_NEAR(std::chrono::duration<double>(outcome->makespan).count(), 2, 0.01);
}

TEST(SimulatedPrediction, ProductionNodesRefuseWhatTheyDoNotHave) {
  Scenario scenario = strided({{"adjoin", "object"}}, 1);
  scenario.servers.request_cost = 0ns;
  EXPECT_THAT(run(scenario, {.full = true}).error().message, HasSubstr("separate_requests"));
  scenario.applications[0].separate_requests = false;
  EXPECT_TRUE(run(scenario, {.full = true})) << "clients send the striping of their files";
}

}  // namespace
}  // namespace tutti::sim
