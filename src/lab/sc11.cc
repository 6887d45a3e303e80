// SPDX-License-Identifier: Apache-2.0
// Server-side I/O coordination (SC11): figure 2, formulas (1)-(3), figures 3 and 5.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "lab/catalogue.h"
#include "lab/sc11_scenarios.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using sim::Application;
using sim::Scenario;
using sim::ScenarioFault;

constexpr Duration kUnit = 100ms;  // t, short enough that no request becomes overdue

// Servers that take one unit of time per request and start after all requests have arrived, in random order.
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
  scenario.faults.push_back({.kind = ScenarioFault::Kind::kStop, .at = 0s, .until = kAllArrived});
}

// Figure 2: A needs two units on each of four servers, B and C one. `orders` is the order of arrival on each server.
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
      scenario.faults.push_back({.kind = ScenarioFault::Kind::kDelay,
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

// m applications with one request on each of n servers, in random order: the assumption of section 3.2.
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

// 1/13 of the time that the disk needs for the part of one application.
constexpr auto kGather = "1ms";

struct Figure5 {
  bool flash = false;
  Duration spread{};   // of the starts
  bool gather = true;  // not the paper's method
};

Scenario figure5_scenario(const Figure5& figure, unsigned depth, const std::string& policy, std::uint64_t seed) {
  const bool flash = figure.flash;
  // Ten files of 512 KiB per disk that were written together are in one block group of the local file system.
  Scenario scenario = sc11_cluster(flash, 8, depth, 128_MiB);
  scenario.seed = seed;
  scenario.servers.policy.name = policy;
  if (policy == "window") scenario.servers.policy.options["width"] = flash ? "250ms" : "1000ms";
  if (policy != "fifo" && !flash && figure.gather) scenario.servers.policy.options["gather"] = kGather;
  for (unsigned i = 0; i < 10; ++i) {
    Application application;
    application.name = fmt::format("app{}", i);
    application.size = 4_MiB;
    application.rank_spread = figure.spread;
    application.stripe_size = 64_KiB;
    application.sizes = sim::PhaseSizes::kAnnounced;
    scenario.applications.push_back(application);
  }
  return scenario;
}

}  // namespace

Result<ExperimentResult> sc11_figure2(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"policy", "A", "B", "C", "mean"};
  result.device = "one time unit per piece, depth 1" + describe(options.mode, "");
  Chart chart{.title = "Completion under each order",
              .x_label = "application",
              .y_label = "t",
              .bars = true,
              .logarithmic_x = false,
              .lines = {},
              .x_names = {"A", "B", "C", "mean"}};
  double means[2] = {0, 0};
  for (const std::string policy : {"fifo", "window", "concert"}) {
    auto measured = measure(options.mode, figure2_scenario(policy), {.slowdown = false, .bound = true});
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
  // The right half of the paper's figure has the order A, B, C. Shortest first would give (1 + 2 + 4) / 3.
  const double bound = 7.0 / 3;
  result.claims.push_back({.id = "sc11-figure2.uncoordinated",
                           .what = "mean completion, different orders",
                           .unit = "t",
                           .paper = 4,
                           .ours = means[0],
                           .bound = bound,
                           .reproduced = true});
  result.claims.push_back({.id = "sc11-figure2.window",
                           .what = "mean completion, one order",
                           .unit = "t",
                           .paper = 3,
                           .ours = means[1],
                           .bound = bound,
                           .reproduced = true});
  chart.lines.push_back({"paper, different orders", {3}, {4}, true});
  chart.lines.push_back({"paper, one order", {3}, {3}, true});
  result.charts.push_back(std::move(chart));
  return result;
}

Result<ExperimentResult> sc11_formulas(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"servers", "applications", "formula 1",  "fifo",         "formula 2",
                    "window",  "formula 3",    "difference", "worst error %"};
  result.device = "one time unit per piece, depth 1" + describe(options.mode, "");
  constexpr unsigned kPieces = 200'000;  // per cell: enough for a random error below 0.3%
  ValueWithInterval worst;
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
      const unsigned seeds = std::max(10u, std::min(4000u, kPieces / (n * m)));
      constexpr unsigned kWindowSeeds = 3;  // the interval is that of the mean of fifo
      std::vector<double> means[2];         // by seed, in units
      for (const bool window : {false, true}) {
        const auto runs = average(
            options.mode, [&](std::uint64_t seed) { return formula_scenario(n, m, window ? "window" : "fifo", seed); },
            {.seeds = window ? kWindowSeeds : seeds});
        if (!runs) return Failure(runs.error());
        for (const double mean : runs->operations)
          means[window].push_back(mean / std::chrono::duration<double>(kUnit).count() - units(kAllArrived));
      }
      const double one = formula1(n, m), two = (m + 1) / 2.0;
      const double fifo = mean_of(means[0]), window = mean_of(means[1]);
      const ValueWithInterval error = jackknife(seeds, [&](WithoutSeed without) {
        const double random = mean_of(means[0], without);
        return 100 * std::max({std::abs(random / one - 1), std::abs(window / two - 1),
                               std::abs((random - window) - (one - two)) / one});
      });
      if (error.value > worst.value) worst = error;
      result.rows.push_back(
          {std::int64_t{n}, std::int64_t{m}, one, fifo, two, window, one - two, fifo - window, error.value});
      if (m != 16) continue;
      const double values[4] = {one, fifo, two, window};
      for (int i = 0; i < 4; ++i) chart.lines[i].x.push_back(n), chart.lines[i].y.push_back(values[i]);
    }
  }
  result.charts.push_back(std::move(chart));
  result.claims.push_back(with(
      {.id = "sc11-formulas.error", .what = "largest distance of simulation from formulas 1-3", .unit = "%", .goal = 1},
      worst));
  return result;
}

