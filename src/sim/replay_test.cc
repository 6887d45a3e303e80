// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.h"

#include <gmock/gmock.h>

#include "base/units.h"
#include "sim/simulation.h"
#include "trace/dxt.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Records what a first-come-first-served server with this device would do to closed loops: one process per application,
// which writes `operations` requests, each after the one before, in each of its phases.
class Recorded {
 public:
  struct Job {
    ApplicationId application;
    Duration start;
    unsigned phases = 1, operations = 1;
    Bytes size{1 << 20};
    Duration compute = 1s;
  };

  static constexpr Duration kLatency = 100us;
  static constexpr double kBandwidth = 1e9;

  static Trace of(std::vector<Job> jobs) {
    Trace trace{.files = {"file"}, .requests = {}};
    std::vector<Duration> next;
    std::vector<unsigned> done(jobs.size());
    for (const Job& job : jobs) next.push_back(job.start);
    Duration free{};
    for (;;) {
      std::size_t first = jobs.size();
      for (std::size_t i = 0; i < jobs.size(); ++i)
        if (done[i] < jobs[i].phases * jobs[i].operations && (first == jobs.size() || next[i] < next[first])) first = i;
      if (first == jobs.size()) break;
      const Job& job = jobs[first];
      const auto service =
          kLatency + Duration(static_cast<std::int64_t>(1e9 * static_cast<double>(job.size.count()) / kBandwidth));
      free = std::max(free, next[first]) + service;
      trace.requests.push_back({.time = next[first],
                                .application = job.application,
                                .offset = done[first] * job.size.count(),
                                .length = job.size,
                                .direction = Direction::kWrite,
                                .process = static_cast<std::uint32_t>(first),
                                .completed = free});
      next[first] = free + (++done[first] % job.operations == 0 ? job.compute : 0s);
    }
    return trace;
  }
  static ReplayOptions options(const std::string& policy) {
    return {.policy = {.name = policy}, .device = FixedFigures{kLatency, kBandwidth}, .depth = 1};
  }
};

double mean_phase(const ReplayOutcome& outcome) {
  double sum = 0;
  for (const ReplayedPhase& phase : outcome.phases) sum += seconds(phase.duration());
  return sum / static_cast<double>(outcome.phases.size());
}

TEST(Replay, OfTheRecordedPolicyOnTheSameDeviceIsTheRecording) {
  const Trace trace =
      Recorded::of({{.application = 1, .start = 0s, .phases = 3, .operations = 50},
                    {.application = 2, .start = 10ms, .phases = 3, .operations = 20, .size = Bytes(4 << 20)},
                    {.application = 3, .start = 5ms, .phases = 5, .operations = 2}});
  const auto outcome = replay(trace, Recorded::options("fifo"));
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_THAT(outcome->phases, SizeIs(11));
  for (const ReplayedPhase& phase : outcome->phases) {
    ASSERT_TRUE(phase.recorded);
    EXPECT_NEAR(seconds(phase.duration()), seconds(*phase.recorded), 1e-6) << phase.application << " " << phase.number;
  }
}

TEST(Replay, TellsWhoSlowedWhom) {
  // Application 1 keeps 64 requests waiting; application 2 issues one at a time among them.
  Trace trace{.files = {"a"}, .requests = {}};
  for (std::uint32_t i = 0; i < 64; ++i)
    trace.requests.push_back(
        {.application = 1, .offset = std::uint64_t{i} << 20, .length = Bytes(1 << 20), .process = i});
  for (std::uint32_t i = 0; i < 4; ++i)
    trace.requests.push_back({.time = (i + 1) * 1us, .application = 2, .length = Bytes(1 << 20), .process = 100 + i});
  const auto fifo = replay(trace, Recorded::options("fifo"));
  ASSERT_TRUE(fifo);
  ASSERT_FALSE(fifo->delays.empty());
  EXPECT_EQ(fifo->delays[0].application, 2u);
  EXPECT_EQ(fifo->delays[0].by, 1u);
  EXPECT_NEAR(seconds(fifo->delays[0].time), 64 * 0.00115, 0.003);
  EXPECT_FALSE(fifo->phases[0].recorded);
}

TEST(Replay, AnotherPolicyChangesWhatLaterRequestsWaitFor) {
  // A large job and a small one meet in every phase; concert serves the small one first once sizes are known.
  const Trace trace =
      Recorded::of({{.application = 1, .start = 0s, .phases = 6, .operations = 1, .size = Bytes(400 << 20)},
                    {.application = 2, .start = 1ms, .phases = 6, .operations = 100}});
  const auto fifo = replay(trace, Recorded::options("fifo"));
  ASSERT_TRUE(fifo);
  for (const std::string policy : {"window", "concert", "mlf", "aioli", "hbrr", "sjf", "to", "fair"}) {
    const auto other = replay(trace, Recorded::options(policy));
    ASSERT_TRUE(other) << policy << ": " << other.error().message;
    EXPECT_THAT(other->phases, SizeIs(fifo->phases.size())) << policy;
    EXPECT_LT(mean_phase(*other), 3 * mean_phase(*fifo)) << policy;
  }
}

