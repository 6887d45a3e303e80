// SPDX-License-Identifier: Apache-2.0
// Beyond the papers: jobs that state no sizes, on servers and at a gate that expect the sizes of earlier phases.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/prng.h"
#include "lab/catalogue.h"
#include "lab/thesis_jobs.h"
#include "sched/prediction/predicted_queues.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using sim::PhaseSizes;

constexpr unsigned kSizeSeeds = 32, kSizePhases = 4;
constexpr std::uint64_t kTracedRun = 100'000;  // added to the seed of a run that is traced

// Sizes of jobs, heavy-tailed: Pareto of shape 0.7 between 1 and 200.
double draw_size(Prng& chance) {
  const double ratio = std::pow(1.0 / 200, 0.7);
  return 1 / std::pow(1 - chance.uniform() * (1 - ratio), 1 / 0.7);
}

// What differs between the rows.
struct SizeWay {
  std::string name;
  std::string policy = "concert";
  std::string prediction = "off";
  PhaseSizes sizes = PhaseSizes::kUnknown;
  bool other_program = false;  // the traces are of jobs with the same file names and other sizes
  bool vary = false;           // the size of a phase is between 0.1 and 1.9 times the job's
};

// Eight flash servers and 24 jobs. The sizes of the jobs depend on `programs` only, so that they run again with another
// seed.
struct JobSet {
  std::uint64_t programs = 0;
  std::uint64_t seed = 0;
};
Scenario server_scenario(const SizeWay& way, const JobSet& set) {
  Scenario scenario;
  scenario.name = "predicted-sizes";
  scenario.seed = set.seed;
  scenario.servers.count = 8;
  scenario.servers.depth = 4;
  scenario.servers.device = *device_preset("ssd-2010");
  scenario.servers.policy.name = way.policy;
  if (way.policy == "concert") scenario.servers.policy.options["prediction"] = way.prediction;
  scenario.network.latency = 20us;
  scenario.network.jitter = 50us;
  Prng sizes(set.programs * 7919), times(set.seed * 104'729);
  for (unsigned i = 0; i < 24; ++i) {
    Application application;
    application.name = fmt::format("job{}", static_cast<char>('a' + i));
    application.ranks = 4;
    application.size = 1_MiB;
    application.stripe_size = 128_KiB;
    application.operations = static_cast<unsigned>(3 * draw_size(sizes));
    application.iterations = kSizePhases;
    application.variation = way.vary ? 0.9 : 0.02;
    application.start = Duration(static_cast<std::int64_t>(times.uniform(0, 0.5e9)));
    application.compute = Duration(static_cast<std::int64_t>(times.uniform(150e6, 600e6)));
    application.sizes = way.sizes;
    scenario.applications.push_back(application);
  }
  return scenario;
}

// With the traces of an earlier run, if the way has them.
Result<Scenario> prepared_scenario(const SizeWay& way, std::uint64_t seed) {
  Scenario scenario = server_scenario(way, {seed, seed});
  if (way.prediction != "traces") return scenario;
  SizeWay before{.name = "", .policy = "fifo"};
  before.vary = way.vary;
  const std::uint64_t programs = way.other_program ? seed + kTracedRun : seed;
  const auto outcome =
      sim::run(server_scenario(before, {programs, seed + kTracedRun}), {.traces = true, .operation_records = false});
  if (!outcome) return Failure(outcome.error());
  for (const Trace& trace : outcome->traces)
    scenario.servers.predictions.push_back(PredictedQueues::combine({&trace, 1}));
  return scenario;
}

// The mean phase of each seed: of all phases, and from the second of each job on.
struct PhaseMeans {
  std::vector<double> all = std::vector<double>(kSizeSeeds), later = std::vector<double>(kSizeSeeds);
};

double mean_phase(const std::vector<sim::PhaseRecord>& phases, std::uint32_t first) {
  double sum = 0, count = 0;
  for (const sim::PhaseRecord& phase : phases)
    if (phase.iteration >= first) sum += std::chrono::duration<double>(phase.end - phase.begin).count(), ++count;
  return sum / count;
}

Result<PhaseMeans> run_size_way(const std::function<Result<Scenario>(std::uint64_t)>& make) {
  PhaseMeans means;
  std::vector<Result<void>> results(kSizeSeeds);
  std::vector<std::function<void()>> tasks;
  for (unsigned i = 0; i < kSizeSeeds; ++i)
    tasks.push_back([&, i] {
      const auto scenario = make(kFirstSeed + i);
      const auto outcome = scenario ? sim::run(*scenario, {.operation_records = false}) : Failure(scenario.error());
      if (!outcome) return void(results[i] = Failure(outcome.error()));
      if (!outcome->stuck.empty()) return void(results[i] = fail(ErrorCode::kIo, outcome->stuck.front()));
      means.all[i] = mean_phase(outcome->phases, 0);
      means.later[i] = mean_phase(outcome->phases, 1);
    });
  run_all(tasks);
  for (const Result<void>& result : results)
    if (!result) return Failure(result.error());
  return means;
}

// Ten jobs of unequal size that write to one disk in turns.
Scenario gate_scenario(const SizeWay& way, std::uint64_t seed) {
  Prng chance(seed * 7919);
  std::vector<ThesisJob> jobs;
  for (unsigned i = 0; i < 10; ++i)
    jobs.push_back({.iterations = kSizePhases,
                    .megabytes = static_cast<std::uint64_t>(8 * draw_size(chance)),
                    .compute = Duration(static_cast<std::int64_t>(chance.uniform(2e9, 10e9))),
                    .start = {}});
  Scenario scenario = with_jobs(jobs, way.policy, seed);
  for (Application& application : scenario.applications) {
    application.sizes = way.sizes;
    application.variation = way.vary ? 0.9 : 0.02;
  }
  return scenario;
}

using MeasuredSizes = std::map<std::string, PhaseMeans>;

void add_size_row(const char* place, const SizeWay& way, const PhaseMeans& means, const PhaseMeans& unknown,
                  ExperimentResult& result) {
  double worst = 0;
  for (std::size_t i = 0; i < means.all.size(); ++i) worst = std::max(worst, means.all[i] / unknown.all[i]);
  const double count = kSizeSeeds;
  result.rows.push_back({place, way.vary ? "vary" : "repeat", way.name, 1e3 * sum_of(means.all) / count,
                         1e3 * sum_of(means.later) / count, sum_of(means.all) / sum_of(unknown.all),
                         sum_of(means.later) / sum_of(unknown.later), worst});
}

// The first way of each kind of phases is what the others are compared with.
Result<void> measure_size_ways(const LabOptions& options, const char* place, const std::vector<SizeWay>& ways,
                               const std::function<Result<Scenario>(const SizeWay&, std::uint64_t)>& make,
                               MeasuredSizes& measured, ExperimentResult& result) {
  const PhaseMeans* unknown = nullptr;
  bool vary = true;
  for (const SizeWay& way : ways) {
    say(options, fmt::format("predicted-sizes: {}, {}", place, way.name));
    auto means = run_size_way([&](std::uint64_t seed) { return make(way, seed); });
    if (!means) return Failure(means.error());
    const PhaseMeans& kept =
        measured.insert_or_assign(fmt::format("{}{}{}", place, way.vary ? " vary " : " ", way.name), *means)
            .first->second;
    if (!unknown || way.vary != vary) unknown = &kept;
    vary = way.vary;
    add_size_row(place, way, kept, *unknown, result);
  }
  return {};
}

// What part of the gain of the best way another one reaches, in percent.
ValueWithInterval share_of_gain(const std::vector<double>& unknown, const std::vector<double>& ours,
                                const std::vector<double>& best) {
  return jackknife(unknown.size(), [&](WithoutSeed without) {
    const double none = sum_of(unknown, without);
    return 100 * (none - sum_of(ours, without)) / (none - sum_of(best, without));
  });
}

void add_size_claims(const MeasuredSizes& measured, ExperimentResult& result) {
  const auto at_most = [&](const char* id, const char* what, double goal, const ValueWithInterval& ours) {
    result.claims.push_back(
        with({.id = fmt::format("predicted-sizes.{}", id), .what = what, .unit = "x", .goal = goal}, ours));
  };
  const auto at_least = [&](const char* id, const char* what, const ValueWithInterval& ours) {
    result.claims.push_back(with({.id = fmt::format("predicted-sizes.{}", id),
                                  .what = what,
                                  .unit = "%",
                                  .goal = 90,
                                  .goal_is = Claim::Goal::kAtLeast},
                                 ours));
  };
  const auto of = [&](const char* way) -> const PhaseMeans& { return measured.at(way); };
  const PhaseMeans &unknown = of("servers unknown"), &announced = of("servers announced");
  at_least("traces", "concert, sizes from traces: part of the gain of announced sizes",
           share_of_gain(unknown.all, of("servers traces").all, announced.all));
  at_least("learning",
           "concert, sizes learned by servers: part of the gain of clients that learn, from the second phase on",
           share_of_gain(unknown.later, of("servers learning").later, of("servers client").later));
  at_most("wrong-traces", "concert, traces of other programs: mean phase over that with unknown sizes", 1.02,
          ratio_over_seeds(of("servers other program's traces").all, unknown.all));
  const PhaseMeans& varying = of("servers vary unknown");
  at_most("varying-traces", "concert, traces, sizes that vary from phase to phase: the same", 1.02,
          ratio_over_seeds(of("servers vary traces").all, varying.all));
  at_most("varying-learning", "concert, learning, sizes that vary from phase to phase: the same", 1.02,
          ratio_over_seeds(of("servers vary learning").all, varying.all));
  at_least("gate", "gate, sizes of earlier turns: part of the gain of announced sizes, from the second turn on",
           share_of_gain(of("gate unknown").later, of("gate earlier turns").later, of("gate announced").later));
  at_most("gate-varying", "gate, sizes that vary from turn to turn: mean phase over that with unknown sizes", 1.02,
          ratio_over_seeds(of("gate vary earlier turns").all, of("gate vary unknown").all));
}

}  // namespace

