// SPDX-License-Identifier: Apache-2.0
// Server-side I/O coordination (SC11): figures 6, 7 and 8.
#include <fmt/format.h>

#include <algorithm>

#include "lab/catalogue.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;

// Depths to run: maximum numbers of batches at the device; PVFS2 has 16. Each policy is shown at its best depth. Depth
// 1 is never best on flash. Live runs have time for only one depth.
std::vector<unsigned> depths(Mode mode, bool flash, const std::string& policy) {
  if (mode == Mode::kLive) return {flash && policy != "fifo" ? 8u : 16u};
  return flash ? std::vector<unsigned>{4, 8, 16} : std::vector<unsigned>{1, 4, 8, 16};
}

// Random file positions and orders change the mean completion by up to 6%.
constexpr unsigned kScaleSeeds = 6;

// The environments of section 5: disks with Gigabit Ethernet, flash with InfiniBand.
Scenario environment(bool flash, unsigned servers, const std::string& policy, std::uint64_t seed) {
  Scenario scenario = sc11_cluster(flash, servers, 16, Bytes(20'000'000'000));
  if (!flash) scenario.network.client_bandwidth = scenario.network.server_bandwidth = 125e6;
  scenario.seed = seed;
  scenario.servers.policy.name = policy;
  if (policy != "fifo" && !flash) scenario.servers.policy.options["order"] = "offset";
  return scenario;
}

Application instance(const std::string& name, unsigned processes, Bytes request, Bytes stripe) {
  Application application;
  application.name = name;
  application.ranks = processes;
  application.ranks_per_node = std::max(1u, processes * 10 / 64);  // ten instances on 64 nodes
  application.size = request;
  application.stripe_size = stripe;
  application.barrier = sim::RankBarrier::kOperation;  // an MPI_Barrier between two requests
  application.sizes = sim::PhaseSizes::kAnnounced;
  return application;
}

std::string width_of(bool flash) {
  return flash ? "250ms" : "1000ms";
}

struct Best {
  Averages averages;
  unsigned depth = 0;
};

using Make = std::function<Scenario(const std::string& policy, std::uint64_t seed)>;

// How a scenario is run.
struct Trial {
  Mode mode = Mode::kFast;
  unsigned seeds = kScaleSeeds;
  std::string width{};
  double slow_motion = 1;
};

// Runs a policy at the depth with the smallest mean completion.
Result<Best> best_depth(const Make& make, const std::string& policy, const Trial& trial) {
  Best best;
  const bool flash = std::holds_alternative<SsdFigures>(make(policy, kFirstSeed).servers.device);
  for (const unsigned depth : depths(trial.mode, flash, policy)) {
    const auto averages = average(trial.mode,
                                  [&](std::uint64_t seed) {
                                    Scenario scenario = make(policy, seed);
                                    scenario.servers.depth = depth;
                                    if (policy == "window") scenario.servers.policy.options["width"] = trial.width;
                                    return scenario;
                                  },
                                  {.seeds = trial.seeds, .slow_motion = trial.slow_motion});
    if (!averages) return Failure(averages.error());
    if (best.depth == 0 || averages->operation < best.averages.operation) best = {*averages, depth};
  }
  return best;
}

struct Pair {
  Best fifo;
  Best window;
};

// Runs the same scenario without and with coordination.
Result<Pair> both(const Make& make, const Trial& trial) {
  auto fifo = best_depth(make, "fifo", trial);
  if (!fifo) return Failure(fifo.error());
  auto window = best_depth(make, "window", trial);
  if (!window) return Failure(window.error());
  return Pair{*fifo, *window};
}

// The part of figure 6 to run.
struct Figure6Size {
  std::vector<unsigned> processes{8, 16, 32};
  std::vector<unsigned> instances{2, 4, 6, 8, 10, 12, 14, 16};
  unsigned operations = 8;
  bool one_client = false;  // the processes of an application share one client node
  unsigned seeds = kScaleSeeds;
  double slow_motion = 1;
};

Figure6Size figure6_size(Mode mode, bool flash) {
  Figure6Size size;
  if (mode == Mode::kFast) return size;
  size.processes = {8};
  size.instances = {2, 4, 8, 16};
  size.seeds = 1;
  if (mode == Mode::kFull) return size;
  size.operations = 3;
  size.one_client = true;
  size.seeds = flash ? 1 : 4;
  size.slow_motion = flash ? 128 : 2;
  return size;
}

Scenario figure6_scenario(bool flash, unsigned instances, unsigned processes, const Figure6Size& size,
                          const std::string& policy, std::uint64_t seed) {
  Scenario scenario = environment(flash, 16, policy, seed);
  for (unsigned i = 0; i < instances; ++i) {
    Application application = instance(fmt::format("ior{}", i), processes, 128_KiB, 4_KiB);
    application.operations = size.operations;
    if (size.one_client) application.ranks_per_node = processes;
    scenario.applications.push_back(application);
  }
  return scenario;
}

Scenario figure7_scenario(bool flash, unsigned servers, unsigned processes, Direction direction,
                          const std::string& policy, std::uint64_t seed) {
  Scenario scenario = environment(flash, servers, policy, seed);
  for (unsigned i = 0; i < 10; ++i) {
    Application application = instance(fmt::format("pio{}", i), processes, 8_KiB * servers, 8_KiB);
    application.operations = servers > 256 ? 2 : 4;
    application.direction = direction;
    application.pattern =
        Pattern::kStrided;  // PIO-Bench's sequential access: each process continues after the one before
    scenario.applications.push_back(application);
  }
  return scenario;
}

Scenario figure8_scenario(bool flash, unsigned processes, const std::string& policy, std::uint64_t seed) {
  Scenario scenario = environment(flash, 16, policy, seed);
  const auto add = [&](const char* name, int count, Pattern pattern, Bytes block) {
    for (int i = 0; i < count; ++i) {
      Application application = instance(fmt::format("{}{}", name, i), processes, 128_KiB, 4_KiB);
      application.operations = 24;
      application.pattern = pattern;
      application.block = block;
      scenario.applications.push_back(application);
    }
  };
  add("ior", 3, Pattern::kContiguous, Bytes{});
  add("pio", 3, Pattern::kStrided, Bytes{});
  add("tile", 2, Pattern::kTiles2d, 4_KiB);
  add("noncontig", 2, Pattern::kInterleaved, 4_KiB);
  return scenario;
}

struct ReductionRange {
  double least, most;
};

void figure6_claims(ReductionRange reductions, double concert_over_fifo, bool flash, ExperimentResult& result) {
  const std::string device = flash ? "ssd" : "hdd";
  result.claims.push_back({.id = "sc11-figure6." + device + ".least",
                           .what = "smallest reduction of the mean completion",
                           .unit = "%",
                           .paper = flash ? 11 : 8,
                           .goal = flash ? 11 : 8,
                           .goal_is = Claim::Goal::kAtLeast,
                           .ours = reductions.least});
  result.claims.push_back(
      {.id = "sc11-figure6." + device + ".most",
       .what = "largest reduction of the mean completion",
       .unit = "%",
       .paper = flash ? 43 : 42,
       .goal = flash ? 43 : 42,
       .goal_is = Claim::Goal::kAtLeast,
       .ours = reductions.most,
       .bound = flash ? std::optional<double>(50) : std::nullopt});  // disks also gain from the order of offsets
  result.claims.push_back({.id = "sc11-figure6." + device + ".concert",
                           .what = "concert's mean completion over fifo's, largest of all cells",
                           .unit = "x",
                           .goal = 1.05,
                           .goal_is = Claim::Goal::kAtMost,
                           .ours = concert_over_fifo});
}

}  // namespace

Result<ExperimentResult> sc11_figure6(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device",    "processes", "applications", "fifo ms", "depth",
                    "window ms", "depth ",    "concert ms",   "depth  ", "reduction %"};
  result.device =
      "hdd-7200 and ssd-2010, 16 servers, each policy at its best depth, window and concert by offset on "
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
    const Figure6Size size = figure6_size(options.mode, flash);
    const Trial trial{options.mode, size.seeds, "1000ms", size.slow_motion};
    double least = 100, most = 0, concert_over_fifo = 0;
    for (const unsigned processes : size.processes) {
      say(options, fmt::format("sc11-figure6: {} {} processes", device, processes));
      Line fifo{fmt::format("{}C-ori", processes), {}, {}}, window{fmt::format("{}C-cio", processes), {}, {}};
      for (const unsigned instances : size.instances) {
        const Make make = [&](const std::string& policy, std::uint64_t seed) {
          return figure6_scenario(flash, instances, processes, size, policy, seed);
        };
        const auto pair = both(make, trial);
        if (!pair) return Failure(pair.error());
        const auto concert = best_depth(make, "concert", trial);
        if (!concert) return Failure(concert.error());
        const double saved = reduction(pair->fifo.averages.operation, pair->window.averages.operation);
        least = std::min(least, saved), most = std::max(most, saved);
        concert_over_fifo = std::max(concert_over_fifo, concert->averages.operation / pair->fifo.averages.operation);
        result.rows.push_back({device, std::int64_t{processes}, std::int64_t{instances},
                               pair->fifo.averages.operation * 1e3, std::int64_t{pair->fifo.depth},
                               pair->window.averages.operation * 1e3, std::int64_t{pair->window.depth},
                               concert->averages.operation * 1e3, std::int64_t{concert->depth}, saved});
        fifo.x.push_back(instances), fifo.y.push_back(pair->fifo.averages.operation * 1e3);
        window.x.push_back(instances), window.y.push_back(pair->window.averages.operation * 1e3);
      }
      chart.lines.push_back(std::move(fifo)), chart.lines.push_back(std::move(window));
    }
    result.charts.push_back(std::move(chart));
    figure6_claims({least, most}, concert_over_fifo, flash, result);
  }
  return result;
}

