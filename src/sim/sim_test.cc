// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulation.h"

namespace tutti::sim {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;

// Every piece takes one second wherever it lies.
Scenario seconds_per_piece(unsigned servers, unsigned applications) {
  Scenario scenario;
  scenario.name = "test";
  scenario.servers.count = servers;
  scenario.servers.device = FixedFigures{.latency = 1s, .bandwidth = 0};
  scenario.servers.depth = 1;
  scenario.network.latency = 0ns;
  for (unsigned i = 0; i < applications; ++i) {
    Application application;
    application.name = std::string(1, static_cast<char>('a' + i));
    application.size = 64_KiB * servers;
    scenario.applications.push_back(application);
  }
  return scenario;
}

TEST(Simulation, OneApplicationAloneTakesAsLongAsItsLastServer) {
  auto outcome = run(seconds_per_piece(4, 1));
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->operations, SizeIs(1));
  EXPECT_EQ(outcome->operations[0].completed, 1s);
  EXPECT_EQ(outcome->operations[0].first_server, 1s);
  EXPECT_EQ(outcome->makespan, 1s);
  EXPECT_EQ(outcome->bytes, 256_KiB);
  EXPECT_TRUE(outcome->stuck.empty());
}

TEST(Simulation, TheSameSeedGivesTheSameOutcome) {
  Scenario scenario = seconds_per_piece(8, 6);
  scenario.network.jitter = 5ms;
  const auto first = run(scenario);
  const auto again = run(scenario);
  scenario.seed = 2;
  const auto other = run(scenario);
  ASSERT_TRUE(first && again && other);
  const auto ends = [](const Outcome& outcome) {
    std::vector<Duration> list;
    for (const auto& operation : outcome.operations) list.push_back(operation.completed);
    return list;
  };
  EXPECT_EQ(ends(*first), ends(*again));
  EXPECT_NE(ends(*first), ends(*other));
}

TEST(Simulation, AStoppedServerWithoutTimeoutIsReportedWithWhoWaits) {
  Scenario scenario = seconds_per_piece(4, 2);
  scenario.faults.push_back({.kind = Fault::Kind::kStop, .server = 2, .at = 0s});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->stuck, SizeIs(2));
  EXPECT_THAT(outcome->stuck[0], HasSubstr("application 'a', phase 1: rank 0 waits for operation 1"));
  EXPECT_THAT(outcome->stuck[0], HasSubstr("on server 2, which is stopped"));
}

TEST(Simulation, ATimeoutGivesTheOperationUp) {
  Scenario scenario = seconds_per_piece(4, 2);
  scenario.timeout = 30s;
  scenario.faults.push_back({.kind = Fault::Kind::kStop, .server = 2, .at = 0s});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  EXPECT_EQ(outcome->failed_operations, 2u);
  EXPECT_EQ(outcome->makespan, 30s);
}

TEST(Simulation, AStoppedServerGoesOn) {
  Scenario scenario = seconds_per_piece(2, 1);
  scenario.faults.push_back({.kind = Fault::Kind::kStop, .server = 1, .at = 500ms, .until = 5s});
  EXPECT_EQ(run(scenario)->makespan, 5s);
}

TEST(Simulation, ASlowServerSlowsEverybody) {
  Scenario scenario = seconds_per_piece(2, 3);
  scenario.faults.push_back({.kind = Fault::Kind::kSlow, .server = 1, .at = 0s, .factor = 4});
  EXPECT_EQ(run(scenario)->makespan, 12s);
}

TEST(Simulation, ADeadApplicationLeavesTheServersToTheOthers) {
  Scenario scenario = seconds_per_piece(2, 2);
  scenario.applications[0].size = 64_KiB * 20;  // ten pieces on each server, all before b's
  scenario.faults.push_back({.kind = Fault::Kind::kKill, .application = 0, .at = 1500ms});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  ASSERT_THAT(outcome->phases, SizeIs(1));
  EXPECT_EQ(outcome->phases[0].application, 1u);
  EXPECT_EQ(outcome->phases[0].end, 3s);  // the piece in service when the other died ends first
}