namespace {

// The paper's metric: maximum over minimum finish time of the servers, mean over the applications. Empty if the times
// of single servers are unknown.
std::optional<ValueWithInterval> max_over_min(const Averages& averages) {
  if (averages.first_server <= 0) return {};
  return ratio_over_seeds(averages.last_servers, averages.first_servers);
}

// The part of figure 5 to run.
struct Figure5Size {
  std::vector<std::pair<std::string, std::vector<unsigned>>> depths;  // by policy
  unsigned seeds = 200;
  double slow_motion = 1;
};

// Simulated: all policies at all depths, because the baseline is fifo at its best depth. Live: fifo at the depth of
// PVFS2, and the others at a depth that suits the device.
Figure5Size figure5_size(Mode mode, bool flash) {
  if (mode == Mode::kLive) {
    const unsigned depth = flash ? 4 : 1;
    return {{{"fifo", {16}}, {"window", {depth}}, {"concert", {depth}}}, 5, flash ? 64.0 : 16.0};
  }
  const std::vector<unsigned> depths = {1, 2, 4, 8, 16};
  return {{{"fifo", depths}, {"window", depths}, {"concert", depths}}, mode == Mode::kFull ? 20u : 200u};
}

struct Figure5Row {
  unsigned depth = 0;
  std::string policy;
  Averages averages;
};

Result<std::vector<Figure5Row>> figure5_rows(bool flash, const LabOptions& options) {
  std::vector<Figure5Row> rows;
  const Figure5Size size = figure5_size(options.mode, flash);
  for (const auto& [policy, depths] : size.depths)
    for (const unsigned depth : depths) {
      say(options, fmt::format("sc11-figure5: {} {} depth {}", flash ? "flash" : "disk", policy, depth));
      auto averages = average(
          options.mode, [&](std::uint64_t seed) { return figure5_scenario({.flash = flash}, depth, policy, seed); },
          {.seeds = size.seeds, .slowdown = false, .bound = true, .slow_motion = size.slow_motion});
      if (!averages) return Failure(averages.error());
      rows.push_back({depth, policy, *averages});
    }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Figure5Row& a, const Figure5Row& b) { return a.depth < b.depth; });
  return rows;
}

// Figure 5: mean completion by depth.
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

