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

// Every request takes one second, at every position.
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

TEST(Simulation, AnApplicationTakesAsLongAsItsLastServer) {
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

// Jobs on one of eight servers, the largest first: concert serves their phases by size if sizes are right. They are
// right if announced, or remembered from an earlier run.
TEST(Simulation, JobsOnOneOfManyServersAnnounceTheBytesOnThatServer) {
  for (const bool own_files : {false, true}) {
    const auto mean_phase = [&](PhaseSizes sizes, double size_error = 1) {
      Scenario scenario = seconds_per_piece(8, 6);
      scenario.servers.device = FixedFigures{.latency = 10ms, .bandwidth = 0};  // no request becomes overdue
      scenario.servers.policy.name = "concert";
      for (unsigned i = 0; i < scenario.applications.size(); ++i) {
        Application& application = scenario.applications[i];
        application.start = std::chrono::milliseconds(i);
        application.stripe_count = 1;
        application.first_server = 3;
        application.size = 64_KiB;
        application.operations = 60 - 10 * i;
        application.ranks = 2;
        application.file_per_process = own_files;
        application.sizes = sizes;
        application.size_error = size_error;
      }
      Duration sum{};
      const auto outcome = run(scenario);
      for (const auto& phase : outcome->phases) sum += phase.end - phase.begin;
      return sum / 6;
    };
    const Duration announced = mean_phase(PhaseSizes::kAnnounced);
    EXPECT_EQ(announced, mean_phase(PhaseSizes::kRemembered));
    EXPECT_LT(announced * 5, mean_phase(PhaseSizes::kUnknown) * 4) << own_files;
    EXPECT_LT(announced, mean_phase(PhaseSizes::kAnnounced, 0.125)) << "as if distributed over all servers";
    EXPECT_EQ(mean_phase(PhaseSizes::kUnknown), mean_phase(PhaseSizes::kLearned)) << "no earlier phase";
  }
}

TEST(Simulation, WithoutATimeoutAStoppedServerIsReportedAsStuck) {
  Scenario scenario = seconds_per_piece(4, 2);
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kStop, .server = 2, .at = 0s});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->stuck, SizeIs(2));
  EXPECT_THAT(outcome->stuck[0], HasSubstr("application 'a', phase 1: rank 0 waits for operation 1"));
  EXPECT_THAT(outcome->stuck[0], HasSubstr("on server 2, which is stopped"));
}

TEST(Simulation, AnOperationFailsAfterTheTimeout) {
  Scenario scenario = seconds_per_piece(4, 2);
  scenario.applications[0].operations = 2;
  scenario.timeout = 30s;
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kStop, .server = 2, .at = 0s, .until = 31s});
  for (const bool full : {false, true}) {
    const auto outcome = run(scenario, {.full = full});
    ASSERT_TRUE(outcome);
    EXPECT_TRUE(outcome->stuck.empty());
    EXPECT_EQ(outcome->failed_operations, 2u);
    EXPECT_EQ(outcome->bytes, 256_KiB) << "of the second operation";
    ASSERT_THAT(outcome->phases, SizeIs(2));
    EXPECT_NEAR(std::chrono::duration<double>(outcome->phases[0].end).count(), 30, 0.1);
    EXPECT_EQ(outcome->phases[0].bytes, Bytes{});
  }
}

// Connecting and opening files is not part of a scenario: a slow network and a short timeout do not change it.
TEST(Simulation, AFullRunStartsWithAnyNetworkAndTimeout) {
  Scenario scenario = seconds_per_piece(2, 2);
  scenario.network.latency = 16s;
  auto outcome = run(scenario, {.full = true});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->failed_operations, 0u);
  EXPECT_GE(outcome->makespan, 33s);
  scenario.timeout = 1ns;
  outcome = run(scenario, {.full = true});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->failed_operations, 2u);
  EXPECT_EQ(outcome->bytes, Bytes{});
}

