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
  unsigned nodes = 4;  // forwarding; 0: none
  Pattern pattern = Pattern::kStrided;
  unsigned applications = 1;
  std::string policy = "fifo";  // of the forwarding nodes
  std::string width{};          // of twins
};

// MPI-IO Test: 64 processes read a shared file with 32 KiB requests; four data servers with disks.
Scenario forwarding_scenario(const Setup& setup, std::uint64_t seed) {
  Scenario scenario = ethernet_disks(16, seed);
  scenario.forwarding.count = setup.nodes;
  scenario.forwarding.depth = 4;
  scenario.forwarding.policy.name = setup.policy;
  if (setup.policy == "twins") scenario.forwarding.policy.options = {{"width", setup.width}, {"targets", "4"}};
  for (unsigned i = 0; i < setup.applications; ++i) {
    Application application;
    application.name = fmt::format("test{}", i);
    application.ranks = 64 / setup.applications;
    application.operations = 32;
    application.size = 32_KiB;
    application.stripe_size = 32_KiB;
    application.pattern = setup.pattern;
    scenario.applications.push_back(application);
  }
  return scenario;
}

const char* name_of(Pattern pattern) {
  return pattern == Pattern::kStrided ? "1-D strided" : "contiguous";
}

Result<Averages> run(const Setup& setup) {
  return average([&](std::uint64_t seed) { return forwarding_scenario(setup, seed); }, {.seeds = 3});
}

}  // namespace

Result<ExperimentResult> twins_forwarding(const LabOptions& options) {
  ExperimentResult result;
  result.device = "hdd-7200 behind memory, 4 servers, 100 us per request, depth 16, 4 at forwarding nodes";
  result.columns = {"pattern", "applications", "forwarding nodes", "policy", "width", "makespan s", "MB/s"};
  double over_baseline = -100, over_none = -100, two_over_baseline = -100, interference = 100;
  for (const Pattern pattern : {Pattern::kContiguous, Pattern::kStrided})
    for (const unsigned nodes : {2u, 4u, 8u}) {
      say(options, fmt::format("twins-forwarding: {}, {} nodes", name_of(pattern), nodes));
      double alone_twins = 0, alone_baseline = 0;
      for (const unsigned applications : {1u, 2u}) {
        double baseline = 0, none = 0, twins = 0;  // best makespans
        for (const char* policy : {"none", "fifo", "to", "hbrr", "sjf", "twins 250us", "twins 1ms", "twins 4ms"}) {
          Setup setup{.nodes = nodes, .pattern = pattern, .applications = applications, .policy = policy, .width = {}};
          if (setup.policy == "none") setup.nodes = 0, setup.policy = "fifo";
          const bool is_twins = setup.policy.starts_with("twins");
          if (is_twins) setup.width = setup.policy.substr(6), setup.policy = "twins";
          const auto averages = run(setup);
          if (!averages) return Failure(averages.error());
          result.rows.push_back({name_of(pattern), std::int64_t{applications}, std::int64_t{setup.nodes}, setup.policy,
                                 setup.width, averages->makespan, averages->bandwidth / 1e6});
          double& best = setup.nodes == 0 ? none : is_twins ? twins : baseline;
          if (best == 0 || averages->makespan < best) best = averages->makespan;
        }
        double& gain = applications == 1 ? over_baseline : two_over_baseline;
        gain = std::max(gain, reduction(baseline, twins));
        over_none = std::max(over_none, reduction(none, twins));
        if (applications == 1) alone_twins = twins, alone_baseline = baseline;
        if (applications == 2)
          interference = std::min(interference, (twins / alone_twins) / (baseline / alone_baseline));
      }
    }
  const auto claim = [&](const char* id, const char* what, const char* unit, double paper, Claim::Goal kind,
                         double ours) {
    result.claims.push_back({.id = fmt::format("twins-forwarding.{}", id),
                             .what = what,
                             .unit = unit,
                             .paper = paper,
                             .goal = paper,
                             .kind = kind,
                             .ours = ours});
  };
  claim("baseline", "best gain of twins over the best other policy", "%", 28, Claim::Goal::kAtLeast, over_baseline);
  claim("none", "best gain of twins over no forwarding", "%", 50, Claim::Goal::kAtLeast, over_none);
  claim("two", "best gain with two applications over the best other policy", "%", 16, Claim::Goal::kAtLeast,
        two_over_baseline);
  claim("interference", "interference factor (two over one) against the best other policy", "x", 0.88,
        Claim::Goal::kAtMost, interference);
  return result;
}

}  // namespace tutti::lab