TEST(Simulation, BarriersMakeRanksMeet) {
  Scenario scenario = seconds_per_piece(1, 1);
  Application& application = scenario.applications[0];
  application.ranks = 4;
  application.operations = 3;
  application.barrier = Barrier::kOperation;
  application.iterations = 2;
  application.compute = 10s;
  application.think = 1s;
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->operations.size(), 24u);
  // 10 s of computing, three rounds of 4 s with 1 s between them, twice.
  EXPECT_EQ(outcome->makespan, 48s);
  ASSERT_THAT(outcome->phases, SizeIs(2));
  EXPECT_EQ(outcome->phases[1].begin, 34s);
  EXPECT_THAT(outcome->timeline, SizeIs(4));
}

TEST(Simulation, LinksAreShared) {
  Scenario scenario = seconds_per_piece(4, 1);
  scenario.servers.device = FixedFigures{};
  scenario.network.client_bandwidth = 1e6;
  scenario.applications[0].size = 1000_KiB;
  const double seconds = std::chrono::duration<double>(run(scenario)->makespan).count();
  EXPECT_NEAR(seconds, 1.024, 0.01);
}

TEST(Simulation, ForwardingNodesPassEverythingOn) {
  Scenario scenario = seconds_per_piece(4, 3);
  scenario.forwarding.count = 2;
  scenario.forwarding.depth = 1;
  for (Application& application : scenario.applications) application.ranks = 2;
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  EXPECT_EQ(outcome->operations.size(), 6u);
  EXPECT_EQ(outcome->makespan, 13s);  // 24 pieces, two at a time, after both nodes began with server 0
}

TEST(Simulation, ABatchOverSeveralServersGoesToEachOfThem) {
  Scenario scenario = seconds_per_piece(4, 1);  // one operation, a piece on each server
  scenario.forwarding.count = 1;
  scenario.forwarding.depth = 1;
  scenario.forwarding.policy.name = "to";  // joins the four pieces, which follow each other in the file
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  EXPECT_EQ(outcome->makespan, 2s);  // the first piece alone, then the other three at once
  for (const Duration busy : outcome->server_busy) EXPECT_EQ(busy, 1s);
}

TEST(Simulation, AServersThreadAndMemory) {
  Scenario scenario = seconds_per_piece(1, 1);
  scenario.applications[0].operations = 4;
  scenario.servers.request_cost = 100ms;
  EXPECT_EQ(run(scenario)->makespan, 4400ms);
  scenario.servers.read_ahead = 128_KiB;  // the second read is a stream and brings the third along
  EXPECT_EQ(run(scenario)->makespan, 3400ms);
  scenario.applications[0].direction = Direction::kWrite;
  scenario.servers.write_back = true;
  EXPECT_EQ(run(scenario)->makespan, 400ms);
}

Scenario checkpoints(unsigned applications) {
  Scenario scenario = seconds_per_piece(1, applications);
  for (Application& application : scenario.applications) {
    application.operations = 5;
    application.compute = 10s;
    application.iterations = 2;
    application.direction = Direction::kWrite;
  }
  return scenario;
}

TEST(Gate, PhasesTakeTurnsUnderTheLock) {
  Scenario scenario = checkpoints(2);
  scenario.gate.kind = Gate::Kind::kLock;
  scenario.gate.latency = 0s;
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_THAT(outcome->phases, SizeIs(4));
  EXPECT_EQ(outcome->phases[0].end, 15s);
  EXPECT_EQ(outcome->phases[1].begin, 10s);  // ready with the first, and waits for it
  EXPECT_EQ(outcome->phases[1].issued, 15s);
  EXPECT_EQ(outcome->phases[1].end, 20s);
  EXPECT_EQ(outcome->makespan, 35s);  // from then on they are out of each other's way
}

TEST(Gate, WithoutCoordinatorApplicationsGoAheadAfterTheirPatience) {
  Scenario scenario = checkpoints(2);
  scenario.gate.kind = Gate::Kind::kLock;
  scenario.gate.patience = 3s;
  scenario.faults.push_back({.kind = Fault::Kind::kCoordinator, .at = 0s});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  EXPECT_EQ(outcome->phases.front().issued, 13s);
}

TEST(Gate, AHolderThatDiesFreesTheLock) {
  Scenario scenario = checkpoints(2);
  scenario.gate.kind = Gate::Kind::kLock;
  scenario.gate.latency = 0s;
  scenario.faults.push_back({.kind = Fault::Kind::kKill, .application = 0, .at = 12500ms});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->phases, SizeIs(2));
  EXPECT_EQ(outcome->phases[0].issued, 12500ms);
}