namespace {

// One panel of figure 7 with the paper's numbers of servers. Adds its rows and chart; returns the last reduction.
Result<double> figure7_panel(Mode mode, bool flash, Direction direction, unsigned processes, ExperimentResult& result) {
  const std::string device = flash ? "ssd" : "hdd";
  const std::string way = direction == Direction::kRead ? "read" : "write";
  Chart chart{.title = fmt::format("Mean completion ({}, {}, {} processes)", device, way, processes),
              .x_label = "servers",
              .y_label = "ms",
              .bars = false,
              .logarithmic_x = true,
              .lines = {{"fifo", {}, {}}, {"window", {}, {}}}};
  double saved = 0;
  for (unsigned servers = 2; servers <= (flash ? 16u : 64u); servers *= 2) {
    const auto pair =
        both([&](const std::string& policy,
                 std::uint64_t seed) { return figure7_scenario(flash, servers, processes, direction, policy, seed); },
             {mode, kScaleSeeds, width_of(flash)});
    if (!pair) return Failure(pair.error());
    saved = reduction(pair->fifo.averages.operation, pair->window.averages.operation);
    const double values[2] = {pair->fifo.averages.operation * 1e3, pair->window.averages.operation * 1e3};
    result.rows.push_back({device, "as the paper's", way, std::int64_t{processes}, std::int64_t{servers}, values[0],
                           std::int64_t{pair->fifo.depth}, values[1], std::int64_t{pair->window.depth}, saved});
    for (int i = 0; i < 2; ++i) chart.lines[i].x.push_back(servers), chart.lines[i].y.push_back(values[i]);
  }
  result.charts.push_back(std::move(chart));
  return saved;
}

// Up to 4096 servers, where an operation is 32 MiB. The bandwidth of the network has no limit, so that only the order
// of service is measured. Returns window's largest mean over its smallest.
Result<double> figure7_beyond(Mode mode, bool flash, ExperimentResult& result) {
  const std::string device = flash ? "ssd" : "hdd";
  constexpr unsigned kDepth = 4;
  Chart chart{.title = fmt::format("Mean completion on to 4096 servers ({}, read, 8 processes)", device),
              .x_label = "servers",
              .y_label = "ms",
              .bars = false,
              .logarithmic_x = true,
              .lines = {{"fifo", {}, {}}, {"window", {}, {}}}};
  double slowest = 0, fastest = 1e9;
  for (const unsigned servers : {2u, 8u, 64u, 512u, 4096u}) {
    double values[2];
    for (const bool window : {false, true}) {
      const auto averages = average(mode,
                                    [&](std::uint64_t seed) {
                                      Scenario scenario = figure7_scenario(flash, servers, 8, Direction::kRead,
                                                                           window ? "window" : "fifo", seed);
                                      scenario.servers.depth = kDepth;
                                      if (window) scenario.servers.policy.options["width"] = width_of(flash);
                                      scenario.network.client_bandwidth = scenario.network.server_bandwidth = 0;
                                      return scenario;
                                    },
                                    {.seeds = servers > 64 ? 1u : 5u});
      if (!averages) return Failure(averages.error());
      values[window] = averages->operation * 1e3;
      chart.lines[window].x.push_back(servers), chart.lines[window].y.push_back(values[window]);
    }
    result.rows.push_back({device, "no limit", "read", std::int64_t{8}, std::int64_t{servers}, values[0],
                           std::int64_t{kDepth}, values[1], std::int64_t{kDepth}, reduction(values[0], values[1])});
    slowest = std::max(slowest, values[1]);
    fastest = std::min(fastest, values[1]);
  }
  result.charts.push_back(std::move(chart));
  return slowest / fastest;
}

}  // namespace

