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

// Batches a server keeps at its device; PVFS2 keeps 16. Each policy is run with each and shown at its best. One at a
// time is never best on flash.
std::vector<unsigned> depths(bool flash) {
  return flash ? std::vector<unsigned>{4, 8, 16} : std::vector<unsigned>{1, 4, 8, 16};
}

// Where the files lie and which application comes first is chance, by up to six per cent of the mean completion.
constexpr unsigned kSeeds = 6;

// The environments of section 5: Gigabit Ethernet with disks, InfiniBand with flash.
Scenario environment(bool flash, unsigned servers, const std::string& policy, std::uint64_t seed) {
  Scenario scenario = sc11_cluster(flash, servers, 16, Bytes(20'000'000'000));
  if (!flash) scenario.network.client_bandwidth = scenario.network.server_bandwidth = 125e6;
  scenario.seed = seed;
  scenario.servers.policy.name = policy;
  if (policy == "window" && !flash) scenario.servers.policy.options["order"] = "offset";
  return scenario;
}

Application instance(const std::string& name, unsigned processes, Bytes request, Bytes stripe) {
  Application application;
  application.name = name;
  application.ranks = processes;
  application.ranks_per_node = std::max(1u, processes * 10 / 64);  // ten instances on 64 nodes
  application.size = request;
  application.stripe_size = stripe;
  application.barrier = sim::Barrier::kOperation;  // an MPI_Barrier between two requests
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

// A policy at the depth that gives it the smallest mean completion.
Result<Best> best_depth(const Make& make, const std::string& policy, unsigned seeds, const std::string& width) {
  Best best;
  const bool flash = std::holds_alternative<SsdFigures>(make(policy, kFirstSeed).servers.device);
  for (const unsigned depth : depths(flash)) {
    const auto averages = average(
        [&](std::uint64_t seed) {
          Scenario scenario = make(policy, seed);
          scenario.servers.depth = depth;
          if (policy == "window") scenario.servers.policy.options["width"] = width;
          return scenario;
        },
        {.seeds = seeds});
    if (!averages) return Failure(averages.error());
    if (best.depth == 0 || averages->operation < best.averages.operation) best = {*averages, depth};
  }
  return best;
}

struct Pair {
  Best fifo;
  Best window;
};

// The same scenario without and with coordination.
Result<Pair> both(const Make& make, unsigned seeds, const std::string& width) {
  auto fifo = best_depth(make, "fifo", seeds, width);
  if (!fifo) return Failure(fifo.error());
  auto window = best_depth(make, "window", seeds, width);
  if (!window) return Failure(window.error());
  return Pair{*fifo, *window};
}

Scenario figure6_scenario(bool flash, unsigned instances, unsigned processes, const std::string& policy,
                          std::uint64_t seed) {
  Scenario scenario = environment(flash, 16, policy, seed);
  for (unsigned i = 0; i < instances; ++i) {
    Application application = instance(fmt::format("ior{}", i), processes, 128_KiB, 4_KiB);
    application.operations = 8;
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
    application.pattern = Pattern::kStrided;  // PIO-Bench's sequential access: the processes follow each other
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

}  // namespace

Result<ExperimentResult> sc11_figure6(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device", "processes", "applications", "fifo ms", "depth", "window ms", "depth ", "reduction %"};
  result.device = "hdd-7200 and ssd-2010, 16 servers, each policy at its best depth, window by offset on disk";
  for (const bool flash : {false, true}) {
    const std::string device = flash ? "ssd" : "hdd";
    Chart chart{.title = fmt::format("Mean completion ({})", device),
                .x_label = "applications",
                .y_label = "ms",
                .bars = false,
                .logarithmic_x = false,
                .lines = {}};
    double least = 100, most = 0;
    for (const unsigned processes : {8u, 16u, 32u}) {
      say(options, fmt::format("sc11-figure6: {} {} processes", device, processes));
      Line fifo{fmt::format("{}C-ori", processes), {}, {}}, window{fmt::format("{}C-cio", processes), {}, {}};
      for (unsigned instances = 2; instances <= 16; instances += 2) {
        const auto pair =
            both([&](const std::string& policy,
                     std::uint64_t seed) { return figure6_scenario(flash, instances, processes, policy, seed); },
                 kSeeds, "1000ms");
        if (!pair) return Failure(pair.error());
        const double saved = reduction(pair->fifo.averages.operation, pair->window.averages.operation);
        least = std::min(least, saved), most = std::max(most, saved);
        result.rows.push_back({device, std::int64_t{processes}, std::int64_t{instances},
                               pair->fifo.averages.operation * 1e3, std::int64_t{pair->fifo.depth},
                               pair->window.averages.operation * 1e3, std::int64_t{pair->window.depth}, saved});
        fifo.x.push_back(instances), fifo.y.push_back(pair->fifo.averages.operation * 1e3);
        window.x.push_back(instances), window.y.push_back(pair->window.averages.operation * 1e3);
      }
      chart.lines.push_back(std::move(fifo)), chart.lines.push_back(std::move(window));
    }
    result.charts.push_back(std::move(chart));
    result.claims.push_back({.id = "sc11-figure6." + device + ".least",
                             .what = "smallest reduction of the mean completion",
                             .unit = "%",
                             .paper = flash ? 11 : 8,
                             .goal = flash ? 11 : 8,
                             .kind = Claim::Goal::kAtLeast,
                             .ours = least});
    result.claims.push_back({.id = "sc11-figure6." + device + ".most",
                             .what = "largest reduction of the mean completion",
                             .unit = "%",
                             .paper = flash ? 43 : 42,
                             .goal = flash ? 43 : 42,
                             .kind = Claim::Goal::kAtLeast,
                             .ours = most,
                             .bound = flash ? std::optional<double>(50) : std::nullopt});  // disks gain by order, too
  }
  return result;
}

namespace {

// One panel of figure 7: the paper's numbers of servers. Adds its rows and chart; returns the reduction at the last.
Result<double> figure7_panel(bool flash, Direction direction, unsigned processes, ExperimentResult& result) {
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
             kSeeds, width_of(flash));
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

// On to 4096 servers, where a request is 32 MiB: with a network that grows along, so that only the order of service
// is measured. Returns window's slowest mean over its fastest.
Result<double> figure7_beyond(bool flash, ExperimentResult& result) {
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
      const auto averages = average(
          [&](std::uint64_t seed) {
            Scenario scenario = figure7_scenario(flash, servers, 8, Direction::kRead, window ? "window" : "fifo", seed);
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
        const auto saved = figure7_panel(flash, direction, processes, result);
        if (!saved) return Failure(saved.error());
        largest = std::max(largest, *saved);
      }
    say(options, fmt::format("sc11-figure7: {} on to 4096 servers", device));
    const auto flat = figure7_beyond(flash, result);
    if (!flat) return Failure(flat.error());
    result.claims.push_back(
        {.id = fmt::format("sc11-figure7.{}.reduction", device),
         .what = fmt::format("mean completion below fifo's at {} servers, best panel", flash ? 16 : 64),
         .unit = "%",
         .paper = flash ? 39 : 46,
         .goal = flash ? 39 : 46,
         .kind = Claim::Goal::kAtLeast,
         .ours = largest,
         .bound = flash ? std::optional<double>(50) : std::nullopt});
    result.claims.push_back({.id = fmt::format("sc11-figure7.{}.flat", device),
                             .what = "window's slowest mean over its fastest, 2 to 4096 servers, reads, 8 processes",
                             .unit = "x",
                             .paper = {},
                             .goal = flash ? 1.2 : 1.6,  // the slowest seek of more disks is slower
                             .kind = Claim::Goal::kAtMost,
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
      const auto best = best_depth(make, policy, 2, fmt::format("{}ms", width));
      if (!best) return Failure(best.error());
      if (!width) fifo = *best;
      result.rows.push_back({device, std::int64_t{processes}, policy, std::int64_t{width}, std::int64_t{best->depth},
                             best->averages.operation * 1e3, best->averages.reported_bandwidth / 1e6});
      if (chart.lines.size() <= line) chart.lines.push_back({fmt::format("window {} ms", width), {}, {}});
      chart.lines[line].x.push_back(processes), chart.lines[line++].y.push_back(best->averages.operation * 1e3);
      if (width != (flash ? 250 : 1000)) continue;
      least = std::min(least, reduction(fifo.averages.operation, best->averages.operation));
      if (processes == 32) bandwidth = -reduction(fifo.averages.reported_bandwidth, best->averages.reported_bandwidth);
    }
  }
  result.charts.push_back(std::move(chart));
  result.claims.push_back({.id = fmt::format("sc11-figure8.{}.lower", device),
                           .what = fmt::format("smallest reduction of the mean completion at {}", width_of(flash)),
                           .unit = "%",
                           .paper = {},
                           .goal = 0,
                           .kind = Claim::Goal::kAtLeast,
                           .ours = least});
  result.claims.push_back({.id = fmt::format("sc11-figure8.{}.bandwidth", device),
                           .what = "more aggregate bandwidth than fifo with 32 processes",
                           .unit = "%",
                           .paper = flash ? std::optional<double>{} : 10.9,
                           .goal = flash ? 0 : 10.9,
                           .kind = Claim::Goal::kAtLeast,
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
