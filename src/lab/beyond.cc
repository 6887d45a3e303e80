// SPDX-License-Identifier: Apache-2.0
// Beyond the papers: jobs of unequal size under every policy, with sizes announced, learned, unknown and wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/prng.h"
#include "lab/catalogue.h"
#include "lab/tools.h"
#include "sched/policy.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using sim::Application;
using sim::PhaseSizes;
using sim::Scenario;

enum class Spread { kEqual, kUniform, kHeavy };
enum class Known { kAnnounced, kLearned, kUnknown, kWrong };

// One mix of jobs.
struct Mix {
  const char* name;
  bool phases;  // many synchronous operations, repeated; else one operation per job
  Spread spread;
  bool over_time;  // jobs start one after the other; else all at once
  bool partial;    // files over a quarter of the servers
  Known known;
};

constexpr Mix kMixes[] = {
    {"single equal", false, Spread::kEqual, false, false, Known::kAnnounced},
    {"single uniform", false, Spread::kUniform, false, false, Known::kAnnounced},
    {"single heavy", false, Spread::kHeavy, false, false, Known::kAnnounced},
    {"single heavy over time", false, Spread::kHeavy, true, false, Known::kAnnounced},
    {"single heavy partial", false, Spread::kHeavy, false, true, Known::kAnnounced},
    {"single heavy unknown", false, Spread::kHeavy, false, false, Known::kUnknown},
    {"phases equal learned", true, Spread::kEqual, false, false, Known::kLearned},
    {"phases uniform learned", true, Spread::kUniform, false, false, Known::kLearned},
    {"phases heavy announced", true, Spread::kHeavy, false, false, Known::kAnnounced},
    {"phases heavy learned", true, Spread::kHeavy, false, false, Known::kLearned},
    {"phases heavy learned over time", true, Spread::kHeavy, true, false, Known::kLearned},
    {"phases heavy learned partial", true, Spread::kHeavy, false, true, Known::kLearned},
    {"phases uniform unknown", true, Spread::kUniform, false, false, Known::kUnknown},
    {"phases heavy unknown", true, Spread::kHeavy, false, false, Known::kUnknown},
    {"phases heavy unknown over time", true, Spread::kHeavy, true, false, Known::kUnknown},
    {"phases heavy wrong by two", true, Spread::kHeavy, false, false, Known::kWrong},
    {"phases uniform wrong by two", true, Spread::kUniform, true, false, Known::kWrong},
};

// Between 1 and `most`, with the given spread; heavy-tailed is a Pareto distribution of shape 0.7, cut off at `most`.
double draw(Spread spread, double most, Prng& chance) {
  if (spread == Spread::kEqual) return most / 8;
  if (spread == Spread::kUniform) return chance.uniform(1, most / 4);
  const double ratio = std::pow(1 / most, 0.7);
  return 1 / std::pow(1 - chance.uniform() * (1 - ratio), 1 / 0.7);
}

void set_knowledge(Known known, unsigned job, Application& application) {
  application.sizes = known == Known::kLearned   ? PhaseSizes::kLearned
                      : known == Known::kUnknown ? PhaseSizes::kUnknown
                                                 : PhaseSizes::kAnnounced;
  if (known == Known::kWrong) application.size_error = job % 2 ? 2.0 : 0.5;
}

