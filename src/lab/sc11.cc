// SPDX-License-Identifier: Apache-2.0
// Server-side I/O coordination (SC11): figure 2, formulas (1)-(3), figures 3 and 5.
#include <fmt/format.h>

#include <cmath>

#include "lab/catalogue.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using sim::Application;
using sim::Fault;
using sim::Scenario;

constexpr Duration kUnit = 100ms;  // t, short enough that nobody ever waits past a policy's patience

// Servers that take one unit of time per piece and begin once everything has arrived, in orders that chance decides.
Scenario unit_pieces(unsigned servers, const std::string& policy) {
  Scenario scenario;
  scenario.servers.count = servers;
  scenario.servers.depth = 1;
  scenario.servers.device = FixedFigures{.latency = kUnit, .bandwidth = 0};
  scenario.servers.policy.name = policy;
  scenario.network.latency = 0ns;
  return scenario;
}

constexpr Duration kAllArrived = 1ms;

double units(Duration duration) {
  return std::chrono::duration<double>(duration) / std::chrono::duration<double>(kUnit);
}

void begin_when_all_arrived(Scenario& scenario) {
  scenario.faults.push_back({.kind = Fault::Kind::kStop, .at = 0s, .until = kAllArrived});
}

// Figure 2: A needs two units on each of four servers, B and C one. `orders` gives who is first, second and last.
Scenario figure2_scenario(const std::string& policy) {
  Scenario scenario = unit_pieces(4, policy);
  const char* orders[4] = {"ABC", "CBA", "BCA", "ACB"};
  for (unsigned i = 0; i < 3; ++i) {
    Application application;
    application.name = std::string(1, static_cast<char>('A' + i));
    application.id = i;
    application.size = 64_KiB * (i == 0 ? 8 : 4);
    scenario.applications.push_back(application);
    for (unsigned server = 0; server < 4; ++server)
      scenario.faults.push_back({.kind = Fault::Kind::kDelay,
                                 .server = server,
                                 .application = i,
                                 .at = 0s,
                                 .delay = 1us * (std::string(orders[server]).find(application.name) + 1)});
  }
  begin_when_all_arrived(scenario);
  return scenario;
}

double formula1(double n, double m) {
  double sum = 0;
  for (double k = 1; k < m; ++k) sum += std::pow(k / m, n);
  return m - sum;
}

// m applications with one piece on each of n servers, in random order: the assumption of section 3.2.
Scenario formula_scenario(unsigned n, unsigned m, const std::string& policy, std::uint64_t seed) {
  Scenario scenario = unit_pieces(n, policy);
  scenario.seed = seed;
  scenario.network.jitter = kAllArrived;
  for (unsigned i = 0; i < m; ++i) {
    Application application;
    application.name = fmt::format("app{}", i);
    application.size = 64_KiB * n;
    scenario.applications.push_back(application);
  }
  begin_when_all_arrived(scenario);
  return scenario;
}

// A thirteenth of what the disk takes for one application's part.
constexpr auto kGather = "1ms";

Scenario figure5_scenario(bool flash, unsigned depth, const std::string& policy, std::uint64_t seed) {
  // Ten files of 512 KiB per disk, written in one go, lie in one block group of the local file system.
  Scenario scenario = sc11_cluster(flash, 8, depth, 128_MiB);
  scenario.seed = seed;
  scenario.servers.policy.name = policy;
  if (policy == "window") scenario.servers.policy.options["width"] = flash ? "250ms" : "1000ms";
  if (policy != "fifo" && !flash) scenario.servers.policy.options["gather"] = kGather;
  for (unsigned i = 0; i < 10; ++i) {
    Application application;
    application.name = fmt::format("app{}", i);
    application.size = 4_MiB;
    application.stripe_size = 64_KiB;
    application.sizes = sim::PhaseSizes::kAnnounced;
    scenario.applications.push_back(application);
  }
  return scenario;
}

}  // namespace