Result<ExperimentResult> sc11_figure7(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device",  "network", "direction", "processes", "servers",
                    "fifo ms", "depth",   "window ms", "depth ",    "reduction %"};
  result.device = "hdd-7200 and ssd-2010, each policy at its best depth, window by offset on disk";
  for (const bool flash : {false, true}) {
    const std::string device = flash ? "ssd" : "hdd";
    double largest = 0;
    for (const Direction direction : {Direction::kRead, Direction::kWrite})
      for (const unsigned processes : {8u, 16u, 32u}) {
        say(options, fmt::format("sc11-figure7: {} {} processes", device, processes));
        const auto saved = figure7_panel(options.mode, flash, direction, processes, result);
        if (!saved) return Failure(saved.error());
        largest = std::max(largest, *saved);
      }
    say(options, fmt::format("sc11-figure7: {} on to 4096 servers", device));
    const auto flat = figure7_beyond(options.mode, flash, result);
    if (!flat) return Failure(flat.error());
    result.claims.push_back(
        {.id = fmt::format("sc11-figure7.{}.reduction", device),
         .what = fmt::format("mean completion below fifo's at {} servers, best panel", flash ? 16 : 64),
         .unit = "%",
         .paper = flash ? 39 : 46,
         .goal = flash ? 39 : 46,
         .goal_is = Claim::Goal::kAtLeast,
         .ours = largest,
         .bound = flash ? std::optional<double>(50) : std::nullopt});
    result.claims.push_back({.id = fmt::format("sc11-figure7.{}.flat", device),
                             .what = "window's slowest mean over its fastest, 2 to 4096 servers, reads, 8 processes",
                             .unit = "x",
                             .paper = {},
                             .goal = flash ? 1.2 : 1.6,  // with more disks the slowest seek is slower
                             .goal_is = Claim::Goal::kAtMost,
                             .ours = *flat,
                             .bound = 1});
  }
  return result;
}

