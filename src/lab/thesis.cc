// SPDX-License-Identifier: Apache-2.0
// Backoff and locking (thesis, chapter 4): identical pair, mixed four, and 2, 6 and 10 random jobs on one NFS server.
#include "lab/thesis.h"

#include <fmt/format.h>

#include <functional>
#include <map>

#include "base/prng.h"
#include "lab/catalogue.h"
#include "lab/report_runs.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using sim::Application;
using sim::Gate;
using sim::Scenario;

Scenario nfs_server() {
  Scenario scenario;
  scenario.servers.count = 1;
  scenario.servers.depth = kServerThreads;
  scenario.servers.device = thesis_disk();
  scenario.network.latency = 100us;
  scenario.network.jitter = 200us;
  scenario.network.server_bandwidth = 125e6;
  return scenario;
}

// IOR with 16 tasks on one node that write a shared file: its NFS client keeps all its calls under way, in the file's
// order.
Application ior(const std::string& name, const ThesisJob& job) {
  Application application;
  application.name = name;
  application.ranks = application.ranks_per_node = kCallsUnderWay;
  application.start = job.start;
  application.iterations = job.iterations;
  application.compute = job.compute;
  application.size = kLargestWrite;
  application.operations = static_cast<unsigned>(job.megabytes * kMegabyte / (kCallsUnderWay * kLargestWrite.count()));
  application.direction = Direction::kWrite;
  application.pattern = sim::Pattern::kStrided;
  return application;
}

// How the jobs coordinate: "base" not at all, "backoff", or a discipline of the lock. "set10-bandwidth" is IO-Sets as
// published: classes write at the same time.
void coordinate(const std::string& how, Scenario& scenario) {
  if (how == "base") return;
  scenario.gate.kind = how == "backoff" ? Gate::Kind::kBackoff : Gate::Kind::kLock;
  if (how == "backoff") return;
  const bool share_bandwidth = how == "set10-bandwidth";
  scenario.gate.discipline = share_bandwidth ? "set10" : how;
  if (share_bandwidth) scenario.gate.discipline_options["share"] = "bandwidth";
}

Scenario with_jobs(const std::vector<ThesisJob>& jobs, const std::string& how, std::uint64_t seed) {
  Scenario scenario = nfs_server();
  scenario.seed = seed;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    scenario.applications.push_back(ior(fmt::format("job {}", i + 1), jobs[i]));
  coordinate(how, scenario);
  return scenario;
}

// One set of jobs under base, backoff and locking, with timelines.
Result<ExperimentResult> compare(const std::string& name, const std::vector<ThesisJob>& jobs, double paper_backoff,
                                 double paper_locking) {
  ExperimentResult result;
  result.device = "one NFS server: " + describe(nfs_server().servers.device) + ", depth 8";
  result.columns = {"coordination", "total I/O s", "mean I/O s", "makespan s", "phase deviation %", "slowdown"};
  std::map<std::string, double> io;
  for (const std::string how : {"base", "backoff", "fifo"}) {
    const Scenario scenario = with_jobs(jobs, how, 1);
    const auto measured = sim::measure(scenario, {.slowdown = true, .bound = false});
    if (!measured) return Failure(measured.error());
    const sim::Metrics& metrics = measured->metrics;
    io[how] = metrics.io_time;
    result.rows.push_back({coordination_name(how), metrics.io_time * static_cast<double>(jobs.size()), metrics.io_time,
                           metrics.makespan, 100 * metrics.phase_deviation, metrics.slowdown});
    result.timelines.push_back(timeline_of(scenario, measured->outcome, coordination_name(how)));
  }
  result.claims.push_back({.id = name + ".backoff",
                           .what = "I/O time with backoff below the base",
                           .unit = "%",
                           .paper = paper_backoff,
                           .goal = paper_backoff,
                           .kind = Claim::Goal::kAtLeast,
                           .ours = reduction(io["base"], io["backoff"])});
  result.claims.push_back({.id = name + ".locking",
                           .what = "I/O time with locking below the base",
                           .unit = "%",
                           .paper = paper_locking,
                           .goal = paper_locking,
                           .kind = Claim::Goal::kAtLeast,
                           .ours = reduction(io["base"], io["fifo"])});
  return result;
}

// Beyond the thesis: jobs of two classes that want more than the server has. Four write a little every second, six
// write much every quarter of a minute.
std::vector<ThesisJob> jobs_of_two_classes(std::uint64_t seed) {
  Prng chance(seed * 104729);
  std::vector<ThesisJob> jobs(4, ThesisJob{.iterations = 60, .megabytes = 10, .compute = 1s, .start = {}});
  jobs.resize(10, ThesisJob{.iterations = 6, .megabytes = 460, .compute = 10s, .start = {}});
  for (ThesisJob& job : jobs) job.start = Duration(static_cast<std::int64_t>(chance.uniform(0, 10e9)));
  return jobs;
}

