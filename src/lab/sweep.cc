// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/units.h"
#include "lab/tools.h"
#include "sim/random_scenario.h"
#include "sim/scenario_file.h"

namespace tutti::lab {
namespace {

constexpr double kContended = 1.2;
constexpr double kLoss = 1.02;

double ratio(double ours, double theirs) {
  return theirs > 0 ? ours / theirs : 1;
}

// A run of one scenario, with what the ratios need.
struct SweepRun {
  sim::Distribution phase;
  double makespan = 0;
  double worst_slowdown = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> ends;  // by application and iteration
};

// The phase of each application alone, in seconds.
using AloneTimes = std::vector<double>;

SweepRun evaluate(const Scenario& scenario, const sim::Outcome& outcome, const AloneTimes& alone) {
  SweepRun result;
  std::vector<double> phases;
  for (const sim::PhaseRecord& phase : outcome.phases) {
    phases.push_back(seconds(phase.end - phase.begin));
    const double slowdown = ratio(phases.back(), alone[phase.application]);
    result.worst_slowdown = std::max(result.worst_slowdown, slowdown);
    result.ends[{phase.application, phase.iteration}] =
        seconds(phase.end - scenario.applications[phase.application].start);
  }
  result.phase = sim::distribution(std::move(phases));
  result.makespan = seconds(outcome.makespan);
  return result;
}

SweepRatios compare(const SweepRun& ours, const SweepRun& fifo) {
  SweepRatios result{.mean = ratio(ours.phase.mean, fifo.phase.mean),
                     .p99 = ratio(ours.phase.p99, fifo.phase.p99),
                     .makespan = ratio(ours.makespan, fifo.makespan),
                     .worst_slowdown = ratio(ours.worst_slowdown, fifo.worst_slowdown),
                     .latest_end = 0};
  for (const auto& [phase, end] : fifo.ends) {
    const auto found = ours.ends.find(phase);
    if (found != ours.ends.end()) result.latest_end = std::max(result.latest_end, ratio(found->second, end));
  }
  return result;
}

Result<sim::Outcome> run_checked(const Scenario& scenario, std::uint64_t jitter) {
  auto outcome = sim::run(scenario, {.jitter = jitter, .operation_records = false});
  if (outcome && !outcome->stuck.empty())
    return fail(ErrorCode::kTimeout, fmt::format("does not finish: {}", outcome->stuck.front()));
  return outcome;
}

Result<AloneTimes> alone_times(const Scenario& scenario) {
  AloneTimes result;
  for (const Application& application : scenario.applications) {
    Scenario alone = scenario;
    alone.applications = {application};
    alone.applications.front().iterations = 1;
    alone.applications.front().start = alone.applications.front().compute = Duration{};
    alone.faults.clear();
    const auto outcome = run_checked(alone, 0);
    if (!outcome) return Failure(outcome.error());
    const sim::PhaseRecord& phase = outcome->phases.front();
    result.push_back(seconds(phase.end - phase.begin));
  }
  return result;
}

Result<SweepRow> run_scenario(const SweepOptions& options, std::uint64_t number) {
  const std::string text = sim::random_scenario(options.seed, number);
  SweepRow row{.number = number};
  const auto with = [&](const std::string& policy) {
    return sim::parse_scenario(text, fmt::format("random scenario {}", number),
                               {.policy = policy, .assignments = options.assignments});
  };
  const auto fifo_scenario = with("fifo");
  if (!fifo_scenario) return Failure(fifo_scenario.error());
  row.disk = std::holds_alternative<HddFigures>(fifo_scenario->servers.device);
  const auto alone = alone_times(*fifo_scenario);
  if (!alone) return Failure(alone.error());
  const auto measured = [&](const Scenario& scenario, std::uint64_t jitter) -> Result<SweepRun> {
    const auto outcome = run_checked(scenario, jitter);
    if (!outcome) return Failure(outcome.error());
    return evaluate(scenario, *outcome, *alone);
  };
  const auto fifo = measured(*fifo_scenario, 0);
  if (!fifo) return Failure(fifo.error());
  double sum = 0;
  for (const auto& [phase, end] : fifo->ends) sum += (*alone)[phase.first];
  row.contention = ratio(fifo->phase.mean * static_cast<double>(fifo->phase.count), sum);
  const auto noise = measured(*fifo_scenario, 1);
  if (!noise) return Failure(noise.error());
  row.noise = compare(*noise, *fifo);
  for (const std::string& policy : options.policies) {
    const auto scenario = with(policy);
    if (!scenario) return Failure(scenario.error());
    const auto ours = measured(*scenario, 0);
    if (!ours) return fail(ours.error().code, fmt::format("{}: {}", policy, ours.error().message));
    row.ratios.push_back(compare(*ours, *fifo));
  }
  return row;
}

using Ratio = double SweepRatios::*;
constexpr Ratio kRatios[] = {&SweepRatios::mean, &SweepRatios::p99, &SweepRatios::makespan,
                             &SweepRatios::worst_slowdown, &SweepRatios::latest_end};

// One policy's ratios in the rows of one device class.
SweepSummary summarize_one(const std::vector<const SweepRow*>& rows,
                           const std::function<const SweepRatios&(const SweepRow&)>& of) {
  SweepSummary result;
  result.scenarios = rows.size();
  double logarithms = 0, losses = 0;
  result.worst = {0, 0, 0, 0, 0};
  for (const SweepRow* row : rows) {
    const SweepRatios& its = of(*row);
    losses += its.mean > kLoss;
    if (its.mean > result.worst.mean) result.worst_scenario = row->number;
    if (its.latest_end > result.worst.latest_end) result.latest_scenario = row->number;
    for (const Ratio each : kRatios) result.worst.*each = std::max(result.worst.*each, its.*each);
    if (row->contention < kContended) continue;
    ++result.contended;
    logarithms += std::log(its.mean);
  }
  for (const Ratio each : kRatios) {
    std::vector<double> values;
    for (const SweepRow* row : rows) values.push_back(of(*row).*each);
    std::sort(values.begin(), values.end());
    const auto at = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(values.size())));
    if (!values.empty()) result.percentile95.*each = values[at - 1];
  }
  if (result.contended > 0) result.contended_mean = std::exp(logarithms / static_cast<double>(result.contended));
  if (!rows.empty()) result.losses = losses / static_cast<double>(rows.size());
  return result;
}

}  // namespace

