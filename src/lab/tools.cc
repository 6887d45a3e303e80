// SPDX-License-Identifier: Apache-2.0
#include "lab/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <numeric>
#include <thread>

#include "lab/live.h"

namespace tutti::lab {

using namespace std::chrono_literals;

void run_all(const std::vector<std::function<void()>>& tasks) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < tasks.size(); i = next++) tasks[i]();
  };
  std::vector<std::thread> threads;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < std::min(cores, tasks.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

Result<sim::MeasuredRun> measure(Mode mode, const Scenario& scenario, const Repeat& repeat, std::size_t seed) {
  sim::MeasureOptions options;
  options.full = mode == Mode::kFull;
  options.slowdown = repeat.slowdown;
  if (repeat.alone) options.alone = (*repeat.alone)[seed];
  options.bound = repeat.bound;
  options.finishes = static_cast<bool>(repeat.inspect);
  if (mode == Mode::kLive)
    options.run = [&](const Scenario& each, const sim::RunOptions& how) {
      return run_live(each, {.slow_motion = repeat.slow_motion, .demands = how.demands});
    };
  auto measured = sim::measure(scenario, options);
  if (measured && measured->metrics.failed_operations > 0)
    return fail(ErrorCode::kIo,
                fmt::format("{}: {} operations failed", scenario.name, measured->metrics.failed_operations));
  return measured;
}

Result<Averages> average(Mode mode, const std::function<Scenario(std::uint64_t seed)>& make, const Repeat& repeat) {
  std::vector<Result<sim::Metrics>> runs(repeat.seeds, fail(ErrorCode::kStopped, "did not run"));
  std::vector<std::function<void()>> tasks;
  Averages sum;
  for (unsigned i = 0; i < repeat.seeds; ++i)
    tasks.push_back([&, i] {
      auto measured = measure(mode, make(repeat.first + i), repeat, i);
      if (!measured) {
        runs[i] = Failure(measured.error());
        return;
      }
      if (repeat.inspect) repeat.inspect(i, *measured);
      runs[i] = std::move(measured->metrics);
      if (i == 0) sum.timeline = std::move(measured->outcome.timeline);
    });
  if (mode == Mode::kLive)
    for (const auto& task : tasks) task();
  else
    run_all(tasks);
  const double share = 1.0 / repeat.seeds;
  for (const auto& run : runs) {
    if (!run) return Failure(run.error());
    sum.operation += run->operation.mean * share;
    sum.operation_p99 += run->operation.p99 * share;
    sum.phase += run->phase.mean * share;
    sum.phases.push_back(run->phase.mean);
    sum.makespans.push_back(run->makespan);
    sum.operations.push_back(run->operation.mean);
    sum.io_times.push_back(run->io_time);
    sum.slowdowns.push_back(run->slowdown);
    sum.bandwidths.push_back(run->bandwidth);
    sum.deviations.push_back(run->phase_deviation);
    sum.bounds.push_back(run->bound);
    sum.first_servers.push_back(run->first_server);
    sum.last_servers.push_back(run->last_server);
    sum.phase_max += run->phase.max * share;
    sum.phase_deviation += run->phase_deviation * share;
    sum.last_over_first += run->last_over_first * share;
    sum.first_server += run->first_server * share;
    sum.last_server += run->last_server * share;
    sum.makespan += run->makespan * share;
    sum.bandwidth += run->bandwidth * share;
    sum.slowdown += run->slowdown * share;
    sum.fairness += run->fairness * share;
    sum.io_time += run->io_time * share;
    sum.bound += run->bound * share;
    sum.mean_batch += run->mean_batch * share;
    auto& alone = sum.alone.emplace_back();
    for (const sim::ApplicationMetrics& application : run->applications) alone.push_back(application.alone);
  }
  return sum;
}

namespace {

// The 97.5% quantile of Student's distribution.
double student(std::size_t freedom) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
  return freedom <= std::size(kTable) ? kTable[freedom - 1] : 1.96 + 2.5 / static_cast<double>(freedom);
}

}  // namespace

double sum_of(const std::vector<double>& values, WithoutSeed without) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return without ? sum - values[*without] : sum;
}

double mean_of(const std::vector<double>& values, WithoutSeed without) {
  return sum_of(values, without) / static_cast<double>(values.size() - (without ? 1 : 0));
}

ValueWithInterval jackknife(std::size_t seeds, const std::function<double(WithoutSeed)>& of) {
  ValueWithInterval estimate{of({})};
  if (seeds < 3) return estimate;
  std::vector<double> without;
  for (std::size_t i = 0; i < seeds; ++i) without.push_back(of(i));
  const auto size = static_cast<double>(seeds);
  const double mean = sum_of(without) / size;
  double squares = 0;
  for (const double each : without) squares += (each - mean) * (each - mean);
  estimate.interval = student(seeds - 1) * std::sqrt(squares * (size - 1) / size);
  return estimate;
}

ValueWithInterval ratio_over_seeds(const std::vector<double>& ours, const std::vector<double>& baseline) {
  assert(ours.size() == baseline.size() && !ours.empty());
  if (sum_of(baseline) <= 0) return {};
  return jackknife(ours.size(), [&](WithoutSeed without) { return sum_of(ours, without) / sum_of(baseline, without); });
}

ValueWithInterval reduction_over_seeds(const std::vector<double>& baseline, const std::vector<double>& ours) {
  ValueWithInterval ratio = ratio_over_seeds(ours, baseline);
  ratio.value = 100 * (1 - ratio.value);
  if (ratio.interval) *ratio.interval *= 100;
  return ratio;
}

Claim with(Claim claim, const ValueWithInterval& estimate) {
  claim.ours = estimate.value;
  claim.interval = estimate.interval;
  return claim;
}

std::string describe(Mode mode, const std::string& live) {
  if (mode == Mode::kFast) return "";
  return mode == Mode::kFull ? "; production clients and nodes in virtual time"
                             : "; node and client processes, " + live;
}

void say(const LabOptions& options, const std::string& line) {
  if (options.progress) options.progress(line);
}

Scenario sc11_cluster(bool flash, unsigned servers, unsigned depth, Bytes spread) {
  Scenario scenario;
  scenario.servers.count = servers;
  scenario.servers.depth = depth;
  scenario.servers.device = *device_preset(flash ? "ssd-2010" : "hdd-7200");
  scenario.servers.spread = spread;
  scenario.network.latency = flash ? 20us : 60us;
  scenario.network.jitter = flash ? 50us : 400us;
  scenario.network.client_bandwidth = scenario.network.server_bandwidth = 2e9;  // 4X InfiniBand, double data rate
  return scenario;
}

Scenario ethernet_disks(unsigned depth, std::uint64_t seed) {
  Scenario scenario;
  scenario.seed = seed;
  scenario.servers = {.count = 4, .device = *device_preset("hdd-7200"), .depth = depth};
  scenario.servers.spread = Bytes(20'000'000'000);
  scenario.servers.request_cost = 100us;
  scenario.servers.read_ahead = Bytes(128 << 10);
  scenario.servers.write_back = true;
  scenario.network.latency = 60us;
  scenario.network.jitter = 300us;
  scenario.network.client_bandwidth = scenario.network.server_bandwidth = 125e6;
  return scenario;
}

}  // namespace tutti::lab