Result<ExperimentResult> predicted_sizes(const LabOptions& options) {
  ExperimentResult result;
  result.device = "servers: ssd-2010, 8 servers, depth 4, 24 jobs; gate: one disk, 10 jobs; 4 phases per job";
  result.columns = {"place",           "sizes",        "known by",     "mean phase ms",
                    "later phases ms", "over unknown", "later phases", "worst seed"};
  MeasuredSizes measured;
  const std::vector<SizeWay> servers = {
      {.name = "unknown"},
      {.name = "fifo", .policy = "fifo"},
      {.name = "announced", .sizes = PhaseSizes::kAnnounced},
      {.name = "client", .sizes = PhaseSizes::kLearned},
      {.name = "traces", .prediction = "traces"},
      {.name = "learning", .prediction = "learn"},
      {.name = "other program's traces", .prediction = "traces", .other_program = true},
      {.name = "unknown", .vary = true},
      {.name = "announced", .sizes = PhaseSizes::kAnnounced, .vary = true},
      {.name = "traces", .prediction = "traces", .vary = true},
      {.name = "learning", .prediction = "learn", .vary = true},
  };
  if (auto done = measure_size_ways(options, "servers", servers, prepared_scenario, measured, result); !done)
    return Failure(done.error());
  // A gate that knows no size grants turns in order of arrival.
  const std::vector<SizeWay> gate = {
      {.name = "unknown", .policy = "fifo-pass"},
      {.name = "announced", .policy = "shortest", .sizes = PhaseSizes::kAnnounced},
      {.name = "earlier turns", .policy = "shortest"},
      {.name = "unknown", .policy = "fifo-pass", .vary = true},
      {.name = "announced", .policy = "shortest", .sizes = PhaseSizes::kAnnounced, .vary = true},
      {.name = "earlier turns", .policy = "shortest", .vary = true},
  };
  const auto make = [](const SizeWay& way, std::uint64_t seed) -> Result<Scenario> { return gate_scenario(way, seed); };
  if (auto done = measure_size_ways(options, "gate", gate, make, measured, result); !done) return Failure(done.error());
  add_size_claims(measured, result);
  return result;
}

}  // namespace tutti::lab