Result<ExperimentResult> sc11_figure2(const LabOptions& /*options*/) {
  ExperimentResult result;
  result.columns = {"policy", "A", "B", "C", "mean"};
  result.device = "one time unit per piece, depth 1";
  Chart chart{.title = "Completion under each order",
              .x_label = "application",
              .y_label = "t",
              .bars = true,
              .logarithmic_x = false,
              .lines = {},
              .x_names = {"A", "B", "C", "mean"}};
  double means[2] = {0, 0};
  for (const std::string policy : {"fifo", "window", "concert"}) {
    auto measured = sim::measure(figure2_scenario(policy), {.slowdown = false, .bound = true});
    if (!measured) return Failure(measured.error());
    double completion[3] = {0, 0, 0};
    for (const auto& operation : measured->outcome.operations)
      completion[operation.application] = units(operation.completed - kAllArrived);
    const double mean = (completion[0] + completion[1] + completion[2]) / 3;
    result.rows.push_back({policy, completion[0], completion[1], completion[2], mean});
    chart.lines.push_back({policy, {0, 1, 2, 3}, {completion[0], completion[1], completion[2], mean}});
    if (policy == "fifo") means[0] = mean;
    if (policy == "window") means[1] = mean;
  }
  // A, B and C in this order is the paper's right half; serving the short ones first would give (1 + 2 + 4) / 3.
  const double bound = 7.0 / 3;
  result.claims.push_back({.id = "sc11-figure2.uncoordinated",
                           .what = "mean completion, different orders",
                           .unit = "t",
                           .paper = 4,
                           .goal = 4,
                           .kind = Claim::Goal::kAtLeast,
                           .ours = means[0],
                           .bound = bound});
  result.claims.push_back({.id = "sc11-figure2.window",
                           .what = "mean completion, one order",
                           .unit = "t",
                           .paper = 3,
                           .goal = 3,
                           .kind = Claim::Goal::kAtMost,
                           .ours = means[1],
                           .bound = bound});
  chart.lines.push_back({"paper, different orders", {3}, {4}, true});
  chart.lines.push_back({"paper, one order", {3}, {3}, true});
  result.charts.push_back(std::move(chart));
  return result;
}

Result<ExperimentResult> sc11_formulas(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"servers", "applications", "formula 1",  "fifo",         "formula 2",
                    "window",  "formula 3",    "difference", "worst error %"};
  result.device = "one time unit per piece, depth 1";
  constexpr unsigned kPieces = 200'000;  // per cell: enough that chance stays below a third of a per cent
  double worst = 0;
  Chart chart{
      .title = "Mean completion of 16 applications",
      .x_label = "servers",
      .y_label = "t",
      .bars = false,
      .logarithmic_x = true,
      .lines = {{"formula 1", {}, {}, true}, {"fifo", {}, {}}, {"formula 2", {}, {}, true}, {"window", {}, {}}}};
  for (const unsigned n : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u}) {
    say(options, fmt::format("sc11-formulas: {} servers", n));
    for (const unsigned m : {2u, 4u, 8u, 16u, 32u, 64u}) {
      const unsigned seeds = std::max(3u, std::min(4000u, kPieces / (n * m)));
      double ours[2];
      for (const bool window : {false, true}) {
        const auto runs =
            average([&](std::uint64_t seed) { return formula_scenario(n, m, window ? "window" : "fifo", seed); },
                    {.seeds = window ? 3 : seeds});
        if (!runs) return Failure(runs.error());
        ours[window] = runs->operation / std::chrono::duration<double>(kUnit).count() - units(kAllArrived);
      }
      const double one = formula1(n, m), two = (m + 1) / 2.0;
      const double error = 100 * std::max({std::abs(ours[0] / one - 1), std::abs(ours[1] / two - 1),
                                           std::abs((ours[0] - ours[1]) - (one - two)) / one});
      worst = std::max(worst, error);
      result.rows.push_back(
          {std::int64_t{n}, std::int64_t{m}, one, ours[0], two, ours[1], one - two, ours[0] - ours[1], error});
      if (m != 16) continue;
      const double values[4] = {one, ours[0], two, ours[1]};
      for (int i = 0; i < 4; ++i) chart.lines[i].x.push_back(n), chart.lines[i].y.push_back(values[i]);
    }
  }
  result.charts.push_back(std::move(chart));
  result.claims.push_back({.id = "sc11-formulas.error",
                           .what = "largest distance of simulation from formulas 1-3",
                           .unit = "%",
                           .paper = {},
                           .goal = 1,
                           .kind = Claim::Goal::kAtMost,
                           .ours = worst});
  return result;
}

