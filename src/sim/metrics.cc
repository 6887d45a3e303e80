// SPDX-License-Identifier: Apache-2.0
#include "sim/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "base/units.h"
#include "sim/bound.h"

namespace tutti::sim {
namespace {

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Jain: 1 if all are equal, 1/n if one gets everything.
double jain(const std::vector<double>& shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) sum += share, squares += share * share;
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 0;
}

Result<Outcome> run_with(const MeasureOptions& options, const Scenario& scenario, const RunOptions& how) {
  return options.run ? options.run(scenario, how) : run(scenario, how);
}

// Mean phase of each application when it runs alone.
Result<std::vector<double>> alone_times(const Scenario& scenario, const MeasureOptions& options) {
  const auto key = [](const Application& a) {
    return std::make_tuple(a.ranks, a.ranks_per_node, a.operations, a.size.count(), a.largest_request.count(),
                           a.block.count(), a.gap.count(), a.think.count(), a.outstanding, a.direction, a.pattern,
                           a.barrier, a.file_per_process, a.separate_requests, a.stripe_size.count(), a.stripe_count);
  };
  std::map<decltype(key(scenario.applications.front())), double> known;
  std::vector<double> times;
  for (const Application& application : scenario.applications) {
    const auto found = known.find(key(application));
    if (found != known.end()) {
      times.push_back(found->second);
      continue;
    }
    Scenario alone = scenario;
    alone.applications = {application};
    alone.applications.front().iterations = 1;
    alone.applications.front().variation = 0;
    alone.applications.front().start = Duration{};
    alone.applications.front().compute = Duration{};
    alone.faults.clear();
    alone.gate = Gate{};
    alone.servers.policy = PolicyChoice{};
    alone.forwarding.policy = PolicyChoice{};
    auto outcome = run_with(options, alone, {.full = options.full, .demands = false, .operation_records = false});
    if (!outcome) return Failure(outcome.error());
    times.push_back(outcome->phases.empty() ? 0 : seconds(outcome->phases.front().end - outcome->phases.front().begin));
    known[key(application)] = times.back();
  }
  return times;
}

void measure_operations(const Outcome& outcome, Metrics& metrics) {
  std::vector<double> completions, first, last, ratios;
  for (const OperationRecord& operation : outcome.operations) {
    completions.push_back(seconds(operation.completed - operation.issued));
    if (operation.last_server == Duration{}) continue;
    first.push_back(seconds(operation.first_server - operation.issued));
    last.push_back(seconds(operation.last_server - operation.issued));
    if (first.back() > 0) ratios.push_back(last.back() / first.back());
  }
  metrics.first_server = mean(first);
  metrics.last_server = mean(last);
  metrics.last_over_first = mean(ratios);
  metrics.operation = distribution(std::move(completions));
}

void measure_applications(const Scenario& scenario, const Outcome& outcome, const std::vector<double>& alone,
                          Metrics& metrics) {
  std::vector<std::vector<double>> phases(scenario.applications.size());
  std::vector<double> bytes(scenario.applications.size(), 0), all, slowdowns, shares, deviations, io_times;
  for (const PhaseRecord& phase : outcome.phases) {
    all.push_back(seconds(phase.end - phase.begin));
    phases[phase.application].push_back(all.back());
    bytes[phase.application] += static_cast<double>(phase.bytes.count());
    if (!alone.empty() && alone[phase.application] > 0) slowdowns.push_back(all.back() / alone[phase.application]);
  }
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Distribution its = distribution(phases[i]);
    ApplicationMetrics application{.name = scenario.applications[i].name, .phases = its.count, .mean_phase = its.mean};
    application.phase_deviation = its.mean > 0 ? its.deviation / its.mean : 0;
    application.alone = alone.empty() ? 0 : alone[i];
    application.slowdown = application.alone > 0 ? its.mean / application.alone : 0;
    application.end = seconds(outcome.application_end[i]);
    application.mebibytes = bytes[i] / (1 << 20);
    if (its.count > 0) {
      deviations.push_back(application.phase_deviation);
      io_times.push_back(its.mean * static_cast<double>(its.count));
      if (application.slowdown > 0) shares.push_back(1 / application.slowdown);
    }
    metrics.applications.push_back(std::move(application));
  }
  metrics.phase = distribution(std::move(all));
  metrics.phase_deviation = mean(deviations);
  metrics.io_time = mean(io_times);
  metrics.slowdown = mean(slowdowns);
  for (const double slowdown : slowdowns) metrics.worst_slowdown = std::max(metrics.worst_slowdown, slowdown);
  metrics.fairness = jain(shares);
}

