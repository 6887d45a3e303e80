// SPDX-License-Identifier: Apache-2.0
#include "sim/write_cache.h"

#include <gtest/gtest.h>

#include "sim/metrics.h"
#include "sim/scenario_file.h"

namespace tutti::sim {
namespace {

TEST(WriteCache, WritesGetRoomInOrderOfArrival) {
  WriteCache cache(Bytes(100));
  cache.add({1, 0, Bytes(60)});
  cache.add({2, 60, Bytes(60)});
  cache.add({3, 120, Bytes(10)});
  EXPECT_EQ(cache.admit(), 1u);
  EXPECT_EQ(cache.admit(), std::nullopt);  // the third would fit, but is not the next
  const auto first = cache.next_for_device(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->ticket, 1u);
  cache.on_device(first->length);
  EXPECT_EQ(cache.admit(), 2u);
  EXPECT_EQ(cache.admit(), 3u);
  EXPECT_EQ(cache.next_for_device(1)->ticket, 2u);
  EXPECT_FALSE(cache.next_for_device(1));
}

TEST(WriteCache, AWriteLargerThanTheCacheIsAdmittedAlone) {
  WriteCache cache(Bytes(10));
  cache.add({1, 0, Bytes(5)});
  cache.add({2, 5, Bytes(50)});
  EXPECT_EQ(cache.admit(), 1u);
  EXPECT_EQ(cache.admit(), std::nullopt);
  cache.next_for_device(1);
  cache.on_device(Bytes(5));
  EXPECT_EQ(cache.admit(), 2u);
}

// 10 ms per request at the device.
constexpr auto kOneServer = R"(
[servers]
count = 1
depth = 1
device = { kind = "fixed", latency = "10ms" }
[network]
latency = "10us"
[[applications]]
operations = 16
size = "64KiB"
direction = "write"
)";

double io_time(const std::vector<std::string>& assignments) {
  Overrides overrides;
  overrides.assignments = assignments;
  const auto scenario = parse_scenario(kOneServer, "test", overrides);
  EXPECT_TRUE(scenario) << scenario.error().message;
  const auto measured = measure(*scenario, {.slowdown = false, .bound = false});
  EXPECT_TRUE(measured);
  return measured->metrics.io_time;
}

TEST(WriteCache, HidesTheDeviceUntilItIsFull) {
  EXPECT_NEAR(io_time({}), 0.160, 0.005);
  EXPECT_LT(io_time({"servers.write_cache=1MiB"}), 0.005);
  EXPECT_NEAR(io_time({"servers.write_cache=512KiB"}), 0.080, 0.011);  // the device is behind by the last eight
}

constexpr auto kProbes = R"(
[servers]
count = 1
[gate]
kind = "backoff"
[gate.backoff]
data-size = "1MiB"
priming = "0"
probes = 2
probe-pause = "3s"
[[applications]]
operations = 32
size = "64KiB"
direction = "write"
)";

TEST(ScenarioBackoff, AllOptionsAreReadAndProbesMayBeOwnData) {
  auto scenario = parse_scenario(kProbes, "test", {});
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->gate.backoff.data_size, Bytes(1 << 20));
  EXPECT_EQ(scenario->gate.backoff.priming, Bytes{});
  const auto plain = run(*scenario);
  ASSERT_TRUE(plain);
  EXPECT_GE(plain->phases.front().issued, std::chrono::seconds(3));
  EXPECT_EQ(plain->operations.size(), 32u);
  scenario->gate.own_data = true;  // the two probes wrote all of it; one operation is left
  EXPECT_EQ(run(*scenario)->operations.size(), 1u);
  scenario->applications.front().coordinated = false;
  EXPECT_EQ(run(*scenario)->phases.front().issued, Duration{});
}

TEST(ScenarioBackoff, AnOptionThatDoesNotExistIsNamed) {
  Overrides overrides;
  overrides.assignments = {"gate.backoff.size=3MB"};
  const auto scenario = parse_scenario(kProbes, "test", overrides);
  ASSERT_FALSE(scenario);
  EXPECT_NE(scenario.error().message.find("data-size"), std::string::npos) << scenario.error().message;
}

TEST(ScenarioBackoff, WhoHasTheTurnMayProbeFirst) {
  Overrides overrides;
  overrides.assignments = {"gate.kind=lock", "gate.probe=true"};
  const auto scenario = parse_scenario(kProbes, "test", overrides);
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto outcome = run(*scenario);
  ASSERT_TRUE(outcome);
  EXPECT_GE(outcome->phases.front().issued, std::chrono::seconds(3));
}

}  // namespace
}  // namespace tutti::sim
