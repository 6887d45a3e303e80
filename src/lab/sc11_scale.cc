// SPDX-License-Identifier: Apache-2.0
// Server-side I/O coordination (SC11): figures 6, 7 and 8.
#include <fmt/format.h>

#include <algorithm>

#include "lab/catalogue.h"
#include "lab/sc11_scenarios.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;

// Random file positions and orders change the mean completion by up to 6%.
constexpr unsigned kScaleSeeds = 10;
// The best depth is found with other seeds than those that are reported.
constexpr std::uint64_t kDepthSeed = 3021;
constexpr unsigned kDepthSeeds = 2;

// Depths to try, upwards until two deeper ones are no better than the best: no scenario has as many requests at a
// server as the last ones, so that the best is never the last. Depth 1 is never best on flash. Live runs have time for
// only one depth.
std::vector<unsigned> depths(Mode mode, bool flash, const std::string& policy) {
  if (mode == Mode::kLive) return {flash && policy != "fifo" ? 8u : 16u};
  if (flash) return {4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
  return {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
}

struct Best {
  Averages averages;
  unsigned depth = 0;
};

// How a scenario is run.
struct Trial {
  bool flash = false;
  Mode mode = Mode::kFast;
  unsigned seeds = kScaleSeeds;
  std::string width{};
  double slow_motion = 1;
};

using Make = std::function<Scenario(const Sc11Run& run)>;

Result<Averages> at_depth(const Make& make, Sc11Run run, const Trial& trial, Repeat repeat) {
  run.flash = trial.flash;
  run.width = trial.width;
  repeat.slow_motion = trial.slow_motion;
  return average(
      trial.mode,
      [&](std::uint64_t seed) {
        Sc11Run each = run;
        each.seed = seed;
        return make(each);
      },
      repeat);
}

// Runs a policy at the depth with the smallest mean completion.
Result<Best> best_depth(const Make& make, const std::string& policy, const Trial& trial) {
  const auto all = depths(trial.mode, trial.flash, policy);
  unsigned best = all.front(), worse = 0;
  double smallest = 0;
  for (const unsigned depth : all) {
    if (all.size() == 1 || worse == 2) break;
    const auto tried = at_depth(make, {.policy = policy, .depth = depth}, trial,
                                {.seeds = std::min(kDepthSeeds, trial.seeds), .first = kDepthSeed});
    if (!tried) return Failure(tried.error());
    if (smallest > 0 && tried->operation >= smallest) {
      ++worse;
      continue;
    }
    best = depth, smallest = tried->operation, worse = 0;
  }
  auto averages = at_depth(make, {.policy = policy, .depth = best}, trial, {.seeds = trial.seeds});
  if (!averages) return Failure(averages.error());
  return Best{std::move(*averages), best};
}

struct Pair {
  Best fifo;
  Best window;

  ValueWithInterval gain() const { return reduction_over_seeds(fifo.averages.operations, window.averages.operations); }
};

// Runs the same scenario without and with coordination.
Result<Pair> both(const Make& make, const Trial& trial) {
  auto fifo = best_depth(make, "fifo", trial);
  if (!fifo) return Failure(fifo.error());
  auto window = best_depth(make, "window", trial);
  if (!window) return Failure(window.error());
  return Pair{*fifo, *window};
}

// The part of figure 6 to run in this mode.
struct Figure6Part {
  Figure6Size size;
  unsigned seeds = kScaleSeeds;
  double slow_motion = 1;
};

Figure6Part figure6_part(Mode mode, bool flash) {
  Figure6Part part;
  part.size.instances = {2, 4, 8, 16};
  if (mode == Mode::kFast) return part;
  part.size.processes = {8};
  part.seeds = 1;
  if (mode == Mode::kFull) return part;
  part.size.operations = 3;
  part.size.one_client = true;
  part.seeds = flash ? 1 : 4;
  part.slow_motion = flash ? 128 : 2;
  return part;
}

struct Figure6Extremes {
  ValueWithInterval least{100}, most{-100}, concert{0};
};

void figure6_claims(const Figure6Extremes& extremes, bool flash, ExperimentResult& result) {
  const std::string device = flash ? "ssd" : "hdd";
  result.claims.push_back(with({.id = "sc11-figure6." + device + ".least",
                                .what = "smallest reduction of the mean completion",
                                .unit = "%",
                                .paper = flash ? 11 : 8,
                                .goal = flash ? 11 : 8,
                                .goal_is = Claim::Goal::kAtLeast},
                               extremes.least));
  // No bound on disks: they also gain from the order of offsets.
  result.claims.push_back(with({.id = "sc11-figure6." + device + ".most",
                                .what = "largest reduction of the mean completion",
                                .unit = "%",
                                .paper = flash ? 43 : 42,
                                .goal = flash ? 43 : 42,
                                .goal_is = Claim::Goal::kAtLeast,
                                .bound = flash ? std::optional<double>(50) : std::nullopt},
                               extremes.most));
  result.claims.push_back(with({.id = "sc11-figure6." + device + ".concert",
                                .what = "concert's mean completion over fifo's, largest of all cells",
                                .unit = "x",
                                .goal = 1.05,
                                .goal_is = Claim::Goal::kAtMost},
                               extremes.concert));
}

}  // namespace

Result<ExperimentResult> sc11_figure6(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device",    "processes", "applications", "fifo ms", "depth",
                    "window ms", "depth ",    "concert ms",   "depth  ", "reduction %"};
  result.device =
      "hdd-7200 and ssd-2010, 16 servers; first table: each policy at its best depth, window and concert by offset on "
      "disk" +
      describe(options.mode, "2 and 128 times slower, one client per application");
  for (const bool flash : {false, true}) {
    const std::string device = flash ? "ssd" : "hdd";
    Chart chart{.title = fmt::format("Mean completion ({})", device),
                .x_label = "applications",
                .y_label = "ms",
                .bars = false,
                .logarithmic_x = false,
                .lines = {}};
    const Figure6Part part = figure6_part(options.mode, flash);
    const Trial trial{flash, options.mode, part.seeds, "1000ms", part.slow_motion};
    Figure6Extremes extremes;
    for (const unsigned processes : part.size.processes) {
      say(options, fmt::format("sc11-figure6: {} {} processes", device, processes));
      Line fifo{fmt::format("{}C-ori", processes), {}, {}}, window{fmt::format("{}C-cio", processes), {}, {}};
      for (const unsigned instances : part.size.instances) {
        const Make make = [&](const Sc11Run& run) { return figure6_scenario(run, {instances, processes}, part.size); };
        const auto pair = both(make, trial);
        if (!pair) return Failure(pair.error());
        const auto concert = best_depth(make, "concert", trial);
        if (!concert) return Failure(concert.error());
        const ValueWithInterval saved = pair->gain();
        if (saved.value < extremes.least.value) extremes.least = saved;
        if (saved.value > extremes.most.value) extremes.most = saved;
        const ValueWithInterval over = ratio_over_seeds(concert->averages.operations, pair->fifo.averages.operations);
        if (over.value > extremes.concert.value) extremes.concert = over;
        result.rows.push_back({device, std::int64_t{processes}, std::int64_t{instances},
                               pair->fifo.averages.operation * 1e3, std::int64_t{pair->fifo.depth},
                               pair->window.averages.operation * 1e3, std::int64_t{pair->window.depth},
                               concert->averages.operation * 1e3, std::int64_t{concert->depth}, saved.value});
        fifo.x.push_back(instances), fifo.y.push_back(pair->fifo.averages.operation * 1e3);
        window.x.push_back(instances), window.y.push_back(pair->window.averages.operation * 1e3);
      }
      chart.lines.push_back(std::move(fifo)), chart.lines.push_back(std::move(window));
    }
    result.charts.push_back(std::move(chart));
    figure6_claims(extremes, flash, result);
    if (options.mode == Mode::kLive) continue;
    Figure6Size paper = part.size;
    if (options.mode == Mode::kFast) paper = {};
    if (auto done = figure6_by_paper(flash, options, paper, result); !done) return Failure(done.error());
  }
  return result;
}

