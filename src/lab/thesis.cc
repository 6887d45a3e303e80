// SPDX-License-Identifier: Apache-2.0
// Backoff and locking (thesis, chapter 4): identical pair, mixed four, and 2, 6 and 10 random jobs on one NFS server.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/prng.h"
#include "lab/catalogue.h"
#include "lab/report_runs.h"
#include "lab/thesis_jobs.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;

// Figures 4.1 to 4.3.
std::vector<ThesisJob> identical_jobs() {
  return {2, ThesisJob{3, 1024, 90s, 0s}};
}

// Random jobs as in the thesis: 7 to 9 minutes of computation in 4 to 10 iterations, 2.4 GB per job on average. (The
// thesis: "Each application writes an average of 2.4GB between the iterations". With 2.4 GB in each iteration, two jobs
// would delay each other more than six do in the thesis, and backoff would help two jobs, which it did not.)
std::vector<ThesisJob> random_jobs(unsigned count, std::uint64_t seed) {
  Prng chance(seed * 104729);
  std::vector<ThesisJob> jobs;
  for (unsigned i = 0; i < count; ++i) {
    ThesisJob job;
    job.iterations = 4 + static_cast<unsigned>(chance.below(7));
    job.compute = Duration(static_cast<std::int64_t>(chance.uniform(420e9, 540e9) / job.iterations));
    job.megabytes = (1600 + chance.below(1601)) / job.iterations;
    job.start = Duration(static_cast<std::int64_t>(chance.uniform(0, 60e9)));
    jobs.push_back(job);
  }
  return jobs;
}

// Production servers and nodes have no such cache.
void fit_to(Mode mode, Scenario& scenario) {
  if (mode != Mode::kFast) scenario.servers.write_cache = Bytes{};
}

// Live runs are shorter: times are a fraction of those in the thesis, and sizes are reduced further because the disk is
// slower. The disk is slower so that the shared cores are not the bottleneck.
constexpr double kLiveSlowMotion = 2;

// Times of the outcome are `factor` times smaller than in the thesis. A live run takes kLiveSlowMotion seconds per
// second of the outcome.
void shorten(double factor, Scenario& scenario) {
  const auto shorter = [&](Duration& time) {
    time = Duration(static_cast<std::int64_t>(static_cast<double>(time.count()) / factor));
  };
  for (Application& application : scenario.applications) {
    shorter(application.start);
    shorter(application.compute);
    application.operations = std::max(1u, static_cast<unsigned>(application.operations / factor));
  }
  gate::BackoffOptions& backoff = scenario.gate.backoff;
  shorter(backoff.time_constant);
  shorter(backoff.fixed_sleep);
  shorter(backoff.probe_pause);
  backoff.data_size = kLargestWrite * 8;
  backoff.priming = kLargestWrite;
}

std::string device_of(Mode mode, double live_factor) {
  return "one NFS server: " + describe(nfs_server().servers.device) + ", depth 8" +
         (mode == Mode::kFast ? ", write cache of " + format(kDiskCache) : "") +
         describe(mode,
                  fmt::format("{} times slower; times shown are 1/{} of the thesis's", kLiveSlowMotion, live_factor));
}

constexpr unsigned kSeeds = 10;

// Seconds of I/O in the thesis.
struct InThesis {
  double base = 0;
  double backoff = 0;
  double locking = 0;
  bool total = false;        // of all jobs, else the mean of the jobs
  bool base_fitted = false;  // the size of writes was chosen so that `base` fits
};

using IoTimes = std::map<std::string, std::vector<double>>;  // mean of a job, of each seed, by coordination

// Seconds and core-hours as the thesis gives them.
void absolute_claims(const std::string& name, const InThesis& thesis, std::size_t jobs, const IoTimes& io,
                     ExperimentResult& result) {
  // `scale` times the difference of the mean I/O times of two ways, or the mean of one.
  const auto absolute = [&](const Claim& claim, double scale, const std::string& how, const std::string& less = "") {
    const std::size_t seeds = io.at(how).size();
    result.claims.push_back(with(claim, jackknife(seeds, [&](WithoutSeed without) {
                                   const double sum =
                                       sum_of(io.at(how), without) - (less.empty() ? 0 : sum_of(io.at(less), without));
                                   return scale * sum / static_cast<double>(seeds - (without ? 1 : 0));
                                 })));
  };
  const double shown = thesis.total ? static_cast<double>(jobs) : 1;
  const std::string whose = thesis.total ? "I/O time of all jobs" : "mean I/O time of a job";
  const auto seconds_claim = [&](const char* id, const std::string& how, double paper, bool fitted) {
    absolute({.id = fmt::format("{}.{}-seconds", name, id),
              .what = whose + ", " + coordination_name(how),
              .unit = "s",
              .paper = paper,
              .fitted = fitted,
              .reproduced = true},
             shown, how);
  };
  seconds_claim("base", "base", thesis.base, thesis.base_fitted);
  seconds_claim("backoff", "backoff", thesis.backoff, false);
  seconds_claim("locking", "fifo", thesis.locking, false);
  if (thesis.total) return;
  const double core_hours = static_cast<double>(jobs) * kCoresPerJob / 3600;
  const auto saved_hours = [&](const char* id, const std::string& how, double paper) {
    absolute({.id = fmt::format("{}.{}-core-hours", name, id),
              .what = "core-hours saved, " + coordination_name(how),
              .unit = "h",
              .paper = paper,
              .reproduced = true},
             core_hours, "base", how);
  };
  saved_hours("backoff", "backoff", 0.82);
  saved_hours("locking", "fifo", 2.39);
}