TEST(Simulation, ARunMayEndWithOperationsInFlight) {
  Scenario scenario = seconds_per_piece(2, 2);
  for (Application& application : scenario.applications) {
    application.operations = 10;
    application.sync = true;
    application.direction = Direction::kWrite;
  }
  scenario.limit = 3500ms;
  for (const bool full : {false, true}) {
    const auto outcome = run(scenario, {.full = full});
    ASSERT_TRUE(outcome);
    EXPECT_THAT(outcome->stuck, SizeIs(2));
    EXPECT_EQ(outcome->failed_operations, 0u);
  }
}

TEST(Simulation, TheOperationsOfAKilledApplicationDoNotFail) {
  Scenario scenario = seconds_per_piece(2, 2);
  scenario.applications[0].operations = 10;
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kKill, .application = 0, .at = 2500ms});
  for (const bool full : {false, true}) {
    const auto outcome = run(scenario, {.full = full});
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->failed_operations, 0u);
    EXPECT_THAT(outcome->phases, SizeIs(1));
  }
}

// Data of a full run is never accessed, so it needs addresses, not memory.
TEST(Simulation, AFullRunNeedsNoMemoryForItsData) {
  Scenario scenario = seconds_per_piece(2, 1);
  scenario.applications[0].size = 1024_GiB;
  scenario.applications[0].stripe_size = 1_GiB;
  const auto outcome = run(scenario, {.full = true});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->bytes, 1024_GiB);
}

TEST(Simulation, AStoppedServerContinues) {
  Scenario scenario = seconds_per_piece(2, 1);
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kStop, .server = 1, .at = 500ms, .until = 5s});
  EXPECT_EQ(run(scenario)->makespan, 5s);
}

TEST(Simulation, AnOperationThatNoQueueHasRoomForIsRefused) {
  Scenario scenario = seconds_per_piece(2, 1);
  scenario.applications[0].size = 64_KiB * 9;  // five requests on the first server
  scenario.servers.max_waiting = 5;
  EXPECT_TRUE(run(scenario));
  scenario.servers.max_waiting = 4;
  for (const bool full : {false, true}) {
    const auto refused = run(scenario, {.full = full});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("one operation is 5 requests on a server, where at most 4"));
  }
}

// The requests of a probe are as small as operations, but not arbitrarily many.
TEST(Simulation, JobsWithTinyOperationsCanProbe) {
  Scenario scenario = seconds_per_piece(1, 1);
  scenario.servers.device = FixedFigures{.latency = 1us, .bandwidth = 0};
  scenario.gate.kind = Gate::Kind::kBackoff;
  scenario.applications[0].size = Bytes(1);
  for (const bool full : {false, true}) {
    const auto outcome = run(scenario, {.full = full});
    ASSERT_TRUE(outcome);
    EXPECT_LT(outcome->events, 200'000u);
  }
}

TEST(Simulation, TheEndOfAFaultDoesNotEndAnother) {
  Scenario stopped = seconds_per_piece(2, 1);
  stopped.faults.push_back({.kind = ScenarioFault::Kind::kStop, .server = 1, .at = 200ms, .until = 3s});
  stopped.faults.push_back({.kind = ScenarioFault::Kind::kStop, .server = 1, .at = 500ms, .until = 5s});
  Scenario slow = seconds_per_piece(2, 1);
  slow.applications[0].operations = 10;
  slow.faults.push_back({.kind = ScenarioFault::Kind::kSlow, .at = 0s, .until = 1500ms, .factor = 3});
  slow.faults.push_back({.kind = ScenarioFault::Kind::kSlow, .at = 0s, .factor = 2});
  for (const bool full : {false, true}) {
    EXPECT_NEAR(std::chrono::duration<double>(run(stopped, {.full = full})->makespan).count(), 5, 0.01) << full;
    EXPECT_GE(run(slow, {.full = full})->makespan, 20s) << full;
  }
}

// Fast and full simulations agree also where answers are slow, late or missing.
TEST(Simulation, ASlowOrStoppedGateActsAsInProduction) {
  const auto compare = [](const Scenario& scenario, const std::string& what) {
    const auto fast = run(scenario), full = run(scenario, {.full = true});
    ASSERT_TRUE(fast && full);
    ASSERT_EQ(fast->phases.size(), full->phases.size()) << what;
    for (std::size_t i = 0; i < fast->phases.size(); ++i)
      EXPECT_NEAR(std::chrono::duration<double>(fast->phases[i].end - full->phases[i].end).count(), 0, 0.05)
          << what << ", phase " << i;
  };
  Scenario scenario = seconds_per_piece(1, 3);
  scenario.gate.kind = Gate::Kind::kLock;
  for (Application& application : scenario.applications) application.iterations = 3;
  for (const Duration latency : {Duration(20ms), Duration(400ms), Duration(900ms)}) {
    scenario.gate.latency = latency;
    compare(scenario, "latency " + std::to_string(latency.count()));
  }
  scenario.gate.latency = 100ms;
  scenario.gate.patience = 1950ms;  // ends when a grant is under way
  compare(scenario, "patience");
  scenario.gate.latency = 1ms;
  scenario.gate.patience = 10min;
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kCoordinator, .at = 500ms, .until = 4300ms});
  compare(scenario, "stopped for a short time");
  scenario.servers.device = FixedFigures{.latency = 20s, .bandwidth = 0};  // longer than a lease
  scenario.faults.front().until = 18s;
  compare(scenario, "stopped for longer than a lease");
}