namespace {

// One panel of figure 7, with part of the paper's numbers of servers. Adds its rows and chart; returns the last
// reduction.
Result<ValueWithInterval> figure7_panel(bool flash, Direction direction, unsigned processes, const LabOptions& options,
                                        ExperimentResult& result) {
  const std::string device = flash ? "ssd" : "hdd";
  const std::string way = direction == Direction::kRead ? "read" : "write";
  Chart chart{.title = fmt::format("Mean completion ({}, {}, {} processes)", device, way, processes),
              .x_label = "servers",
              .y_label = "ms",
              .bars = false,
              .logarithmic_x = true,
              .lines = {{"fifo", {}, {}}, {"window", {}, {}}}};
  ValueWithInterval saved;
  for (const unsigned servers : flash ? std::vector<unsigned>{2, 4, 16} : std::vector<unsigned>{2, 8, 64}) {
    const auto pair = both(
        [&](const Sc11Run& run) {
          return figure7_scenario(run, {servers, processes, direction});
        },
        {.flash = flash, .mode = options.mode, .width = recommended_width(flash)});
    if (!pair) return Failure(pair.error());
    saved = pair->gain();
    const double values[2] = {pair->fifo.averages.operation * 1e3, pair->window.averages.operation * 1e3};
    result.rows.push_back({device, "as the paper's", way, std::int64_t{processes}, std::int64_t{servers}, values[0],
                           std::int64_t{pair->fifo.depth}, values[1], std::int64_t{pair->window.depth}, saved.value});
    for (int i = 0; i < 2; ++i) chart.lines[i].x.push_back(servers), chart.lines[i].y.push_back(values[i]);
  }
  result.charts.push_back(std::move(chart));
  return saved;
}

// Up to 4096 servers, where an operation is 32 MiB. The bandwidth of the network has no limit, so that only the order
// of service is measured. Returns window's largest mean over its smallest.
Result<ValueWithInterval> figure7_beyond(Mode mode, bool flash, ExperimentResult& result) {
  const std::string device = flash ? "ssd" : "hdd";
  constexpr unsigned kDepth = 4;
  Chart chart{.title = fmt::format("Mean completion on to 4096 servers ({}, read, 8 processes)", device),
              .x_label = "servers",
              .y_label = "ms",
              .bars = false,
              .logarithmic_x = true,
              .lines = {{"fifo", {}, {}}, {"window", {}, {}}}};
  Averages slowest, fastest;
  for (const unsigned servers : {2u, 8u, 64u, 512u, 4096u}) {
    double values[2];
    for (const bool window : {false, true}) {
      const auto make = [&](std::uint64_t seed) {
        Scenario scenario = figure7_scenario({.flash = flash,
                                              .policy = window ? "window" : "fifo",
                                              .depth = kDepth,
                                              .width = recommended_width(flash),
                                              .seed = seed},
                                             {servers, 8, Direction::kRead});
        scenario.network.client_bandwidth = scenario.network.server_bandwidth = 0;
        return scenario;
      };
      // No claim compares with fifo here, and its runs with many servers are long.
      const auto averages = average(mode, make, {.seeds = window || servers <= 64 ? kScaleSeeds : 1u});
      if (!averages) return Failure(averages.error());
      values[window] = averages->operation * 1e3;
      if (window && averages->operation > slowest.operation) slowest = *averages;
      if (window && (fastest.operations.empty() || averages->operation < fastest.operation)) fastest = *averages;
      chart.lines[window].x.push_back(servers), chart.lines[window].y.push_back(values[window]);
    }
    result.rows.push_back({device, "no limit", "read", std::int64_t{8}, std::int64_t{servers}, values[0],
                           std::int64_t{kDepth}, values[1], std::int64_t{kDepth}, reduction(values[0], values[1])});
  }
  result.charts.push_back(std::move(chart));
  return ratio_over_seeds(slowest.operations, fastest.operations);
}

}  // namespace

