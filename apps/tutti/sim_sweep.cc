// SPDX-License-Identifier: Apache-2.0
// tutti sim sweep: every policy against fifo on random scenarios.
#include "sim_sweep.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/print_error.h"
#include "base/table.h"
#include "lab/sweep.h"
#include "sched/policy.h"
#include "sim/random_scenario.h"

namespace tutti::cli {
namespace {

struct SweepArguments {
  lab::SweepOptions options;
  std::string keep;
  std::optional<std::uint64_t> show;
  bool json = false;
};

Json as_json(const lab::SweepRatios& ratios) {
  return {{"mean", ratios.mean},
          {"p99", ratios.p99},
          {"makespan", ratios.makespan},
          {"worst_slowdown", ratios.worst_slowdown},
          {"latest_end", ratios.latest_end}};
}

void print_json(const SweepArguments& arguments, const std::vector<lab::SweepRow>& rows,
                const std::vector<lab::SweepSummary>& summaries) {
  Json list = Json::array();
  for (const lab::SweepSummary& summary : summaries)
    list.push_back({{"policy", summary.policy},
                    {"device", summary.disk ? "disk" : "flash"},
                    {"scenarios", summary.scenarios},
                    {"contended", summary.contended},
                    {"contended_mean", summary.contended_mean},
                    {"losses", summary.losses},
                    {"percentile95", as_json(summary.percentile95)},
                    {"worst", as_json(summary.worst)},
                    {"worst_scenario", summary.worst_scenario},
                    {"latest_scenario", summary.latest_scenario}});
  Json scenarios = Json::array();
  for (const lab::SweepRow& row : rows) {
    Json policies = Json::object();
    for (std::size_t i = 0; i < row.ratios.size(); ++i)
      policies[arguments.options.policies[i]] = as_json(row.ratios[i]);
    scenarios.push_back({{"number", row.number},
                         {"device", row.disk ? "disk" : "flash"},
                         {"contention", row.contention},
                         {"noise", as_json(row.noise)},
                         {"policies", policies}});
  }
  fmt::print("{}\n", Json({{"seed", arguments.options.seed}, {"summaries", list}, {"scenarios", scenarios}}).dump(2));
}

void print_table(const SweepArguments& arguments, const std::vector<lab::SweepSummary>& summaries) {
  fmt::print(
      "{} random scenarios of seed {}, ratios to fifo (below 1: better); p95: 95th percentile over scenarios\n\n",
      arguments.options.scenarios, arguments.options.seed);
  Table table({"device", "policy", "scenarios", "contended", "mean there", "losses > 2%", "mean p95", "p99 p95",
               "makespan p95", "slowdown p95", "latest end p95", "worst mean", "latest end"});
  for (const lab::SweepSummary& summary : summaries)
    table.add({summary.disk ? "disk" : "flash", summary.policy, fmt::format("{}", summary.scenarios),
               fmt::format("{}", summary.contended), fmt::format("{:.3f}", summary.contended_mean),
               fmt::format("{:.1f}%", 100 * summary.losses), fmt::format("{:.3f}", summary.percentile95.mean),
               fmt::format("{:.3f}", summary.percentile95.p99), fmt::format("{:.3f}", summary.percentile95.makespan),
               fmt::format("{:.3f}", summary.percentile95.worst_slowdown),
               fmt::format("{:.3f}", summary.percentile95.latest_end),
               fmt::format("{:.3f} (#{})", summary.worst.mean, summary.worst_scenario),
               fmt::format("{:.3f} (#{})", summary.worst.latest_end, summary.latest_scenario)});
  fmt::print("{}", table.text());
}

// Writes the scenarios in which a policy was worst.
int keep_worst(const SweepArguments& arguments, const std::vector<lab::SweepSummary>& summaries) {
  std::error_code error;
  std::filesystem::create_directories(arguments.keep, error);
  if (error) return report({ErrorCode::kIo, fmt::format("{}: {}", arguments.keep, error.message())});
  for (const lab::SweepSummary& summary : summaries) {
    if (summary.scenarios == 0) continue;
    for (const auto& [what, number] : {std::pair{"mean", summary.worst_scenario}, {"end", summary.latest_scenario}}) {
      const std::string path = fmt::format("{}/{}-{}-{}-{}-{}.toml", arguments.keep, summary.policy.substr(0, 7),
                                           summary.disk ? "disk" : "flash", what, arguments.options.seed, number);
      std::ofstream file(path);
      file << sim::random_scenario(arguments.options.seed, number);
      file.close();
      if (!file) return report({ErrorCode::kIo, fmt::format("{}: cannot be written", path)});
    }
  }
  print_error("the worst scenarios are in {}\n", arguments.keep);
  return kDone;
}

int run_sweep(SweepArguments& arguments) {
  if (arguments.show) {
    fmt::print("{}", sim::random_scenario(arguments.options.seed, *arguments.show));
    return kDone;
  }
  if (arguments.options.policies.empty())
    for (const PolicyInfo& policy : policies())
      if (policy.name != "fifo") arguments.options.policies.push_back(policy.name);
  const auto begin = std::chrono::steady_clock::now();
  auto last = begin;
  bool shown = false;
  arguments.options.progress = [&](std::uint64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (now - begin < std::chrono::seconds(2) || now - last < std::chrono::seconds(1)) return;
    last = now;
    shown = true;
    print_error("\r{} of {} scenarios ", done, arguments.options.scenarios);
    std::fflush(stderr);
  };
  const auto rows = lab::sweep(arguments.options);
  if (shown) print_error("\n");
  if (!rows) return report(rows.error());
  const std::vector<lab::SweepSummary> summaries = lab::summarize(*rows, arguments.options.policies);
  arguments.json ? print_json(arguments, *rows, summaries) : print_table(arguments, summaries);
  return arguments.keep.empty() ? kDone : keep_worst(arguments, summaries);
}

}  // namespace

Command sim_sweep_command() {
  return {"sweep",
          "Run random scenarios under several policies and compare each with fifo. Seed and number determine a "
          "scenario. The rows 'fifo, other delays' show how much chance alone changes",
          [](CommandLine& line) {
            auto arguments = std::make_shared<SweepArguments>();
            line.option("--seed", arguments->options.seed, "Seed of the scenarios");
            line.option("--scenarios", arguments->options.scenarios, "Number of scenarios").between(1, 1'000'000);
            line.option("--first", arguments->options.first, "Number of the first scenario, e.g. to repeat one");
            line.option("--policies", arguments->options.policies, "Names of policies (default: all)")
                .separated_by_commas();
            line.option("--set", arguments->options.assignments,
                        "Change a value of every scenario, e.g. servers.depth=4; may be repeated");
            line.option("--show", arguments->show, "Only print the scenario with this number, as a scenario file");
            line.option("--keep", arguments->keep, "Write the worst scenarios of each policy to this directory");
            line.json(arguments->json);
            line.action([arguments] { return run_sweep(*arguments); });
          }};
}

}  // namespace tutti::cli