TEST(Simulation, ASlowServerDelaysAllApplications) {
  Scenario scenario = seconds_per_piece(2, 3);
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kSlow, .server = 1, .at = 0s, .factor = 4});
  EXPECT_EQ(run(scenario)->makespan, 12s);
}

TEST(Simulation, RequestsOfADeadApplicationAreCancelled) {
  Scenario scenario = seconds_per_piece(2, 2);
  scenario.applications[0].size = 64_KiB * 20;  // ten requests on each server, all before those of b
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kKill, .application = 0, .at = 1500ms});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  ASSERT_THAT(outcome->phases, SizeIs(1));
  EXPECT_EQ(outcome->phases[0].application, 1u);
  EXPECT_EQ(outcome->phases[0].end, 3s);  // the request in service when the other died ends first
}

TEST(Simulation, RanksWaitForEachOtherAtBarriers) {
  Scenario scenario = seconds_per_piece(1, 1);
  Application& application = scenario.applications[0];
  application.ranks = 4;
  application.operations = 3;
  application.barrier = RankBarrier::kOperation;
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

TEST(Simulation, ForwardingNodesForwardAllRequests) {
  Scenario scenario = seconds_per_piece(4, 3);
  scenario.forwarding.count = 2;
  scenario.forwarding.depth = 1;
  for (Application& application : scenario.applications) application.ranks = 2;
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  EXPECT_EQ(outcome->operations.size(), 6u);
  EXPECT_EQ(outcome->makespan, 13s);  // 24 requests, two at a time, after both nodes began with server 0
}

TEST(Simulation, ABatchForSeveralServersIsSentToEachOfThem) {
  Scenario scenario = seconds_per_piece(4, 1);  // one operation, with a request on each server
  scenario.forwarding.count = 1;
  scenario.forwarding.depth = 1;
  scenario.forwarding.policy.name = "to";  // joins the four requests, which adjoin in the file
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  EXPECT_EQ(outcome->makespan, 2s);  // the first request alone, then the other three together
  for (const Duration busy : outcome->server_busy) EXPECT_EQ(busy, 1s);
}

TEST(Simulation, TheThreadAndTheMemoryOfAServer) {
  Scenario scenario = seconds_per_piece(1, 1);
  scenario.applications[0].operations = 4;
  scenario.servers.request_cost = 100ms;
  EXPECT_EQ(run(scenario)->makespan, 4400ms);
  scenario.servers.read_ahead = 128_KiB;  // the second read is a stream and also loads the third
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
  EXPECT_EQ(outcome->phases[1].begin, 10s);  // ready at the same time as the first, and waits for it
  EXPECT_EQ(outcome->phases[1].issued, 15s);
  EXPECT_EQ(outcome->phases[1].end, 20s);
  EXPECT_EQ(outcome->makespan, 35s);  // later phases do not overlap
}

TEST(Gate, WithoutACoordinatorApplicationsProceed) {
  Scenario scenario = checkpoints(2);
  scenario.gate.kind = Gate::Kind::kLock;
  scenario.gate.patience = 3s;
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kCoordinator, .at = 0s});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->stuck.empty());
  EXPECT_EQ(outcome->phases.front().issued, 12s);
  EXPECT_EQ(outcome->phases.back().issued, outcome->phases.back().begin) << "the coordinator is not asked again";
  const auto full = run(scenario, {.full = true});
  ASSERT_TRUE(full);
  ASSERT_EQ(full->phases.size(), outcome->phases.size());
  EXPECT_NEAR(std::chrono::duration<double>(full->phases.front().issued).count(), 12, 0.01);
  EXPECT_EQ(full->phases.back().issued, full->phases.back().begin);
}