Result<ExperimentResult> sc11_figure7(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device",  "network", "direction", "processes", "servers",
                    "fifo ms", "depth",   "window ms", "depth ",    "reduction %"};
  result.device = "hdd-7200 and ssd-2010; first table: each policy at its best depth, window by offset on disk";
  for (const bool flash : {false, true}) {
    const std::string device = flash ? "ssd" : "hdd";
    ValueWithInterval largest{-100};
    for (const Direction direction : {Direction::kRead, Direction::kWrite})
      for (const unsigned processes : {8u, 16u, 32u}) {
        say(options, fmt::format("sc11-figure7: {} {} processes", device, processes));
        const auto saved = figure7_panel(flash, direction, processes, options, result);
        if (!saved) return Failure(saved.error());
        if (saved->value > largest.value) largest = *saved;
      }
    say(options, fmt::format("sc11-figure7: {} on to 4096 servers", device));
    const auto flat = figure7_beyond(options.mode, flash, result);
    if (!flat) return Failure(flat.error());
    result.claims.push_back(
        with({.id = fmt::format("sc11-figure7.{}.reduction", device),
              .what = fmt::format("mean completion below fifo's at {} servers, best panel", flash ? 16 : 64),
              .unit = "%",
              .paper = flash ? 39 : 46,
              .goal = flash ? 39 : 46,
              .goal_is = Claim::Goal::kAtLeast,
              .bound = flash ? std::optional<double>(50) : std::nullopt},
             largest));
    result.claims.push_back(
        with({.id = fmt::format("sc11-figure7.{}.flat", device),
              .what = "window's slowest mean over its fastest, 2 to 4096 servers, reads, 8 processes",
              .unit = "x",
              .goal = flash ? 1.2 : 1.6,  // with more disks the slowest seek is slower
              .goal_is = Claim::Goal::kAtMost,
              .bound = 1},
             *flat));
    if (auto done = figure7_by_paper(flash, options, result); !done) return Failure(done.error());
  }
  return result;
}