// One set of jobs under base, backoff and locking, with timelines. Live runs are `live_factor` times shorter.
Result<ExperimentResult> compare(const LabOptions& options, const std::string& name, const std::vector<ThesisJob>& jobs,
                                 const InThesis& thesis, double live_factor) {
  ExperimentResult result;
  result.device = device_of(options.mode, live_factor);
  result.columns = {"coordination", "total I/O s", "mean I/O s", "makespan s", "phase deviation %", "slowdown"};
  IoTimes io;
  Repeat repeat{.seeds = options.mode == Mode::kLive ? 1u : kSeeds, .slowdown = true, .slow_motion = kLiveSlowMotion};
  std::vector<std::vector<double>> alone;  // the same for all kinds of coordination
  for (const std::string how : {"base", "backoff", "fifo"}) {
    const auto scenario_of = [&](std::uint64_t seed) {
      Scenario scenario = with_jobs(jobs, how, seed);
      fit_to(options.mode, scenario);
      if (options.mode == Mode::kLive) shorten(live_factor, scenario);
      return scenario;
    };
    const auto measured = average(options.mode, scenario_of, repeat);
    if (!measured) return Failure(measured.error());
    alone = measured->alone;
    repeat.alone = &alone;
    io[how] = measured->io_times;
    result.rows.push_back({coordination_name(how), measured->io_time * static_cast<double>(jobs.size()),
                           measured->io_time, measured->makespan, 100 * measured->phase_deviation, measured->slowdown});
    result.timelines.push_back(timeline_of(scenario_of(kFirstSeed), measured->timeline, coordination_name(how)));
  }
  const auto saved = [&](const char* id, const char* what, double in_thesis, const std::string& how) {
    result.claims.push_back(with({.id = name + "." + id,
                                  .what = what,
                                  .unit = "%",
                                  .paper = reduction(thesis.base, in_thesis),
                                  .reproduced = true},
                                 reduction_over_seeds(io["base"], io[how])));
  };
  saved("backoff", "I/O time with backoff below the base", thesis.backoff, "backoff");
  saved("locking", "I/O time with locking below the base", thesis.locking, "fifo");
  if (options.mode == Mode::kLive) return result;  // shorter than the thesis
  absolute_claims(name, thesis, jobs.size(), io, result);
  return result;
}

// Beyond the thesis: jobs of two classes that together exceed the bandwidth of the server. Four write a little every
// second, six write much every 15 seconds.
std::vector<ThesisJob> jobs_of_two_classes(std::uint64_t seed) {
  Prng chance(seed * 104729);
  std::vector<ThesisJob> jobs(4, ThesisJob{.iterations = 60, .megabytes = 10, .compute = 1s, .start = {}});
  jobs.resize(10, ThesisJob{.iterations = 6, .megabytes = 460, .compute = 10s, .start = {}});
  for (ThesisJob& job : jobs) job.start = Duration(static_cast<std::int64_t>(chance.uniform(0, 10e9)));
  return jobs;
}

// The part of figures 4.7 to 4.9 to run.
struct ScaleSize {
  std::vector<unsigned> jobs{2, 6, 10};
  std::vector<std::string> ways{"base", "backoff", "fifo", "shortest", "set10"};
  std::vector<std::string> ways_of_two_classes{"base", "fifo", "shortest", "set10", "set10-bandwidth"};
  unsigned sets = kSeeds;  // the thesis has 3
  double factor = 1;
};

// Live runs have no backoff: a probe cannot be reduced as much as these checkpoints (43 ms alone), because of the time
// of a seek. Ten probers would keep the disk busy by themselves.
ScaleSize scale_size(Mode mode) {
  if (mode != Mode::kLive) return {};
  return {
      .jobs = {10}, .ways = {"base", "fifo", "shortest", "set10"}, .ways_of_two_classes = {}, .sets = 1, .factor = 160};
}

