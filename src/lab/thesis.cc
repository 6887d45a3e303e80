// SPDX-License-Identifier: Apache-2.0
// Backoff and locking (thesis, chapter 4): identical pair, mixed four, and 2, 6 and 10 random jobs on one NFS server.
#include <fmt/format.h>

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

// The cluster's head node: one NFS server with large disks behind Gigabit Ethernet, eight server threads, 64 KiB
// writes.
Scenario nfs_server() {
  Scenario scenario;
  HddFigures disk;
  disk.capacity = Bytes(12'000'000'000'000);
  disk.bandwidth = 95e6;
  disk.write_positioning = 1;  // NFS has its writes stable: no write-back
  scenario.servers.count = 1;
  scenario.servers.depth = 8;
  scenario.servers.device = disk;
  scenario.network.latency = 100us;
  scenario.network.jitter = 200us;
  scenario.network.server_bandwidth = 125e6;
  return scenario;
}

struct Job {
  unsigned iterations = 1;
  std::uint64_t megabytes = 0;
  Duration compute{};
  Duration start{};
};

// IOR with 16 tasks that write a shared file in turns: in the order the server lays it down.
Application ior(const std::string& name, const Job& job) {
  Application application;
  application.name = name;
  application.ranks = 16;
  application.ranks_per_node = 16;
  application.start = job.start;
  application.iterations = job.iterations;
  application.compute = job.compute;
  application.size = 64_KiB;
  application.operations = static_cast<unsigned>(job.megabytes * 1'000'000 / (16 * application.size.count()));
  application.direction = Direction::kWrite;
  application.pattern = sim::Pattern::kStrided;
  return application;
}

// How the jobs coordinate: "base" not at all, "backoff", or a discipline of the lock.
void coordinate(const std::string& how, Scenario& scenario) {
  if (how == "base") return;
  scenario.gate.kind = how == "backoff" ? Gate::Kind::kBackoff : Gate::Kind::kLock;
  if (how != "backoff") scenario.gate.discipline = how;
}

Scenario with_jobs(const std::vector<Job>& jobs, const std::string& how, std::uint64_t seed) {
  Scenario scenario = nfs_server();
  scenario.seed = seed;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    scenario.applications.push_back(ior(fmt::format("job {}", i + 1), jobs[i]));
  coordinate(how, scenario);
  return scenario;
}

std::string display_name(const std::string& how) {
  return how == "fifo" ? "locking" : how == "base" || how == "backoff" ? how : "locking, " + how;
}

// One set of jobs under base, backoff and locking, with timelines.
Result<ExperimentResult> compare(const std::string& name, const std::vector<Job>& jobs, double paper_backoff,
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
    result.rows.push_back({display_name(how), metrics.io_time * static_cast<double>(jobs.size()), metrics.io_time,
                           metrics.makespan, 100 * metrics.phase_deviation, metrics.slowdown});
    result.timelines.push_back(timeline_of(scenario, measured->outcome, display_name(how)));
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

// Random jobs as the thesis draws them: 7 to 9 minutes of computation in 4 to 10 iterations, 2.4 GB a job on average.
std::vector<Job> random_jobs(unsigned count, std::uint64_t seed) {
  Prng chance(seed * 104729);
  std::vector<Job> jobs;
  for (unsigned i = 0; i < count; ++i) {
    Job job;
    job.iterations = 4 + static_cast<unsigned>(chance.below(7));
    job.compute = Duration(static_cast<std::int64_t>(chance.uniform(420e9, 540e9) / job.iterations));
    job.megabytes = (1600 + chance.below(1601)) / job.iterations;
    job.start = Duration(static_cast<std::int64_t>(chance.uniform(0, 60e9)));
    jobs.push_back(job);
  }
  return jobs;
}

}  // namespace

Result<ExperimentResult> thesis_identical(const LabOptions& /*options*/) {
  return compare("thesis-identical", {2, Job{3, 1024, 90s, 0s}}, 45.12, 71.72);
}

Result<ExperimentResult> thesis_mixed(const LabOptions& /*options*/) {
  return compare("thesis-mixed",
                 {Job{3, 1392, 140s, 0s}, Job{5, 1312, 132s, 0s}, Job{3, 1392, 140s, 0s}, Job{3, 2192, 220s, 0s}},
                 16.88, 48.83);
}

Result<ExperimentResult> thesis_scale(const LabOptions& options) {
  ExperimentResult result;
  result.device = "one NFS server: " + describe(nfs_server().servers.device) + ", depth 8";
  result.columns = {"jobs", "coordination", "I/O time s", "makespan s", "phase deviation %", "slowdown"};
  constexpr unsigned kSeeds = 3;
  std::map<std::string, Averages> at_ten;
  for (const unsigned count : {2u, 6u, 10u})
    for (const std::string how : {"base", "backoff", "fifo", "shortest", "set10"}) {
      say(options, fmt::format("thesis-scale: {} jobs, {}", count, display_name(how)));
      const auto averages = average([&](std::uint64_t seed) { return with_jobs(random_jobs(count, seed), how, seed); },
                                    {.seeds = kSeeds, .slowdown = true, .bound = false});
      if (!averages) return Failure(averages.error());
      result.rows.push_back({std::int64_t{count}, display_name(how), averages->io_time, averages->makespan,
                             100 * averages->phase_deviation, averages->slowdown});
      if (count == 10) at_ten[how] = *averages;
    }
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
  return result;
}

}  // namespace tutti::lab