Scenario mix_scenario(const Mix& mix, const std::string& policy, std::uint64_t seed) {
  Scenario scenario;
  scenario.name = mix.name;
  scenario.seed = seed;
  scenario.servers.count = mix.phases ? 8 : 32;
  scenario.servers.depth = 4;
  scenario.servers.device = *device_preset("ssd-2010");
  scenario.servers.policy.name = policy;
  if (policy == "window") scenario.servers.policy.options["width"] = "250ms";
  scenario.network.latency = 20us;
  scenario.network.jitter = mix.phases ? 50us : 200us;
  Prng chance(seed * 7919);
  for (unsigned i = 0; i < (mix.phases ? 24u : 32u); ++i) {
    Application application;
    application.name = fmt::format("job{}", i);
    application.stripe_size = mix.phases ? 128_KiB : 1_MiB;
    if (mix.partial) application.stripe_count = scenario.servers.count / 4;
    if (mix.phases) {
      application.ranks = 4;
      application.size = 1_MiB;
      // About the same work in all mixes: most draws of the heavy tail are small.
      application.operations =
          static_cast<unsigned>((mix.spread == Spread::kHeavy ? 3 : 1) * draw(mix.spread, 200, chance));
      application.iterations = 8;
      application.variation = 0.02;  // what was learned from the last phase, or the last run, is never quite right
      application.compute = Duration(static_cast<std::int64_t>(chance.uniform(50e6, 200e6)));
    } else {
      application.size = 32_MiB * static_cast<std::uint64_t>(draw(mix.spread, 500, chance));
    }
    if (mix.over_time)
      application.start = Duration(static_cast<std::int64_t>(chance.uniform(0, mix.phases ? 2e9 : 0.5e9)));
    set_knowledge(mix.known, i, application);
    scenario.applications.push_back(application);
  }
  return scenario;
}

// In a single mix it is chance which of the large jobs ends last, by more than the two per cent looked for.
constexpr unsigned kSeeds = 12;

using Results = std::map<std::string, std::map<std::string, Averages>>;  // by mix, by policy

// All policies; fifo goes first, because the others are set against it.
std::vector<PolicyInfo> baseline_first() {
  std::vector<PolicyInfo> list = policies();
  std::stable_partition(list.begin(), list.end(), [](const PolicyInfo& policy) { return policy.name == "fifo"; });
  return list;
}

// The largest ratio to the baseline in any one seed.
double worst(const std::vector<double>& ours, const std::vector<double>& baseline) {
  double largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) largest = std::max(largest, ours[i] / baseline[i]);
  return largest;
}

Result<Results> run_mixes(const LabOptions& options, ExperimentResult& result) {
  Results results;
  for (const Mix& mix : kMixes) {
    say(options, fmt::format("beyond-unequal: {}", mix.name));
    for (const PolicyInfo& policy : baseline_first()) {
      if (policy.name == "twins") continue;  // for forwarding nodes
      const auto averages = average([&](std::uint64_t seed) { return mix_scenario(mix, policy.name, seed); },
                                    {.seeds = kSeeds, .slowdown = true, .bound = true});
      if (!averages) return Failure(averages.error());
      results[mix.name][policy.name] = *averages;
      const Averages& fifo = results[mix.name]["fifo"];
      result.rows.push_back({mix.name, policy.name, averages->phase * 1e3, averages->phase / fifo.phase,
                             averages->slowdown, averages->slowdown / fifo.slowdown, averages->makespan,
                             averages->makespan / fifo.makespan, worst(averages->phases, fifo.phases),
                             worst(averages->makespans, fifo.makespans), averages->fairness,
                             averages->bound > 0 ? averages->phase / averages->bound : 0});
    }
  }
  return results;
}

void add_claims(const Results& results, ExperimentResult& result) {
  const auto ratio = [&](const char* mix, const char* policy, const char* to, double Averages::*figure) {
    return results.at(mix).at(policy).*figure / (results.at(mix).at(to).*figure);
  };
  const Averages& equal = results.at("single equal").at("concert");
  result.claims.push_back({.id = "beyond-unequal.equal",
                           .what = "concert's mean over the lower bound, equal jobs",
                           .unit = "x",
                           .paper = {},
                           .goal = 1.1,
                           .kind = Claim::Goal::kAtMost,
                           .ours = equal.phase / equal.bound,
                           .bound = 1});
  const Averages& heavy = results.at("single heavy").at("concert");
  const double window = results.at("single heavy").at("window").phase;
  result.claims.push_back({.id = "beyond-unequal.single-heavy",
                           .what = "concert's mean below window's, heavy-tailed single operations",
                           .unit = "%",
                           .paper = {},
                           .goal = 50,
                           .kind = Claim::Goal::kAtLeast,
                           .ours = reduction(window, heavy.phase),
                           .bound = reduction(window, heavy.bound)});
  result.claims.push_back({.id = "beyond-unequal.learned-mean",
                           .what = "concert's mean phase over fifo's, heavy-tailed phases, learned",
                           .unit = "x",
                           .paper = {},
                           .goal = 0.70,
                           .kind = Claim::Goal::kAtMost,
                           .ours = ratio("phases heavy learned", "concert", "fifo", &Averages::phase),
                           .bound = results.at("phases heavy learned").at("concert").bound /
                                    results.at("phases heavy learned").at("fifo").phase});
  result.claims.push_back({.id = "beyond-unequal.learned-slowdown",
                           .what = "concert's mean slowdown over fifo's, the same",
                           .unit = "x",
                           .paper = {},
                           .goal = 0.50,
                           .kind = Claim::Goal::kAtMost,
                           .ours = ratio("phases heavy learned", "concert", "fifo", &Averages::slowdown)});
}