namespace {

// Figures 3 and 5 (a), (c): when each application's part was finished on each server, in milliseconds.
using Finishes = std::vector<std::vector<double>>;  // by application and server

Finishes finishes_of(const sim::MeasuredRun& run) {
  Finishes finishes;
  for (const sim::ServerFinish& finish : run.outcome.finishes) {
    if (finishes.size() <= finish.application) finishes.resize(finish.application + 1);
    auto& of_application = finishes[finish.application];
    if (of_application.size() <= finish.server) of_application.resize(finish.server + 1);
    of_application[finish.server] = seconds(finish.after) * 1e3;
  }
  return finishes;
}

// The share of all pairs of applications and pairs of servers that finish the applications in different orders, in
// percent. Independent random orders have 50.
double crossovers(const Finishes& finishes) {
  std::size_t pairs = 0, crossed = 0;
  for (std::size_t a = 0; a < finishes.size(); ++a)
    for (std::size_t b = a + 1; b < finishes.size(); ++b)
      for (std::size_t s = 0; s < finishes[a].size(); ++s)
        for (std::size_t t = s + 1; t < finishes[a].size(); ++t, ++pairs)
          crossed += (finishes[a][s] < finishes[b][s]) != (finishes[a][t] < finishes[b][t]);
  return pairs ? 100 * static_cast<double>(crossed) / static_cast<double>(pairs) : 0;
}

// The paper's method: `fifo` with the 16 requests in flight of PVFS2, `window` with as many and with one at a time.
class Figure5Paper {
 public:
  Figure5Paper(bool flash, const LabOptions& options, ExperimentResult& result)
      : flash_(flash), options_(options), result_(result) {}

  Result<void> run() {
    const Duration spread = start_spread(flash_);
    const auto fifo = measure_row("fifo", 16, spread);
    if (!fifo) return Failure(fifo.error());
    if (const auto ratio = max_over_min(*fifo))
      result_.claims.push_back(
          with({.id = id() + "max-min",
                .what = fmt::format("fifo, starts spread over {} us: last server's finish over first's", spread / 1us),
                .unit = "x",
                .paper = flash_ ? 3.1 : 4.4,
                .fitted = true,
                .reproduced = true},
               *ratio));
    for (const unsigned depth : {1u, 16u}) {
      const auto window = measure_row("window", depth, spread);
      if (!window) return Failure(window.error());
      result_.claims.push_back(
          with({.id = fmt::format("{}reduction-{}", id(), depth),
                .what = fmt::format("mean completion of window at depth {} below fifo's at 16, starts spread", depth),
                .unit = "%",
                .paper = flash_ ? 19.5 : 29.8,
                .reproduced = true},
               reduction_over_seeds(fifo->operations, window->operations)));
    }
    if (options_.mode == Mode::kLive) return {};
    for (const Duration other : {Duration(0us), Duration(1ms), Duration(5ms), Duration(20ms)})
      for (const char* policy : {"fifo", "window"})
        if (const auto row = measure_row(policy, 16, other); !row) return Failure(row.error());
    return {};
  }

 private:
  std::string device() const { return flash_ ? "ssd" : "hdd"; }
  std::string id() const { return "sc11-figure5." + device() + ".paper."; }

  Result<Averages> measure_row(const std::string& policy, unsigned depth, Duration spread) {
    say(options_,
        fmt::format("sc11-figure5: {} {} depth {}, starts spread over {} us", device(), policy, depth, spread / 1us));
    const Figure5Size size = figure5_size(options_.mode, flash_);
    const Figure5 figure{.flash = flash_, .spread = spread, .gather = false};
    std::vector<double> crossed(size.seeds, 0);
    Finishes first;
    auto averages =
        average(options_.mode, [&](std::uint64_t seed) { return figure5_scenario(figure, depth, policy, seed); },
                {.seeds = size.seeds,
                 .slow_motion = size.slow_motion,
                 .inspect = [&](std::size_t number, const sim::MeasuredRun& run) {
                   const Finishes finishes = finishes_of(run);
                   crossed[number] = crossovers(finishes);
                   if (number == 0) first = finishes;
                 }});
    if (!averages) return averages;
    const bool known = !first.empty();
    if (known && spread == start_spread(flash_)) show(policy, depth, first);
    const auto ratio = max_over_min(*averages);
    result_.rows.push_back({device(), policy, std::int64_t{depth}, std::int64_t{spread / 1us},
                            ratio ? Cell(ratio->value) : Cell("-"), ratio ? Cell(averages->last_over_first) : Cell("-"),
                            averages->operation * 1e3, averages->makespan * 1e3, "-",
                            known ? Cell(sum_of(crossed) / size.seeds) : Cell("-")});
    return averages;
  }