// A row per way to coordinate, each the mean over three sets of jobs.
Result<std::map<std::string, Averages>> compare_over_seeds(
    const LabOptions& options, const std::string& name,
    const std::function<std::vector<ThesisJob>(std::uint64_t)>& draw, const std::vector<std::string>& ways,
    ExperimentResult& result) {
  constexpr unsigned kSets = 3;  // as many experiments as the thesis made
  std::map<std::string, Averages> measured;
  for (const std::string& how : ways) {
    say(options, fmt::format("thesis-scale: {} jobs, {}", name, coordination_name(how)));
    const auto averages = average([&](std::uint64_t seed) { return with_jobs(draw(seed), how, seed); },
                                  {.seeds = kSets, .slowdown = true, .bound = false});
    if (!averages) return Failure(averages.error());
    result.rows.push_back({name, coordination_name(how), averages->io_time, averages->makespan,
                           100 * averages->phase_deviation, averages->slowdown});
    measured[how] = *averages;
  }
  return measured;
}

}  // namespace

HddFigures thesis_disk() {
  HddFigures disk;
  disk.capacity = Bytes(12'000'000'000'000);
  disk.bandwidth = 91.48 * kMegabyte;
  disk.write_positioning = 1;  // NFS has its writes stable: no write-back
  return disk;
}

std::vector<ThesisJob> identical_jobs() {
  return {2, ThesisJob{3, 1024, 90s, 0s}};
}

std::vector<ThesisJob> mixed_jobs() {
  return {ThesisJob{3, 1392, 140s, 0s}, ThesisJob{5, 1312, 132s, 0s}, ThesisJob{3, 1392, 140s, 0s},
          ThesisJob{3, 2192, 220s, 0s}};
}

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

std::string coordination_name(const std::string& how) {
  return how == "fifo" ? "locking" : how == "base" || how == "backoff" ? how : "locking, " + how;
}

Result<ExperimentResult> thesis_identical(const LabOptions& /*options*/) {
  return compare("thesis-identical", identical_jobs(), 45.12, 71.72);
}

Result<ExperimentResult> thesis_mixed(const LabOptions& /*options*/) {
  return compare("thesis-mixed", mixed_jobs(), 16.88, 48.83);
}

Result<ExperimentResult> thesis_scale(const LabOptions& options) {
  ExperimentResult result;
  result.device = "one NFS server: " + describe(nfs_server().servers.device) + ", depth 8";
  result.columns = {"jobs", "coordination", "I/O time s", "makespan s", "phase deviation %", "slowdown"};
  std::map<std::string, Averages> at_ten;
  for (const unsigned count : {2u, 6u, 10u}) {
    auto measured = compare_over_seeds(
        options, std::to_string(count), [&](std::uint64_t seed) { return random_jobs(count, seed); },
        {"base", "backoff", "fifo", "shortest", "set10"}, result);
    if (!measured) return Failure(measured.error());
    at_ten = std::move(*measured);
  }
  auto classes = compare_over_seeds(options, "4 frequent, 6 large", jobs_of_two_classes,
                                    {"base", "fifo", "shortest", "set10", "set10-bandwidth"}, result);
  if (!classes) return Failure(classes.error());
  const Averages& base = at_ten["base"];
  const auto claim = [&](const char* id, const char* what, const char* unit, std::optional<double> paper, double goal,
                         Claim::Goal kind, double ours) {
    result.claims.push_back({.id = fmt::format("thesis-scale.{}", id),
                             .what = what,
                             .unit = unit,
                             .paper = paper,
                             .goal = goal,
                             .kind = kind,
                             .ours = ours});
  };
  claim("locking", "I/O time of ten jobs with locking below the base", "%", 81.38, 81, Claim::Goal::kAtLeast,
        reduction(base.io_time, at_ten["fifo"].io_time));
  claim("backoff", "I/O time of ten jobs with backoff below the base", "%", 19.22, 19, Claim::Goal::kAtLeast,
        reduction(base.io_time, at_ten["backoff"].io_time));
  claim("makespan", "makespan of ten jobs with locking over the base", "x", {}, 1, Claim::Goal::kAtMost,
        at_ten["fifo"].makespan / base.makespan);
  claim("deviation", "deviation of phases of ten jobs with locking over the base", "x", {}, 1, Claim::Goal::kAtMost,
        at_ten["fifo"].phase_deviation / base.phase_deviation);
  claim("shortest", "mean slowdown with `shortest` over `fifo`, ten jobs", "x", {}, 1, Claim::Goal::kAtMost,
        at_ten["shortest"].slowdown / at_ten["fifo"].slowdown);
  claim("set10", "mean slowdown with `set10` over `fifo`, ten jobs", "x", {}, 1, Claim::Goal::kAtMost,
        at_ten["set10"].slowdown / at_ten["fifo"].slowdown);
  claim("classes", "mean slowdown with `set10` over `fifo`, jobs of two classes", "x", {}, 1, Claim::Goal::kAtMost,
        (*classes)["set10"].slowdown / (*classes)["fifo"].slowdown);
  return result;
}

}  // namespace tutti::lab