namespace {

// The paper's figure: how many times the minimum the maximum finish time is, on average over the applications.
double max_over_min(const Averages& averages) {
  return averages.last_server / averages.first_server;
}

struct Figure5Row {
  unsigned depth = 0;
  std::string policy;
  Averages averages;
};

// All policies at all depths: the baseline is the best of what the uncoordinated server could be.
Result<std::vector<Figure5Row>> figure5_rows(bool flash, const LabOptions& options) {
  std::vector<Figure5Row> rows;
  for (const unsigned depth : {1u, 2u, 4u, 8u, 16u})
    for (const std::string policy : {"fifo", "window", "concert"}) {
      say(options, fmt::format("sc11-figure5: {} {} depth {}", flash ? "flash" : "disk", policy, depth));
      auto averages = average([&](std::uint64_t seed) { return figure5_scenario(flash, depth, policy, seed); },
                              {.seeds = 200, .slowdown = false, .bound = true});
      if (!averages) return Failure(averages.error());
      rows.push_back({depth, policy, *averages});
    }
  return rows;
}

// Figure 5: mean completion, by how much a server keeps at its device.
Chart figure5_chart(const std::string& device, const std::vector<Figure5Row>& rows) {
  Chart chart{.title = fmt::format("Mean completion ({})", device),
              .x_label = "depth",
              .y_label = "ms",
              .bars = false,
              .logarithmic_x = true,
              .lines = {{"fifo", {}, {}}, {"window", {}, {}}, {"concert", {}, {}}}};
  for (const Figure5Row& row : rows)
    for (Line& line : chart.lines)
      if (line.name == row.policy) line.x.push_back(row.depth), line.y.push_back(row.averages.operation * 1e3);
  return chart;
}

}  // namespace

Result<ExperimentResult> sc11_figure5(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device",      "policy",  "depth", "mean max / mean min", "mean of max/min", "mean completion ms",
                    "makespan ms", "bound ms"};
  result.device = "hdd-7200 and ssd-2010, window and concert gather for 1 ms on disk";
  for (const bool flash : {false, true}) {
    const std::string device = flash ? "ssd" : "hdd";
    const auto rows = figure5_rows(flash, options);
    if (!rows) return Failure(rows.error());
    result.charts.push_back(figure5_chart(device, *rows));
    const Figure5Row* fifo16 = nullptr;
    const Figure5Row* fifo = nullptr;    // the best baseline
    const Figure5Row* window = nullptr;  // at the best depth for it
    for (const Figure5Row& row : *rows) {
      result.rows.push_back({device, row.policy, std::int64_t{row.depth}, max_over_min(row.averages),
                             row.averages.last_over_first, row.averages.operation * 1e3, row.averages.makespan * 1e3,
                             row.averages.bound * 1e3});
      if (row.policy == "fifo" && row.depth == 16) fifo16 = &row;
      if (row.policy == "fifo" && (!fifo || row.averages.operation < fifo->averages.operation)) fifo = &row;
      if (row.policy == "window" && (!window || row.averages.operation < window->averages.operation)) window = &row;
    }
    const std::string id = "sc11-figure5." + device;
    const std::string at = fmt::format(" (depth {})", window->depth);
    result.claims.push_back({.id = id + ".uncoordinated-max-min",
                             .what = "fifo, depth 16: last server's finish over first's",
                             .unit = "x",
                             .paper = flash ? 3.1 : 4.4,
                             .goal = 3,
                             .kind = Claim::Goal::kAtLeast,
                             .ours = max_over_min(fifo16->averages)});
    result.claims.push_back({.id = id + ".window-max-min",
                             .what = "window: last server's finish over first's" + at,
                             .unit = "x",
                             .paper = flash ? 1.2 : 1.3,
                             .goal = flash ? 1.2 : 1.3,
                             .kind = Claim::Goal::kAtMost,
                             .ours = max_over_min(window->averages),
                             .bound = 1});
    result.claims.push_back(
        {.id = id + ".reduction",
         .what = fmt::format("window's mean completion below fifo's best (depth {})", fifo->depth) + at,
         .unit = "%",
         .paper = flash ? 19.5 : 29.8,
         .goal = flash ? 19.5 : 29.8,
         .kind = Claim::Goal::kAtLeast,
         .ours = reduction(fifo->averages.operation, window->averages.operation),
         .bound = reduction(fifo->averages.operation, window->averages.bound)});
  }
  return result;
}

}  // namespace tutti::lab