namespace {

// One device of figure 8. Adds its rows, chart and claims.
Result<void> figure8_device(bool flash, const LabOptions& options, ExperimentResult& result) {
  const std::string device = flash ? "ssd" : "hdd";
  Chart chart{.title = fmt::format("Mean completion by window ({})", device),
              .x_label = "processes",
              .y_label = "ms",
              .bars = true,
              .logarithmic_x = false,
              .lines = {{"fifo", {}, {}}}};
  double least = 100, bandwidth = 0;
  for (const unsigned processes : {8u, 16u, 32u}) {
    say(options, fmt::format("sc11-figure8: {} {} processes", device, processes));
    const Make make = [&](const std::string& policy, std::uint64_t seed) {
      return figure8_scenario(flash, processes, policy, seed);
    };
    Best fifo;
    std::size_t line = 0;
    for (const int width : {0, 250, 500, 1000, 2000}) {
      const std::string policy = width ? "window" : "fifo";
      const auto best = best_depth(make, policy, {options.mode, 2, fmt::format("{}ms", width)});
      if (!best) return Failure(best.error());
      if (!width) fifo = *best;
      result.rows.push_back({device, std::int64_t{processes}, policy, std::int64_t{width}, std::int64_t{best->depth},
                             best->averages.operation * 1e3, best->averages.bandwidth / 1e6});
      if (chart.lines.size() <= line) chart.lines.push_back({fmt::format("window {} ms", width), {}, {}});
      chart.lines[line].x.push_back(processes), chart.lines[line++].y.push_back(best->averages.operation * 1e3);
      if (width != (flash ? 250 : 1000)) continue;
      least = std::min(least, reduction(fifo.averages.operation, best->averages.operation));
      if (processes == 32) bandwidth = -reduction(fifo.averages.bandwidth, best->averages.bandwidth);
    }
  }
  result.charts.push_back(std::move(chart));
  result.claims.push_back({.id = fmt::format("sc11-figure8.{}.lower", device),
                           .what = fmt::format("smallest reduction of the mean completion at {}", width_of(flash)),
                           .unit = "%",
                           .paper = {},
                           .goal = 0,
                           .goal_is = Claim::Goal::kAtLeast,
                           .ours = least});
  result.claims.push_back({.id = fmt::format("sc11-figure8.{}.bandwidth", device),
                           .what = "more aggregate bandwidth than fifo with 32 processes",
                           .unit = "%",
                           .paper = flash ? std::optional<double>{} : 10.9,
                           .goal = flash ? 0 : 10.9,
                           .goal_is = Claim::Goal::kAtLeast,
                           .ours = bandwidth});
  return {};
}

}  // namespace

Result<ExperimentResult> sc11_figure8(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device", "processes", "policy", "width ms", "depth", "mean completion ms", "bandwidth MB/s"};
  result.device = "hdd-7200 and ssd-2010, 16 servers, each policy at its best depth, window by offset on disk";
  for (const bool flash : {false, true})
    if (auto done = figure8_device(flash, options, result); !done) return Failure(done.error());
  return result;
}

}  // namespace tutti::lab