// Whether no schedule can beat the bound: the starts and demands of phases must not depend on the schedule. In a closed
// loop a phase starts when the one before has ended, read-ahead serves bytes that were not requested, and after a
// timeout bytes are not served.
bool bound_applies(const Scenario& scenario) {
  return scenario.timeout == Duration::zero() && scenario.servers.read_ahead == Bytes{} &&
         std::ranges::all_of(scenario.applications, [](const Application& each) { return each.iterations == 1; });
}

void measure_bound(const Scenario& scenario, const Outcome& outcome, Metrics& metrics) {
  std::vector<ShopJob> jobs;
  for (const PhaseRecord& phase : outcome.phases) {
    ShopJob job{.release = seconds(phase.begin), .demand = {}};
    const Direction direction = scenario.applications[phase.application].direction;
    const bool in_memory =
        direction == Direction::kWrite && scenario.servers.write_back;  // the device may be idle then
    for (const Bytes bytes : phase.demand)
      job.demand.push_back(in_memory ? 0 : seconds(floor_time(scenario.servers.device, bytes, direction)));
    jobs.push_back(std::move(job));
  }
  const ShopBound bound = open_shop_bound(jobs);
  metrics.bound = bound.mean_flow;
  metrics.bound_kind = bound.which;
}

}  // namespace

Distribution distribution(std::vector<double> values) {
  Distribution result;
  result.count = values.size();
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size()))) - 1];
  };
  result.mean = mean(values);
  result.median = at(0.5);
  result.p99 = at(0.99);
  result.max = values.back();
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return result;
}

Result<MeasuredRun> measure(const Scenario& scenario, const MeasureOptions& options) {
  auto outcome = run_with(options, scenario,
                          {.full = options.full,
                           .demands = options.bound,
                           .operation_records = true,
                           .finishes = options.finishes,
                           .progress = options.progress});
  if (!outcome) return Failure(outcome.error());
  if (!outcome->stuck.empty()) {
    std::string message = fmt::format("{} cannot finish:", scenario.name);
    for (std::size_t i = 0; i < outcome->stuck.size() && i < 10; ++i) message += "\n  " + outcome->stuck[i];
    if (outcome->stuck.size() > 10) message += fmt::format("\n  and {} more", outcome->stuck.size() - 10);
    return fail(ErrorCode::kTimeout, message);
  }
  std::vector<double> alone = options.alone;
  if (options.slowdown && alone.empty()) {
    auto times = alone_times(scenario, options);
    if (!times) return Failure(times.error());
    alone = std::move(*times);
  }
  MeasuredRun measured;
  Metrics& metrics = measured.metrics;
  metrics.failed_operations = outcome->failed_operations;
  metrics.makespan = seconds(outcome->makespan);
  metrics.bandwidth = metrics.makespan > 0 ? static_cast<double>(outcome->bytes.count()) / metrics.makespan : 0;
  metrics.mean_batch =
      outcome->batches ? static_cast<double>(outcome->batched_requests) / static_cast<double>(outcome->batches) : 0;
  measure_operations(*outcome, metrics);
  measure_applications(scenario, *outcome, alone, metrics);
  if (options.bound && bound_applies(scenario)) measure_bound(scenario, *outcome, metrics);
  double busy = 0;
  for (const Duration time : outcome->server_busy) busy += seconds(time);
  const double possible = metrics.makespan * static_cast<double>(outcome->server_busy.size());
  metrics.idle = possible > 0 ? std::max(0.0, 1 - busy / possible) : 0;
  measured.outcome = std::move(*outcome);
  return measured;
}

}  // namespace tutti::sim
