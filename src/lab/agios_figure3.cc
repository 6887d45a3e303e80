// SPDX-License-Identifier: Apache-2.0
// AGIOS (figure 3): what the scheduler of section III loses without aggregations. 6 servers, one application of 40
// processes on 40 nodes. The servers are those of agios-patterns; nothing was fitted to this figure.
#include <fmt/format.h>

#include "lab/agios_model.h"
#include "lab/catalogue.h"

namespace tutti::lab {
namespace {

constexpr unsigned kFigure3Seeds = 10, kFigure3Servers = 6, kFigure3Processes = 40;

struct ServerKind {
  std::string name;
  AgiosServers servers{};
};

std::vector<ServerKind> server_kinds() {
  const AgiosServers base;
  ServerKind as_fitted{"agios-patterns"}, dear{"costs per batch x 4"}, copies{"no cost per byte"}, one{"depth 1"};
  dear.servers.request_cost = 4 * base.request_cost;
  dear.servers.write_cost = 4 * base.write_cost;
  copies.servers.read_bandwidth = copies.servers.write_bandwidth = 0;
  one.servers.depth = 1;
  ServerKind both = copies;
  both.name = "no cost per byte, depth 1";
  both.servers.depth = 1;
  return {as_fitted, dear, copies, one, both};
}

// Seconds of each seed.
Result<std::vector<double>> run_figure3(const AgiosTest& test, const AgiosServers& servers, const AgiosPolicy& policy) {
  std::vector<double> seconds(kFigure3Seeds);
  std::vector<Result<void>> results(kFigure3Seeds);
  std::vector<std::function<void()>> tasks;
  for (unsigned i = 0; i < kFigure3Seeds; ++i)
    tasks.push_back([&, i] {
      Scenario scenario = agios_scenario(test, servers, policy, kFirstSeed + i);
      scenario.servers.count = kFigure3Servers;
      const auto outcome = sim::run(scenario, {.operation_records = false});
      if (!outcome) return void(results[i] = Failure(outcome.error()));
      seconds[i] = std::chrono::duration<double>(outcome->makespan).count();
    });
  run_all(tasks);
  for (const Result<void>& result : results)
    if (!result) return Failure(result.error());
  return seconds;
}

}  // namespace

Result<ExperimentResult> agios_figure3(const LabOptions& options) {
  const AgiosPolicy regular = agios_paper_policy();
  AgiosPolicy single = regular;
  single.options["max_requests"] = "1";
  ExperimentResult result;
  result.device = fmt::format("servers of agios-patterns, {} of them; one application of {} processes on {} nodes",
                              kFigure3Servers, kFigure3Processes, kFigure3Processes);
  result.columns = {"servers",    "pattern", "requests", "direction", "regular s", "without aggregations s",
                    "normalized", "paper"};
  ValueWithInterval largest;
  for (const ServerKind& kind : server_kinds()) {
    say(options, fmt::format("agios-figure3: {}", kind.name));
    for (const Pattern pattern : {Pattern::kContiguous, Pattern::kStrided})
      for (const bool large : {false, true})
        for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
          const AgiosTest test{pattern, large, direction, kFigure3Processes, 1};
          const auto with_merging = run_figure3(test, kind.servers, regular);
          const auto without = run_figure3(test, kind.servers, single);
          if (!with_merging || !without) return Failure((with_merging ? without : with_merging).error());
          const ValueWithInterval ratio = ratio_over_seeds(*without, *with_merging);
          result.rows.push_back({kind.name, test.pattern_name(), test.size_name(), test.direction_name(),
                                 sum_of(*with_merging) / kFigure3Seeds, sum_of(*without) / kFigure3Seeds, ratio.value,
                                 "up to 6.3"});
          if (kind.name == server_kinds().front().name && ratio.value > largest.value) largest = ratio;
        }
  }
  result.claims.push_back(with({.id = "agios-figure3.most",
                                .what = "largest time without aggregations over that of section III, all patterns",
                                .unit = "x",
                                .paper = 6.3,
                                .reproduced = true},
                               largest));
  return result;
}

}  // namespace tutti::lab
