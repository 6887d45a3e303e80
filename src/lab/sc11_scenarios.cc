// SPDX-License-Identifier: Apache-2.0
#include "lab/sc11_scenarios.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;

// The environments of section 5: disks with Gigabit Ethernet, flash with InfiniBand.
Scenario environment(const Sc11Run& run, unsigned servers) {
  Scenario scenario = sc11_cluster(run.flash, servers, run.depth, Bytes(20'000'000'000));
  if (!run.flash) scenario.network.client_bandwidth = scenario.network.server_bandwidth = 125e6;
  scenario.seed = run.seed;
  scenario.servers.policy.name = run.policy;
  if (run.policy == "window") scenario.servers.policy.options["width"] = run.width;
  if (run.policy != "fifo" && !run.flash && !run.paper) scenario.servers.policy.options["order"] = "offset";
  return scenario;
}

struct IorRequest {
  Bytes size;
  Bytes stripe;
};

Application instance(const Sc11Run& run, const std::string& name, unsigned processes, const IorRequest& request) {
  Application application;
  application.name = name;
  application.ranks = processes;
  application.ranks_per_node = std::max(1u, processes * 10 / 64);  // ten instances on 64 nodes
  application.size = request.size;
  application.stripe_size = request.stripe;
  application.barrier = sim::RankBarrier::kOperation;  // an MPI_Barrier between two requests
  application.sizes = sim::PhaseSizes::kAnnounced;
  if (run.paper) {
    application.flow = 256_KiB;
    application.rank_spread = start_spread(run.flash);
  }
  return application;
}

}  // namespace

Duration start_spread(bool flash) {
  return flash ? 50us : 250us;
}

std::string recommended_width(bool flash) {
  return flash ? "250ms" : "1000ms";
}

Scenario figure6_scenario(const Sc11Run& run, const Figure6Cell& cell, const Figure6Size& size) {
  Scenario scenario = environment(run, 16);
  for (unsigned i = 0; i < cell.instances; ++i) {
    Application application = instance(run, fmt::format("ior{}", i), cell.processes, {128_KiB, 4_KiB});
    application.operations = size.operations;
    if (size.one_client) application.ranks_per_node = cell.processes;
    scenario.applications.push_back(application);
  }
  return scenario;
}

Scenario figure7_scenario(const Sc11Run& run, const Figure7Cell& cell) {
  Scenario scenario = environment(run, cell.servers);
  for (unsigned i = 0; i < 10; ++i) {
    Application application = instance(run, fmt::format("pio{}", i), cell.processes, {8_KiB * cell.servers, 8_KiB});
    application.operations = cell.servers > 256 ? 2 : 4;
    application.direction = cell.direction;
    application.pattern =
        Pattern::kStrided;  // PIO-Bench's sequential access: each process continues after the one before
    scenario.applications.push_back(application);
  }
  return scenario;
}

Scenario figure8_scenario(const Sc11Run& run, unsigned processes) {
  Scenario scenario = environment(run, 16);
  const auto add = [&](const char* name, int count, Pattern pattern, Bytes block) {
    for (int i = 0; i < count; ++i) {
      Application application = instance(run, fmt::format("{}{}", name, i), processes, {128_KiB, 4_KiB});
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

}  // namespace tutti::lab