  // One application per line, as in the paper's figures 3 and 5.
  void show(const std::string& policy, unsigned depth, const Finishes& finishes) {
    const std::string title =
        fmt::format("Finish on each server, ms ({}, {} at depth {}, seed {})", device(), policy, depth, kFirstSeed);
    DetailTable table{title, {"application"}, {}};
    Chart chart{
        .title = title, .x_label = "server", .y_label = "ms", .bars = false, .logarithmic_x = false, .lines = {}};
    for (std::size_t server = 0; server < finishes.front().size(); ++server)
      table.columns.push_back(fmt::format("server {}", server));
    for (std::size_t i = 0; i < finishes.size(); ++i) {
      Line line{fmt::format("app{}", i), {}, finishes[i]};
      for (std::size_t server = 0; server < finishes[i].size(); ++server) line.x.push_back(static_cast<double>(server));
      std::vector<Cell> row{line.name};
      row.insert(row.end(), finishes[i].begin(), finishes[i].end());
      chart.lines.push_back(std::move(line));
      table.rows.push_back(std::move(row));
    }
    result_.charts.push_back(std::move(chart));
    result_.details.push_back(std::move(table));
  }

  const bool flash_;
  const LabOptions& options_;
  ExperimentResult& result_;
};

}  // namespace

Result<ExperimentResult> sc11_figure5(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device",
                    "policy",
                    "depth",
                    "starts spread us",
                    "mean max / mean min",
                    "mean of max/min",
                    "mean completion ms",
                    "makespan ms",
                    "bound ms",
                    "crossovers %"};
  result.device = "hdd-7200 and ssd-2010; window and concert gather for 1 ms on disk in rows with a bound" +
                  describe(options.mode, "16 and 64 times slower");
  for (const bool flash : {false, true}) {
    const std::string device = flash ? "ssd" : "hdd";
    const auto rows = figure5_rows(flash, options);
    if (!rows) return Failure(rows.error());
    result.charts.push_back(figure5_chart(device, *rows));
    const Figure5Row* fifo = nullptr;    // the best baseline
    const Figure5Row* window = nullptr;  // at the best depth for it
    const Figure5Row* concert = nullptr;
    for (const Figure5Row& row : *rows) {
      const auto ratio = max_over_min(row.averages);
      result.rows.push_back({device, row.policy, std::int64_t{row.depth}, std::int64_t{0},
                             ratio ? Cell(ratio->value) : Cell("-"),
                             ratio ? Cell(row.averages.last_over_first) : Cell("-"), row.averages.operation * 1e3,
                             row.averages.makespan * 1e3, row.averages.bound * 1e3, "-"});
      const Figure5Row*& best = row.policy == "fifo" ? fifo : row.policy == "window" ? window : concert;
      if (!best || row.averages.operation < best->averages.operation) best = &row;
    }
    const std::string id = "sc11-figure5." + device;
    const std::string at = fmt::format(" (depth {})", window->depth);
    if (const auto ratio = max_over_min(window->averages))
      result.claims.push_back(with({.id = id + ".window-max-min",
                                    .what = "window: last server's finish over first's" + at,
                                    .unit = "x",
                                    .paper = flash ? 1.2 : 1.3,
                                    .goal = flash ? 1.2 : 1.3,
                                    .goal_is = Claim::Goal::kAtMost,
                                    .bound = 1},
                                   *ratio));
    result.claims.push_back(
        with({.id = id + ".reduction",
              .what = fmt::format("window's mean completion below fifo's best (depth {})", fifo->depth) + at,
              .unit = "%",
              .paper = flash ? 19.5 : 29.8,
              .goal = flash ? 19.5 : 29.8,
              .goal_is = Claim::Goal::kAtLeast,
              .bound = reduction(fifo->averages.operation, window->averages.bound)},
             reduction_over_seeds(fifo->averages.operations, window->averages.operations)));
    result.claims.push_back(with({.id = id + ".concert",
                                  .what = "concert's mean completion over window's, each at its best depth",
                                  .unit = "x",
                                  .goal = 1.05},
                                 ratio_over_seeds(concert->averages.operations, window->averages.operations)));
    if (auto done = Figure5Paper(flash, options, result).run(); !done) return Failure(done.error());
  }
  return result;
}

}  // namespace tutti::lab
