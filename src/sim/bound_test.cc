// SPDX-License-Identifier: Apache-2.0
#include "sim/bound.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/prng.h"
#include "sim/metrics.h"

namespace tutti::sim {
namespace {

// The best mean over all common orders. One of them is optimal if all jobs are released together.
double best_of_all_orders(const std::vector<ShopJob>& jobs) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), 0);
  double best = 1e300;
  do {
    std::vector<double> load(jobs.front().demand.size(), 0);
    double sum = 0;
    for (const std::size_t j : order) {
      double completion = 0;
      for (std::size_t i = 0; i < load.size(); ++i) {
        load[i] += jobs[j].demand[i];
        if (jobs[j].demand[i] > 0) completion = std::max(completion, load[i]);
      }
      sum += completion;
    }
    best = std::min(best, sum / static_cast<double>(jobs.size()));
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(OpenShopBound, IsExactForEqualJobs) {
  const std::vector<ShopJob> jobs(10, ShopJob{.release = 0, .demand = {2, 2, 2}});
  EXPECT_DOUBLE_EQ(open_shop_bound(jobs).mean_flow, 11);
}

TEST(OpenShopBound, NeverExceedsTheOptimumAndIsAtLeastHalfOfIt) {
  Prng chance(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<ShopJob> jobs(2 + chance.below(5));
    const std::size_t machines = 1 + chance.below(4);
    for (ShopJob& job : jobs)
      for (std::size_t i = 0; i < machines; ++i) job.demand.push_back(chance.chance(0.3) ? 0.0 : chance.pareto(1, 1.2));
    const double optimum = best_of_all_orders(jobs);
    const double bound = open_shop_bound(jobs).mean_flow;
    EXPECT_LE(bound, optimum * (1 + 1e-9));
    EXPECT_GE(bound, optimum / 2 * (1 - 1e-9));
  }
}

TEST(OpenShopBound, LetsShortJobsInterruptLongOnes) {
  const std::vector<ShopJob> jobs = {{.release = 0, .demand = {10}}, {.release = 2, .demand = {1}}};
  EXPECT_DOUBLE_EQ(open_shop_bound(jobs).mean_flow, (11 + 1) / 2.0);
}

// Elsewhere the starts or demands of phases depend on the schedule, and a schedule could beat it.
TEST(OpenShopBound, IsComputedOnlyWhereNoScheduleCanBeatIt) {
  Scenario scenario;
  scenario.servers.count = 2;
  scenario.servers.device = *device_preset("nvme");
  scenario.applications.resize(2);
  const auto bound = [&] { return measure(scenario, {.slowdown = false})->metrics.bound; };
  const double once = bound();
  EXPECT_GT(once, 0);
  EXPECT_LE(once, measure(scenario, {.slowdown = false})->metrics.phase.mean);
  scenario.applications[1].iterations = 2;
  EXPECT_EQ(bound(), 0);
  scenario.applications[1].iterations = 1;
  scenario.timeout = std::chrono::seconds(1);
  EXPECT_EQ(bound(), 0);
  scenario.timeout = {};
  scenario.servers.read_ahead = Bytes(128 << 10);
  EXPECT_EQ(bound(), 0);
}

TEST(MeasureTest, TimesAloneOfAnotherPolicyReplaceRuns) {
  Scenario scenario;
  scenario.servers.device = *device_preset("nvme");
  for (const std::uint64_t size : {1u, 3u, 9u})
    scenario.applications.push_back({.name = fmt::format("of {} MiB", size), .size = Bytes(size << 20)});
  std::size_t runs = 0;
  MeasureOptions options;
  options.run = [&](const Scenario& each, const RunOptions& how) {
    ++runs;
    return run(each, how);
  };
  scenario.servers.policy.name = "concert";
  const Metrics own = measure(scenario, options)->metrics;
  EXPECT_EQ(std::exchange(runs, 0), 4u);
  scenario.servers.policy.name = "fifo";
  const Metrics fifo = measure(scenario, options)->metrics;
  EXPECT_EQ(std::exchange(runs, 0), 4u);
  scenario.servers.policy.name = "concert";
  for (const ApplicationMetrics& application : fifo.applications) options.alone.push_back(application.alone);
  const Metrics given = measure(scenario, options)->metrics;
  EXPECT_EQ(runs, 1u);
  EXPECT_GT(given.slowdown, 1);
  EXPECT_EQ(given.slowdown, own.slowdown);
  EXPECT_EQ(given.fairness, own.fairness);
}

}  // namespace
}  // namespace tutti::sim
