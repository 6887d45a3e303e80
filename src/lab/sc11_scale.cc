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
using sim::Application;
using sim::Pattern;
using sim::Scenario;

constexpr unsigned kDepth = 16;  // of every server, whatever its policy: what PVFS2 keeps at its disk

// The environments of section 5: Gigabit Ethernet with disks, InfiniBand with flash; eight processes on a node.
Scenario environment(bool flash, unsigned servers, const std::string& policy, std::uint64_t seed) {
  Scenario scenario = sc11_cluster(flash, servers, kDepth, Bytes(20'000'000'000));
  if (!flash) scenario.network.client_bandwidth = scenario.network.server_bandwidth = 125e6;
  scenario.seed = seed;
  scenario.servers.policy.name = policy;
  return scenario;
}

Application instance(const std::string& name, unsigned processes, Bytes request, Bytes stripe) {
  Application application;
  application.name = name;
  application.ranks = processes;
  application.ranks_per_node = 8;
  application.size = request;
  application.stripe_size = stripe;
  application.barrier = sim::Barrier::kOperation;  // an MPI_Barrier between two requests
  return application;
}

std::string width_of(bool flash) {
  return flash ? "250ms" : "1000ms";
}

struct Pair {
  Averages fifo;
  Averages window;
};

// The same scenario without and with coordination.
Result<Pair> both(const std::function<Scenario(const std::string&, std::uint64_t)>& make, unsigned seeds,
                  const std::string& width) {
  auto fifo = average([&](std::uint64_t seed) { return make("fifo", seed); }, {.seeds = seeds});
  if (!fifo) return Failure(fifo.error());
  auto window = average(
      [&](std::uint64_t seed) {
        Scenario scenario = make("window", seed);
        scenario.servers.policy.options["width"] = width;
        return scenario;
      },
      {.seeds = seeds});
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
  result.columns = {"device", "processes", "applications", "fifo ms", "window ms", "reduction %"};
  result.device = fmt::format("hdd-7200 and ssd-2010, 16 servers, depth {}", kDepth);
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
                 3, width_of(flash));
        if (!pair) return Failure(pair.error());
        const double saved = reduction(pair->fifo.operation, pair->window.operation);
        least = std::min(least, saved), most = std::max(most, saved);
        result.rows.push_back({device, std::int64_t{processes}, std::int64_t{instances}, pair->fifo.operation * 1e3,
                               pair->window.operation * 1e3, saved});
        fifo.x.push_back(instances), fifo.y.push_back(pair->fifo.operation * 1e3);
        window.x.push_back(instances), window.y.push_back(pair->window.operation * 1e3);
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
                             .bound = 50});
  }
  return result;
}

Result<ExperimentResult> sc11_figure7(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device", "direction", "processes", "servers", "fifo ms", "window ms", "reduction %"};
  result.device = fmt::format("hdd-7200 and ssd-2010, depth {}", kDepth);
  for (const bool flash : {false, true}) {
    const std::string device = flash ? "ssd" : "hdd";
    const unsigned paper_end = flash ? 16 : 64;
    double at_paper_end = 0, at_paper_end_cells = 0, slowest = 0, fastest = 1e9;
    for (const Direction direction : {Direction::kRead, Direction::kWrite})
      for (const unsigned processes : {8u, 16u, 32u}) {
        const std::string way = direction == Direction::kRead ? "read" : "write";
        Chart chart{.title = fmt::format("Mean completion ({}, {}, {} processes)", device, way, processes),
                    .x_label = "servers",
                    .y_label = "ms",
                    .bars = false,
                    .logarithmic_x = true,
                    .lines = {{"fifo", {}, {}}, {"window", {}, {}}}};
        for (unsigned servers = 2; servers <= 4096; servers *= 2) {
          if (servers > paper_end && (processes > 8 || (servers > 64 && servers != 512 && servers != 4096))) continue;
          say(options, fmt::format("sc11-figure7: {} {} {} processes, {} servers", device, way, processes, servers));
          const auto pair = both(
              [&](const std::string& policy, std::uint64_t seed) {
                return figure7_scenario(flash, servers, processes, direction, policy, seed);
              },
              servers > 64 ? 1 : 3, width_of(flash));
          if (!pair) return Failure(pair.error());
          const double saved = reduction(pair->fifo.operation, pair->window.operation);
          result.rows.push_back({device, way, std::int64_t{processes}, std::int64_t{servers},
                                 pair->fifo.operation * 1e3, pair->window.operation * 1e3, saved});
          const double values[2] = {pair->fifo.operation * 1e3, pair->window.operation * 1e3};
          for (int i = 0; i < 2; ++i) chart.lines[i].x.push_back(servers), chart.lines[i].y.push_back(values[i]);
          if (servers == paper_end) at_paper_end += saved, ++at_paper_end_cells;
          if (processes == 8 && direction == Direction::kRead)
            slowest = std::max(slowest, values[1]), fastest = std::min(fastest, values[1]);
        }
        result.charts.push_back(std::move(chart));
      }
    result.claims.push_back({.id = fmt::format("sc11-figure7.{}.reduction", device),
                             .what = fmt::format("mean completion below fifo's at {} servers", paper_end),
                             .unit = "%",
                             .paper = flash ? 39 : 46,
                             .goal = flash ? 39 : 46,
                             .kind = Claim::Goal::kAtLeast,
                             .ours = at_paper_end / at_paper_end_cells,
                             .bound = 50});
    result.claims.push_back({.id = fmt::format("sc11-figure7.{}.flat", device),
                             .what = "window's slowest mean over its fastest, 2 to 4096 servers, reads, 8 processes",
                             .unit = "x",
                             .paper = {},
                             .goal = 1.5,
                             .kind = Claim::Goal::kAtMost,
                             .ours = slowest / fastest,
                             .bound = 1});
  }
  return result;
}