namespace {

// One device of figure 8 with the recommended width. Adds its rows, chart and claims.
Result<void> figure8_device(bool flash, const LabOptions& options, ExperimentResult& result) {
  const std::string device = flash ? "ssd" : "hdd";
  Chart chart{.title = fmt::format("Mean completion ({}, each policy at its best depth)", device),
              .x_label = "processes",
              .y_label = "ms",
              .bars = true,
              .logarithmic_x = false,
              .lines = {{"fifo", {}, {}}, {"window", {}, {}}}};
  ValueWithInterval least{100}, bandwidth;
  for (const unsigned processes : {8u, 16u, 32u}) {
    say(options, fmt::format("sc11-figure8: {} {} processes", device, processes));
    const auto pair = both([&](const Sc11Run& run) { return figure8_scenario(run, processes); },
                           {.flash = flash, .mode = options.mode, .width = recommended_width(flash)});
    if (!pair) return Failure(pair.error());
    for (const Best* best : {&pair->fifo, &pair->window}) {
      const bool window = best == &pair->window;
      const Averages& averages = best->averages;
      result.rows.push_back({device, std::int64_t{processes}, window ? "window" : "fifo",
                             window ? recommended_width(flash) : "-", std::int64_t{best->depth},
                             averages.operation * 1e3, averages.makespan, averages.bandwidth / 1e6});
      chart.lines[window].x.push_back(processes), chart.lines[window].y.push_back(averages.operation * 1e3);
    }
    if (const ValueWithInterval saved = pair->gain(); saved.value < least.value) least = saved;
    bandwidth = reduction_over_seeds(pair->fifo.averages.bandwidths, pair->window.averages.bandwidths);
    bandwidth.value = -bandwidth.value;
  }
  result.charts.push_back(std::move(chart));
  result.claims.push_back(
      with({.id = fmt::format("sc11-figure8.{}.lower", device),
            .what = fmt::format("smallest reduction of the mean completion at {}", recommended_width(flash)),
            .unit = "%",
            .goal = 0,
            .goal_is = Claim::Goal::kAtLeast},
           least));
  result.claims.push_back(with({.id = fmt::format("sc11-figure8.{}.bandwidth", device),
                                .what = "more aggregate bandwidth (bytes over makespan) than fifo with 32 processes",
                                .unit = "%",
                                .paper = flash ? std::optional<double>{} : 10.9,
                                .goal = flash ? 0 : 10.9,
                                .goal_is = Claim::Goal::kAtLeast},
                               bandwidth));
  return figure8_by_paper(flash, options, result);
}

}  // namespace

Result<ExperimentResult> sc11_figure8(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device", "processes", "policy", "width", "depth", "mean completion ms", "makespan s", "MB/s"};
  result.device =
      "hdd-7200 and ssd-2010, 16 servers; first table: each policy at its best depth, window by offset on disk";
  for (const bool flash : {false, true})
    if (auto done = figure8_device(flash, options, result); !done) return Failure(done.error());
  return result;
}

}  // namespace tutti::lab