// First, do no harm: mixes whose sizes are unknown or wrong, in the mean over seeds and in the worst of them.
void add_harmless_claims(const Results& results, ExperimentResult& result) {
  double mean = 0, makespan = 0, worst_mean = 0, worst_makespan = 0;
  for (const Mix& mix : kMixes) {
    if (mix.known != Known::kUnknown && mix.known != Known::kWrong) continue;
    const Averages &concert = results.at(mix.name).at("concert"), &fifo = results.at(mix.name).at("fifo");
    mean = std::max(mean, concert.phase / fifo.phase);
    makespan = std::max(makespan, concert.makespan / fifo.makespan);
    worst_mean = std::max(worst_mean, worst(concert.phases, fifo.phases));
    worst_makespan = std::max(worst_makespan, worst(concert.makespans, fifo.makespans));
  }
  const auto claim = [&](const char* id, const char* what, double ours) {
    result.claims.push_back(
        {.id = id, .what = what, .unit = "x", .paper = {}, .goal = 1.02, .kind = Claim::Goal::kAtMost, .ours = ours});
  };
  claim("beyond-unequal.unknown-mean", "concert's mean over fifo's, worst mix with sizes unknown or wrong", mean);
  claim("beyond-unequal.unknown-makespan", "concert's makespan over fifo's, worst mix with sizes unknown or wrong",
        makespan);
  claim("beyond-unequal.worst-mean", "concert's mean over fifo's, worst single run of these mixes", worst_mean);
  claim("beyond-unequal.worst-makespan", "concert's makespan over fifo's, worst single run of these mixes",
        worst_makespan);
}

Chart over_fifo(const Results& results, std::string title, double Averages::*figure) {
  Chart chart{.title = std::move(title),
              .x_label = "mix",
              .y_label = "times fifo's",
              .bars = true,
              .logarithmic_x = false,
              .lines = {{"window", {}, {}}, {"fair", {}, {}}, {"concert", {}, {}}},
              .x_names = {}};
  for (const Mix& mix : kMixes) {
    const auto& policies = results.at(mix.name);
    for (Line& line : chart.lines) {
      line.x.push_back(static_cast<double>(chart.x_names.size()));
      line.y.push_back(policies.at(line.name).*figure / (policies.at("fifo").*figure));
    }
    chart.x_names.push_back(mix.name);
  }
  return chart;
}

}  // namespace

Result<ExperimentResult> beyond_unequal(const LabOptions& options) {
  ExperimentResult result;
  result.columns = {"mix",           "policy",
                    "mean phase ms", "over fifo",
                    "slowdown",      "slowdown over fifo",
                    "makespan s",    "makespan over fifo",
                    "worst seed",    "worst seed's makespan",
                    "fairness",      "over bound"};
  result.device = "ssd-2010, depth 4; 32 servers for single operations, 8 for phases";
  const auto results = run_mixes(options, result);
  if (!results) return Failure(results.error());
  add_claims(*results, result);
  add_harmless_claims(*results, result);
  result.charts.push_back(over_fifo(*results, "Mean phase against fifo", &Averages::phase));
  result.charts.push_back(over_fifo(*results, "Mean slowdown against fifo", &Averages::slowdown));
  return result;
}

}  // namespace tutti::lab