Result<ExperimentResult> sc11_figure8(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"device", "processes", "policy", "width ms", "mean completion ms", "bandwidth MB/s"};
  result.device = fmt::format("hdd-7200 and ssd-2010, 16 servers, depth {}", kDepth);
  for (const bool flash : {false, true}) {
    const std::string device = flash ? "ssd" : "hdd";
    Chart chart{.title = fmt::format("Mean completion by window ({})", device),
                .x_label = "processes",
                .y_label = "ms",
                .bars = true,
                .logarithmic_x = false,
                .lines = {{"fifo", {}, {}}}};
    double best_saved = 100, bandwidth = 0;
    for (const unsigned processes : {8u, 16u, 32u}) {
      say(options, fmt::format("sc11-figure8: {} {} processes", device, processes));
      const auto fifo =
          average([&](std::uint64_t seed) { return figure8_scenario(flash, processes, "fifo", seed); }, {.seeds = 3});
      if (!fifo) return Failure(fifo.error());
      result.rows.push_back(
          {device, std::int64_t{processes}, "fifo", std::int64_t{0}, fifo->operation * 1e3, fifo->bandwidth / 1e6});
      chart.lines[0].x.push_back(processes), chart.lines[0].y.push_back(fifo->operation * 1e3);
      std::size_t line = 1;
      for (const int width : {250, 500, 1000, 2000}) {
        const auto window = average(
            [&](std::uint64_t seed) {
              Scenario scenario = figure8_scenario(flash, processes, "window", seed);
              scenario.servers.policy.options["width"] = fmt::format("{}ms", width);
              return scenario;
            },
            {.seeds = 3});
        if (!window) return Failure(window.error());
        result.rows.push_back({device, std::int64_t{processes}, "window", std::int64_t{width}, window->operation * 1e3,
                               window->bandwidth / 1e6});
        if (chart.lines.size() <= line) chart.lines.push_back({fmt::format("window {} ms", width), {}, {}});
        chart.lines[line].x.push_back(processes), chart.lines[line++].y.push_back(window->operation * 1e3);
        if (width != (flash ? 250 : 1000)) continue;
        best_saved = std::min(best_saved, reduction(fifo->operation, window->operation));
        if (processes == 32) bandwidth = 100 * (window->bandwidth / fifo->bandwidth - 1);
      }
    }
    result.charts.push_back(std::move(chart));
    result.claims.push_back({.id = fmt::format("sc11-figure8.{}.lower", device),
                             .what = fmt::format("smallest reduction of the mean completion at {}", width_of(flash)),
                             .unit = "%",
                             .paper = {},
                             .goal = 0,
                             .kind = Claim::Goal::kAtLeast,
                             .ours = best_saved});
    result.claims.push_back({.id = fmt::format("sc11-figure8.{}.bandwidth", device),
                             .what = "more bandwidth than fifo with 32 processes",
                             .unit = "%",
                             .paper = flash ? std::optional<double>{} : 10.9,
                             .goal = -1.2,
                             .kind = Claim::Goal::kAtLeast,
                             .ours = bandwidth});
  }
  return result;
}

}  // namespace tutti::lab