TEST(Replay, RowsThatEndWhenTheNextStartsAreAClosedLoop) {
  Trace trace{.files = {"a"}, .requests = {}};
  for (int i = 0; i < 10; ++i)  // resolution of 1 ms; the last has no duration
    trace.requests.push_back(
        {.time = std::min(i, 8) * 1ms, .application = 1, .length = Bytes(1000), .completed = std::min(i + 1, 8) * 1ms});
  const auto outcome = replay(trace, {.policy = {}, .device = FixedFigures{10ms, 0}, .depth = 4});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->makespan, 100ms);
}

// A row over two OSTs is served by both at once, and the next row of the process waits for the slower one.
TEST(Replay, RowsOfDarshanAreServedByAllTheirOsts) {
  constexpr std::string_view kLog =
      "# DXT, file_id: 1, file_name: /a\n"
      "# DXT, Lustre stripe_size: 1000000, Lustre stripe_count: 2\n"
      "# DXT, Lustre OST obdidx: 5 6\n"
      " X_POSIX 0 write 0 0 1500000 0.1 0.2 [  5] [  6]\n"
      " X_POSIX 0 write 1 2000000 2000000 0.2 0.3 [  5] [  6]\n";
  const auto duration = [&](trace::DxtRows rows) {
    const auto recording = trace::parse_dxt(kLog, "log", trace::Names::kPaths, rows);
    const auto outcome = replay(recording->trace, Recorded::options("fifo"));
    return outcome->phases.at(0).duration();
  };
  EXPECT_EQ(duration(trace::DxtRows::kSplit), 2 * (100us + 1000us));
  EXPECT_EQ(duration(trace::DxtRows::kWhole), 100us + 1500us + 100us + 2000us);
}

TEST(Replay, WorksWithoutRequestsAndReportsUnknownPolicies) {
  const auto empty = replay({}, Recorded::options("fifo"));
  ASSERT_TRUE(empty);
  EXPECT_THAT(empty->phases, IsEmpty());
  const Trace trace = Recorded::of({{.application = 1, .start = 0s}});
  EXPECT_THAT(replay(trace, Recorded::options("nonesuch")).error().message, HasSubstr("nonesuch"));
}

TEST(Calibration, FindsTheDeviceOfTheRecording) {
  const Trace trace =
      Recorded::of({{.application = 1, .start = 0s, .phases = 20, .operations = 50, .size = Bytes(64 << 10)},
                    {.application = 2, .start = 10s, .phases = 20, .operations = 20, .size = Bytes(4 << 20)},
                    {.application = 3, .start = 10ms, .phases = 20, .operations = 20, .compute = 700ms}});
  for (const CalibrateOn on : {CalibrateOn::kAllPhases, CalibrateOn::kEvenPhases}) {
    const auto found = calibrate(trace, trace::kDefaultGap, on);
    ASSERT_TRUE(found);
    EXPECT_NEAR(seconds(found->device.latency), 100e-6, 20e-6);
    EXPECT_NEAR(found->device.bandwidth, 1e9, 0.05e9);
  }
  EXPECT_FALSE(calibrate({}, trace::kDefaultGap, CalibrateOn::kAllPhases));
}

// A device that the replay does not know, with latencies that overlap and a network: calibrated on every second phase,
// the others take as long as they did.
TEST(Calibration, PhasesThatItHasNotSeenAreWithin15Percent) {
  for (const auto& [device, darshan] : {std::pair{"ssd-2010", false},
                                        {"nvme", false},
                                        {"hdd-7200", false},
                                        {"ssd-2010", true},
                                        {"hdd-7200", true}}) {  // true: with Darshan's resolution
    Scenario scenario;
    scenario.servers = {.count = 1, .device = *device_preset(device), .depth = 4};
    scenario.network.jitter = 100us;
    for (const unsigned operations : {20u, 60u}) {
      Application application;
      application.name = "job";
      application.ranks = 4;
      application.iterations = 60;
      application.operations = operations;
      application.size = Bytes(256 << 10);
      application.variation = 0.3;
      application.compute = std::chrono::milliseconds(300 + 7 * operations);
      application.direction = Direction::kWrite;
      scenario.applications.push_back(application);
    }
    const auto recorded = run(scenario, {.traces = true});
    ASSERT_TRUE(recorded);
    Trace trace = recorded->traces.front();
    if (darshan)
      for (TraceRequest& request : trace.requests)
        request.time = request.time / 100us * 100us, request.completed = request.completed / 100us * 100us;
    const auto half = calibrate(trace, trace::kDefaultGap, CalibrateOn::kEvenPhases);
    ASSERT_TRUE(half) << device;
    const auto outcome = replay(trace, {.policy = {.name = "fifo"}, .device = half->device, .depth = 4});
    ASSERT_TRUE(outcome);
    double then = 0, now = 0;
    for (const ReplayedPhase& phase : outcome->phases)
      if (phase.number % 2 == 1 && phase.recorded) then += seconds(*phase.recorded), now += seconds(phase.duration());
    ASSERT_GT(then, 0);
    EXPECT_NEAR(now / then, 1, 0.15) << device;
  }
}

}  // namespace
}  // namespace tutti::sim
