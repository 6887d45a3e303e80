// SPDX-License-Identifier: Apache-2.0
// What the thesis describes and does not measure, or measures apart: striped files (figures 3.1, 3.5), jobs that take
// no part (chapter 6), and what coordination costs on a quiet system (section 4.2).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/prng.h"
#include "base/units.h"
#include "lab/catalogue.h"
#include "lab/thesis_jobs.h"

namespace tutti::lab {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kMoreSeeds = 10;
constexpr unsigned kTargets = 64;

// 32 jobs, each on 2 to 8 of 64 targets, with a checkpoint of 128 MiB per target every half minute.
Scenario striped_scenario(const std::string& how, std::uint64_t seed) {
  Scenario scenario = nfs_server();
  scenario.seed = seed;
  scenario.servers.count = kTargets;
  Prng chance(seed * 104729);
  for (unsigned i = 0; i < 32; ++i) {
    const auto width = static_cast<unsigned>(2 + chance.below(7));
    ThesisJob job{.iterations = 3, .megabytes = 128 * std::uint64_t{width}, .compute = 30s};
    job.start = Duration(static_cast<std::int64_t>(chance.uniform(0, 30e9)));
    Application application = ior(fmt::format("job {}", i + 1), job);
    application.stripe_count = width;
    application.first_server = static_cast<unsigned>(chance.below(kTargets));
    // An operation is a stripe on every target, so that all targets of a job are busy at the same time.
    application.size = kLargestWrite * width;
    application.operations /= width;
    application.stripe_size = kLargestWrite;
    scenario.applications.push_back(application);
  }
  coordinate(how, scenario);
  return scenario;
}

// A job that writes 256 MiB every 30 seconds and does not ask the gate, beside the four jobs of table 4.1.
Scenario outsider_scenario(const std::string& how, std::uint64_t seed) {
  Scenario scenario = with_jobs(mixed_jobs(), how, seed);
  Prng chance(seed * 31);
  ThesisJob job{.iterations = 20, .megabytes = 256, .compute = 30s};
  job.start = Duration(static_cast<std::int64_t>(chance.uniform(0, 30e9)));
  Application outsider = ior("outsider", job);
  outsider.coordinated = false;
  scenario.applications.push_back(outsider);
  return scenario;
}

// I/O time of each seed: mean over the jobs that coordinate, and of the outsider.
struct SeedTimes {
  std::vector<double> jobs = std::vector<double>(kMoreSeeds, 0);
  std::vector<double> outsider = std::vector<double>(kMoreSeeds, 0);
};

}  // namespace

Result<ExperimentResult> thesis_striped(const LabOptions& options) {
  ExperimentResult result;
  result.device = fmt::format("{} targets, each as the NFS server of the thesis; 32 jobs on 2 to 8 of them", kTargets);
  result.columns = {"coordination", "I/O time s", "makespan s", "phase deviation %", "longest phase s"};
  std::map<std::string, Averages> measured;
  for (const std::string how : {"base", "backoff", "fifo", "fifo-pass"}) {
    say(options, "thesis-striped: " + coordination_name(how));
    auto averages =
        average(options.mode, [&](std::uint64_t seed) { return striped_scenario(how, seed); }, {.seeds = kMoreSeeds});
    if (!averages) return Failure(averages.error());
    result.rows.push_back({coordination_name(how), averages->io_time, averages->makespan,
                           100 * averages->phase_deviation, averages->phase_max});
    measured[how] = std::move(*averages);
  }
  const auto saves = [&](const char* id, const char* what, const char* how) {
    result.claims.push_back(with({.id = fmt::format("thesis-striped.{}", id),
                                  .what = what,
                                  .unit = "%",
                                  .goal = 0,
                                  .goal_is = Claim::Goal::kAtLeast},
                                 reduction_over_seeds(measured["base"].io_times, measured[how].io_times)));
  };
  saves("backoff", "I/O time with backoff per target below the base", "backoff");
  saves("locking", "I/O time with locking in order of the queue below the base", "fifo");
  saves("pass", "I/O time with locking without order preservation below the base", "fifo-pass");
  result.claims.push_back(with({.id = "thesis-striped.order",
                                .what = "I/O time without order preservation over that with it (figure 3.5)",
                                .unit = "x",
                                .goal = 1},
                               ratio_over_seeds(measured["fifo-pass"].io_times, measured["fifo"].io_times)));
  return result;
}