Result<std::vector<SweepRow>> sweep(const SweepOptions& options) {
  std::vector<Result<SweepRow>> results(options.scenarios, fail(ErrorCode::kStopped, "did not run"));
  std::vector<std::function<void()>> tasks;
  std::mutex mutex;
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < options.scenarios; ++i)
    tasks.push_back([&, i] {
      results[i] = run_scenario(options, options.first + i);
      std::lock_guard lock(mutex);
      ++done;
      if (options.progress) options.progress(done);
    });
  run_all(tasks);
  std::vector<SweepRow> rows;
  for (std::uint64_t i = 0; i < options.scenarios; ++i) {
    if (!results[i])
      return fail(results[i].error().code, fmt::format("random scenario {} of seed {}: {}", options.first + i,
                                                       options.seed, results[i].error().message));
    rows.push_back(std::move(*results[i]));
  }
  return rows;
}

std::vector<SweepSummary> summarize(const std::vector<SweepRow>& rows, const std::vector<std::string>& policies) {
  std::vector<SweepSummary> result;
  for (const bool disk : {true, false}) {
    std::vector<const SweepRow*> its;
    for (const SweepRow& row : rows)
      if (row.disk == disk) its.push_back(&row);
    const auto add = [&](const std::string& policy, const std::function<const SweepRatios&(const SweepRow&)>& of) {
      result.push_back(summarize_one(its, of));
      result.back().policy = policy;
      result.back().disk = disk;
    };
    add("fifo, other delays", [](const SweepRow& row) -> const SweepRatios& { return row.noise; });
    for (std::size_t i = 0; i < policies.size(); ++i)
      add(policies[i], [i](const SweepRow& row) -> const SweepRatios& { return row.ratios[i]; });
  }
  return result;
}

}  // namespace tutti::lab