TEST(Gate, BackoffProbesAndLetsBusyServersFinish) {
  Scenario scenario = checkpoints(2);
  scenario.servers.device = FixedFigures{.latency = 1ms, .bandwidth = 10e6};
  for (Application& application : scenario.applications) {
    application.ranks = 64;
    application.operations = 20;
  }
  scenario.applications[1].start = 1s;  // finds the other in its phase
  scenario.gate.kind = Gate::Kind::kBackoff;
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  EXPECT_EQ(outcome->phases.size(), 4u);
  for (const PhaseRecord& phase : outcome->phases) {
    if (phase.application != 1 || phase.iteration != 0) continue;
    EXPECT_GT(phase.issued - phase.begin, 2s);  // it backed off
  }
}

TEST(Scenario, MistakesAreNamed) {
  Scenario scenario = seconds_per_piece(4, 1);
  scenario.applications[0].stripe_count = 5;
  EXPECT_THAT(run(scenario).error().message, HasSubstr("must not exceed the number of servers, 4"));
  scenario.applications[0].stripe_count = 0;
  scenario.servers.policy.name = "none";
  EXPECT_THAT(run(scenario).error().message, HasSubstr("there is no policy 'none'"));
}

TEST(Simulation, WritesKeepTheServersThreadUntilTheyAreSafe) {
  Scenario scenario = seconds_per_piece(1, 4);
  scenario.servers.device = FixedFigures{};
  scenario.servers.write_back = true;
  scenario.servers.request_cost = 100ms;
  scenario.servers.write_cost = 500ms;
  scenario.servers.depth = 16;
  EXPECT_EQ(run(scenario)->makespan, 400ms);
  for (Application& application : scenario.applications) application.direction = Direction::kWrite;
  EXPECT_EQ(run(scenario)->makespan, 2400ms);
}

TEST(Simulation, AFlowJoinsWhatAdjoinsOnAServer) {
  Scenario scenario = seconds_per_piece(2, 1);
  scenario.applications[0].size = 64_KiB * 2 * 6;  // six stripes on each server
  const auto apart = run(scenario);
  scenario.applications[0].flow = 128_KiB;
  const auto joined = run(scenario);
  ASSERT_TRUE(apart && joined);
  EXPECT_EQ(apart->makespan, 6s);
  EXPECT_EQ(joined->makespan, 3s);
  EXPECT_EQ(joined->bytes, apart->bytes);

  scenario.applications[0].flow = 1_MiB;
  scenario.applications[0].pattern = Pattern::kVector;  // gaps between the blocks: nothing adjoins
  scenario.applications[0].block = 64_KiB;
  scenario.applications[0].gap = 192_KiB;
  EXPECT_EQ(run(scenario)->makespan, 12s);

  scenario.applications[0].largest_request = 8_KiB;
  EXPECT_THAT(run(scenario).error().message, HasSubstr("flow joins pieces and largest_request cuts them"));
}

// Figure 6 of the sc11 paper with the fewest applications: they fit into what the server keeps at its disk, so that a
// queue in order of arrival has nothing to order.
TEST(Simulation, WindowByOffsetGainsWithTwoApplicationsOnDisks) {
  Scenario scenario;
  scenario.servers.count = 8;
  scenario.servers.device = HddFigures{};
  scenario.servers.spread = Bytes(20'000'000'000);
  scenario.network.jitter = 400us;
  for (const char* name : {"a", "b"}) {
    Application application;
    application.name = name;
    application.ranks = 8;
    application.operations = 8;
    application.size = 64_KiB;
    application.stripe_size = 4_KiB;
    application.barrier = Barrier::kOperation;
    scenario.applications.push_back(application);
  }
  const auto mean = [&](const char* policy, const PolicyOptions& options, unsigned depth) {
    double sum = 0, count = 0;
    for (scenario.seed = 1; scenario.seed <= 8; ++scenario.seed) {
      scenario.servers.policy = {policy, options};
      scenario.servers.depth = depth;
      const auto outcome = run(scenario);
      for (const OperationRecord& operation : outcome->operations)
        sum += std::chrono::duration<double>(operation.completed - operation.issued).count(), ++count;
    }
    return sum / count;
  };
  const double fifo = mean("fifo", {}, 16);
  EXPECT_GT(mean("window", {}, 16), 0.95 * fifo);
  EXPECT_LT(mean("window", {{"order", "offset"}}, 4), 0.92 * fifo);
}

}  // namespace
}  // namespace tutti::sim