TEST(Gate, AHolderThatDiesFreesTheLock) {
  Scenario scenario = checkpoints(2);
  scenario.gate.kind = Gate::Kind::kLock;
  scenario.gate.latency = 0s;
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kKill, .application = 0, .at = 12500ms});
  const auto outcome = run(scenario);
  ASSERT_TRUE(outcome);
  ASSERT_THAT(outcome->phases, SizeIs(2));
  EXPECT_EQ(outcome->phases[0].issued, 12500ms);
}

TEST(Gate, BackoffProbesAndWaitsWhileServersAreBusy) {
  Scenario scenario = checkpoints(2);
  scenario.servers.device = FixedFigures{.latency = 1ms, .bandwidth = 10e6};
  for (Application& application : scenario.applications) {
    application.ranks = 64;
    application.operations = 20;
  }
  scenario.applications[1].start = 1s;  // while the other is in its phase
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

TEST(Scenario, ReportsWhatIsWrong) {
  Scenario scenario = seconds_per_piece(4, 1);
  scenario.applications[0].stripe_count = 5;
  EXPECT_THAT(run(scenario).error().message, HasSubstr("must not exceed the number of servers, 4"));
  scenario.applications[0].stripe_count = 0;
  scenario.servers.policy.name = "none";
  EXPECT_THAT(run(scenario).error().message, HasSubstr("there is no policy 'none'"));
}

TEST(Simulation, WritesOccupyTheServersThreadUntilTheyAreStable) {
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

TEST(Simulation, AFlowJoinsStripesThatAdjoinOnAServer) {
  Scenario scenario = seconds_per_piece(2, 1);
  scenario.applications[0].size = 64_KiB * 2 * 6;  // six stripes on each server
  const auto apart = run(scenario);
  scenario.applications[0].flow = 128_KiB;
  const auto joined = run(scenario);
  ASSERT_TRUE(apart && joined);
  EXPECT_EQ(apart->makespan, 6s);
  EXPECT_EQ(joined->makespan, 3s);
  EXPECT_EQ(joined->bytes, apart->bytes);

  const auto full = run(scenario, {.full = true});
  ASSERT_TRUE(full);
  EXPECT_EQ(full->makespan, joined->makespan);
  EXPECT_EQ(full->batched_requests, joined->batched_requests);

  scenario.applications[0].flow = 1_MiB;
  scenario.applications[0].pattern = Pattern::kVector;  // gaps between the blocks: nothing adjoins
  scenario.applications[0].block = 64_KiB;
  scenario.applications[0].gap = 192_KiB;
  EXPECT_EQ(run(scenario)->makespan, 12s);

  scenario.applications[0].largest_request = 8_KiB;
  EXPECT_THAT(run(scenario).error().message, HasSubstr("flow joins requests and largest_request cuts them"));
}

// The limits of a node have the same effect in fast and full simulations. Each of eight channels serves a request in 1
// s.
TEST(Simulation, LimitsOfANodeDelayLoadsThatExceedThem) {
  Scenario free = seconds_per_piece(1, 1);
  free.servers.device = SsdFigures{
      .read_latency = 1s, .write_latency = 1s, .command = 0s, .read_bandwidth = 1e15, .write_bandwidth = 1e15};
  free.servers.depth = 8;
  Application& application = free.applications[0];
  application.ranks = 4;
  application.operations = application.outstanding = 4;
  application.size = application.stripe_size = 4_MiB;
  const auto expect = [](const Scenario& scenario, Duration makespan) {
    for (const bool full : {false, true}) {
      const auto outcome = run(scenario, {.full = full});
      ASSERT_TRUE(outcome && outcome->stuck.empty());
      EXPECT_EQ(std::chrono::round<std::chrono::milliseconds>(outcome->makespan), makespan) << full;
    }
  };
  expect(free, 2s);
  Scenario limited = free;
  limited.servers.read_buffers = 16_MiB;  // for four requests
  EXPECT_EQ(run(limited)->makespan / 1s, 4);
  // A node also leaves memory for other clients: at times it has three requests of these four.
  const auto node = run(limited, {.full = true});
  ASSERT_TRUE(node && node->stuck.empty());
  EXPECT_THAT(node->makespan / 1s, testing::AllOf(testing::Ge(4), testing::Le(5)));
  limited.applications[0].direction = Direction::kWrite;
  expect(limited, 2s);
  limited.servers.write_buffers = 16_MiB;
  expect(limited, 4s);
  limited = free;
  limited.servers.limits.bytes = 4 << 20;  // one request of each rank
  expect(limited, 4s);
  limited.servers.limits = {.requests = 1};
  expect(limited, 4s);
}

TEST(Simulation, RequestsRefusedByAFullQueueAreSentAgain) {
  Scenario scenario = seconds_per_piece(1, 8);
  scenario.servers.device = FixedFigures{.latency = 10ms, .bandwidth = 0};
  scenario.servers.max_waiting = 2;
  for (const bool full : {false, true}) {
    const auto outcome = run(scenario, {.full = full});
    ASSERT_TRUE(outcome);
    EXPECT_GT(outcome->refused, 0u);
    EXPECT_EQ(outcome->failed_operations, 0u);
    EXPECT_EQ(outcome->phases.size(), 8u);
    EXPECT_GE(outcome->makespan, 80ms);
    EXPECT_LT(outcome->makespan, 200ms);
  }
}

// An fsync is answered after all earlier writes to the file, also those of other ranks.
TEST(Simulation, SyncsWaitForEarlierWrites) {
  Scenario scenario = seconds_per_piece(2, 1);
  Application& application = scenario.applications[0];
  application.direction = Direction::kWrite;
  application.ranks = 2;
  application.size = 64_KiB;  // on one server
  application.operations = 2;
  const auto plain = run(scenario);
  scenario.network.latency = 10ms;
  application.sync = true;
  const auto fast = run(scenario), full = run(scenario, {.full = true});
  ASSERT_TRUE(plain && fast && full);
  EXPECT_GT(fast->makespan, plain->makespan + 20ms) << "one more round trip";
  EXPECT_NEAR(static_cast<double>(full->makespan.count()), static_cast<double>(fast->makespan.count()), 1e6);
}

TEST(Simulation, RequestsAreCutInFastAndFullSimulations) {
  Scenario scenario = seconds_per_piece(2, 1);
  scenario.applications[0].size = 64_KiB * 2;
  scenario.applications[0].largest_request = 16_KiB;
  const auto fast = run(scenario), full = run(scenario, {.full = true});
  ASSERT_TRUE(fast && full);
  EXPECT_EQ(fast->batched_requests, 8u);
  EXPECT_EQ(full->batched_requests, 8u);
  EXPECT_EQ(full->makespan, fast->makespan);
}

// Figure 6 of the sc11 paper with the fewest applications. All their requests fit into the queue of the disk, so the
// order of arrival does not matter under fifo.
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
    application.barrier = RankBarrier::kOperation;
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