// One row per kind of coordination, each the mean over the sets of jobs.
Result<std::map<std::string, Averages>> compare_over_seeds(
    const LabOptions& options, const std::string& name,
    const std::function<std::vector<ThesisJob>(std::uint64_t)>& draw, const std::vector<std::string>& ways,
    ExperimentResult& result) {
  const ScaleSize size = scale_size(options.mode);
  std::map<std::string, Averages> measured;
  Repeat repeat{.seeds = size.sets, .slowdown = true, .slow_motion = kLiveSlowMotion};
  for (const std::string& how : ways) {
    if (!measured.empty()) repeat.alone = &measured.begin()->second.alone;  // the same for all kinds of coordination
    say(options, fmt::format("thesis-scale: {} jobs, {}", name, coordination_name(how)));
    const auto averages = average(
        options.mode,
        [&](std::uint64_t seed) {
          Scenario scenario = with_jobs(draw(seed), how, seed);
          fit_to(options.mode, scenario);
          if (size.factor != 1) shorten(size.factor, scenario);
          return scenario;
        },
        repeat);
    if (!averages) return Failure(averages.error());
    result.rows.push_back({name, coordination_name(how), averages->io_time, averages->makespan,
                           100 * averages->phase_deviation, averages->slowdown});
    measured[how] = *averages;
  }
  return measured;
}

}  // namespace

Result<ExperimentResult> thesis_identical(const LabOptions& options) {
  return compare(options, "thesis-identical", identical_jobs(),
                 {.base = 325.95, .backoff = 178.87, .locking = 92.16, .total = true, .base_fitted = true}, 80);
}

Result<ExperimentResult> thesis_mixed(const LabOptions& options) {
  return compare(options, "thesis-mixed", mixed_jobs(), {.base = 275.50, .backoff = 228.98, .locking = 140.96}, 160);
}

Result<ExperimentResult> thesis_scale(const LabOptions& options) {
  ExperimentResult result;
  const ScaleSize size = scale_size(options.mode);
  result.device = device_of(options.mode, size.factor);
  result.columns = {"jobs", "coordination", "I/O time s", "makespan s", "phase deviation %", "slowdown"};
  std::map<std::string, Averages> at_two, at_ten;
  for (const unsigned count : size.jobs) {
    auto measured = compare_over_seeds(
        options, std::to_string(count), [&](std::uint64_t seed) { return random_jobs(count, seed); }, size.ways,
        result);
    if (!measured) return Failure(measured.error());
    (count == 2 ? at_two : at_ten) = std::move(*measured);
  }
  auto classes =
      compare_over_seeds(options, "4 frequent, 6 large", jobs_of_two_classes, size.ways_of_two_classes, result);
  if (!classes) return Failure(classes.error());
  const Averages& base = at_ten["base"];
  const auto reproduced = [&](const char* id, const char* what, double paper, const Averages& ours) {
    result.claims.push_back(
        with({.id = fmt::format("thesis-scale.{}", id), .what = what, .unit = "%", .paper = paper, .reproduced = true},
             reduction_over_seeds(base.io_times, ours.io_times)));
  };
  const auto below_one = [&](const char* id, const char* what, const ValueWithInterval& ours) {
    result.claims.push_back(
        with({.id = fmt::format("thesis-scale.{}", id), .what = what, .unit = "x", .goal = 1}, ours));
  };
  reproduced("locking", "I/O time of ten jobs with locking below the base", 81.38, at_ten["fifo"]);
  if (at_ten.contains("backoff"))
    reproduced("backoff", "I/O time of ten jobs with backoff below the base", 19.22, at_ten["backoff"]);
  below_one("makespan", "makespan of ten jobs with locking over the base",
            ratio_over_seeds(at_ten["fifo"].makespans, base.makespans));
  below_one("deviation", "deviation of phases of ten jobs with locking over the base",
            ratio_over_seeds(at_ten["fifo"].deviations, base.deviations));
  const auto stated = [&](const char* id, const char* what, const ValueWithInterval& ours) {
    result.claims.push_back(with({.id = fmt::format("thesis-scale.{}", id),
                                  .what = what,
                                  .unit = "x",
                                  .goal = 1,
                                  .goal_is = Claim::Goal::kAtLeast,
                                  .reproduced = true},
                                 ours));
  };
  if (at_two.contains("backoff"))
    stated("two-backoff", "I/O time of two jobs with backoff over the base",
           ratio_over_seeds(at_two["backoff"].io_times, at_two["base"].io_times));
  if (at_ten.contains("backoff")) {
    const bool above = base.phase_deviation > at_ten["fifo"].phase_deviation;
    stated("deviation-backoff", "deviation of phases of ten jobs with backoff over the larger of base and locking",
           ratio_over_seeds(at_ten["backoff"].deviations, (above ? base : at_ten["fifo"]).deviations));
  }
  below_one("shortest", "mean slowdown with `shortest` over `fifo`, ten jobs",
            ratio_over_seeds(at_ten["shortest"].slowdowns, at_ten["fifo"].slowdowns));
  below_one("set10", "mean slowdown with `set10` over `fifo`, ten jobs",
            ratio_over_seeds(at_ten["set10"].slowdowns, at_ten["fifo"].slowdowns));
  if (classes->contains("set10"))
    below_one("classes", "mean slowdown with `set10` over `fifo`, jobs of two classes",
              ratio_over_seeds((*classes)["set10"].slowdowns, (*classes)["fifo"].slowdowns));
  return result;
}

}  // namespace tutti::lab