Result<ExperimentResult> thesis_outsider(const LabOptions& options) {
  ExperimentResult result;
  result.device = "one NFS server; the jobs of table 4.1 and one that takes no part";
  result.columns = {"coordination", "mean I/O s", "outsider's I/O s", "makespan s"};
  const std::size_t jobs = mixed_jobs().size();
  std::map<std::string, SeedTimes> measured;
  for (const std::string how : {"base", "fifo", "backoff", "lock-probe", "backoff-own"}) {
    say(options, "thesis-outsider: " + coordination_name(how));
    SeedTimes times;
    const auto averages = average(options.mode, [&](std::uint64_t seed) { return outsider_scenario(how, seed); },
                                  {.seeds = kMoreSeeds, .inspect = [&](std::size_t seed, const sim::MeasuredRun& run) {
                                     for (const sim::PhaseRecord& phase : run.outcome.phases) {
                                       const double took = seconds(phase.end - phase.begin);
                                       if (phase.application < jobs)
                                         times.jobs[seed] += took / static_cast<double>(jobs);
                                       else
                                         times.outsider[seed] += took;
                                     }
                                   }});
    if (!averages) return Failure(averages.error());
    result.rows.push_back({coordination_name(how), sum_of(times.jobs) / kMoreSeeds, sum_of(times.outsider) / kMoreSeeds,
                           averages->makespan});
    measured[how] = std::move(times);
  }
  const auto below = [&](const char* id, const char* what, const char* how, const char* than) {
    result.claims.push_back(with({.id = fmt::format("thesis-outsider.{}", id), .what = what, .unit = "x", .goal = 1},
                                 ratio_over_seeds(measured[how].jobs, measured[than].jobs)));
  };
  below("locking", "mean I/O time with locking over the base", "fifo", "base");
  below("backoff", "mean I/O time with backoff over locking", "backoff", "fifo");
  below("probe", "mean I/O time with a probe after the grant over locking alone", "lock-probe", "fifo");
  below("own-data", "mean I/O time with own data as probes over dummy data", "backoff-own", "backoff");
  return result;
}

Result<ExperimentResult> thesis_overhead(const LabOptions& options) {
  ExperimentResult result;
  result.device = "one NFS server, quiet: one job with three iterations";
  result.columns = {"coordination", "overhead per iteration s", "probe data MB per iteration"};
  const std::vector<ThesisJob> one = {ThesisJob{3, 1024, 90s, 0s}};
  std::map<std::string, ValueWithInterval> measured;
  for (const std::string how : {"backoff", "backoff-own", "lock-probe", "fifo"}) {
    std::vector<double> overheads(kMoreSeeds, 0), one_each(kMoreSeeds, 1);
    // The first iteration also connects to the gate, which the thesis does at the start of the program.
    const auto averages = average(options.mode, [&](std::uint64_t seed) { return with_jobs(one, how, seed); },
                                  {.seeds = kMoreSeeds, .inspect = [&](std::size_t seed, const sim::MeasuredRun& run) {
                                     for (const sim::PhaseRecord& phase : run.outcome.phases)
                                       if (phase.iteration > 0)
                                         overheads[seed] += seconds(phase.issued - phase.begin) / 2;
                                   }});
    if (!averages) return Failure(averages.error());
    const gate::BackoffOptions& prober = with_jobs(one, how, kFirstSeed).gate.backoff;
    const auto probes = static_cast<double>((prober.data_size * prober.probes + prober.priming).count()) / 1e6;
    measured[how] = ratio_over_seeds(overheads, one_each);
    result.rows.push_back(
        {coordination_name(how), measured[how].value, how == "backoff" || how == "lock-probe" ? probes : 0.0});
  }
  const auto reproduced = [&](const char* id, const char* what, const char* unit, double paper, double scale,
                              const char* how) {
    ValueWithInterval ours = measured[how];
    ours.value *= scale;
    if (ours.interval) *ours.interval *= scale;
    result.claims.push_back(with({.id = fmt::format("thesis-overhead.{}", id),
                                  .what = what,
                                  .unit = unit,
                                  .paper = paper,
                                  .fitted = true,
                                  .reproduced = true},
                                 ours));
  };
  reproduced("backoff", "overhead of backoff on a quiet system, per iteration", "s", 4.03, 1, "backoff");
  reproduced("locking", "overhead of locking on a quiet system, per iteration", "us", 90.67, 1e6, "fifo");
  return result;
}

}  // namespace tutti::lab
