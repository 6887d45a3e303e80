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

constexpr unsigned kSeeds = 10;

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
  return average(mode, [&](std::uint64_t seed) { return forwarding_scenario(setup, seed); }, {.seeds = kSeeds});
}

// The makespans of one set-up: by policy or width, and seed.
struct Makespans {
  using OfPolicies = std::vector<std::vector<double>>;
  OfPolicies none;      // without forwarding nodes
  OfPolicies baseline;  // all other policies at the nodes
  OfPolicies twins;     // twins with all widths
};

// The best mean.
double best_of(const Makespans::OfPolicies& makespans, WithoutSeed without) {
  double best = mean_of(makespans.front(), without);
  for (const auto& each : makespans) best = std::min(best, mean_of(each, without));
  return best;
}

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
  Makespans makespans;
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
    auto& its = setup.nodes == 0 ? makespans.none : setup.policy == "twins" ? makespans.twins : makespans.baseline;
    its.push_back(averages->makespans);
  }
  return makespans;
}

// Of one set-up, with one application and with two.
struct OneAndTwo {
  Makespans one, two;
};

// The best figures of all set-ups.
struct BestGains {
  double over_baseline = -100, over_none = -100, two_over_baseline = -100, interference = 100;
};

BestGains gains_of(const std::vector<OneAndTwo>& measured, WithoutSeed without) {
  struct Best {
    double none, baseline, twins;
  };
  const auto best = [&](const Makespans& makespans) {
    return Best{best_of(makespans.none, without), best_of(makespans.baseline, without),
                best_of(makespans.twins, without)};
  };
  BestGains gains;
  for (const OneAndTwo& setup : measured) {
    const Best one = best(setup.one), two = best(setup.two);
    gains.over_baseline = std::max(gains.over_baseline, reduction(one.baseline, one.twins));
    gains.two_over_baseline = std::max(gains.two_over_baseline, reduction(two.baseline, two.twins));
    gains.over_none = std::max({gains.over_none, reduction(one.none, one.twins), reduction(two.none, two.twins)});
    gains.interference = std::min(gains.interference, (two.twins / one.twins) / (two.baseline / one.baseline));
  }
  return gains;
}

}  // namespace

Result<ExperimentResult> twins_forwarding(const LabOptions& options) {
  ExperimentResult result;
  result.device = "hdd-7200 behind memory, 100 us per request, depth 16, 4 at forwarding nodes";
  result.columns = {"pattern", "applications", "per client node", "servers",    "forwarding nodes",
                    "policy",  "mode",         "width",           "makespan s", "MB/s"};
  std::vector<OneAndTwo> measured;
  std::vector<Setup> setups;
  for (const Pattern pattern : {Pattern::kContiguous, Pattern::kStrided})
    for (const unsigned per_node : {1u, 2u})
      for (const unsigned servers : {4u, 8u})
        for (const unsigned nodes : {2u, 4u, 8u})
          setups.push_back({.servers = servers, .nodes = nodes, .per_node = per_node, .pattern = pattern});
  for (Setup& setup : setups) {
    say(options, fmt::format("twins-forwarding: {}, {} servers, {} nodes, {} per client node", name_of(setup.pattern),
                             setup.servers, setup.nodes, setup.per_node));
    auto one = all_policies(options.mode, setup, result);
    if (!one) return Failure(one.error());
    setup.applications = 2;
    auto two = all_policies(options.mode, setup, result);
    if (!two) return Failure(two.error());
    measured.push_back({std::move(*one), std::move(*two)});
  }
  const auto claim = [&](const char* id, const char* what, const char* unit, double paper, double BestGains::*ours) {
    result.claims.push_back(with(
        {.id = fmt::format("twins-forwarding.{}", id), .what = what, .unit = unit, .paper = paper, .reproduced = true},
        jackknife(kSeeds, [&](WithoutSeed without) { return gains_of(measured, without).*ours; })));
  };
  claim("baseline", "best gain of twins over the best other policy", "%", 28, &BestGains::over_baseline);
  claim("none", "best gain of twins over no forwarding", "%", 50, &BestGains::over_none);
  claim("two", "best gain with two applications over the best other policy", "%", 16, &BestGains::two_over_baseline);
  claim("interference", "interference factor (two over one) against the best other policy", "x", 0.88,
        &BestGains::interference);
  return result;
}

}  // namespace tutti::lab
