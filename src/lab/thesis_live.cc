// SPDX-License-Identifier: Apache-2.0
// Backoff and locking (thesis, chapter 4) with real processes: jobs compute and write through a node over a modelled
// disk, and take their turns at a gate's daemon or by the prober.
#include <fmt/format.h>
#include <tutti/client.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <thread>

#include "gate/client.h"
#include "gate/prober.h"
#include "gate/server.h"
#include "lab/burst.h"
#include "lab/catalogue.h"
#include "lab/live.h"
#include "lab/thesis.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace std::chrono_literals;

// The disk takes twice its time, so that it is slower than the two cores that all processes share; times are a
// fraction of the thesis's, and sizes as much smaller again.
constexpr double kDiskSlowdown = 2;

struct Scale {
  double time = 40;  // so many times shorter than in the thesis

  Duration of(Duration time_there) const {
    return Duration(static_cast<std::int64_t>(static_cast<double>(time_there.count()) / time));
  }
  Bytes bytes(std::uint64_t megabytes) const {
    const double scaled = static_cast<double>(megabytes * kMegabyte) / (time * kDiskSlowdown);
    return Bytes(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(scaled) / kLargestWrite.count()) *
                 kLargestWrite.count());
  }
};

// Of one checkpoint, in seconds since the common start.
struct Phase {
  double ready = 0;  // the computation is over
  double begin = 0;  // the turn has come
  double end = 0;
  double whole() const { return end - ready; }  // what the thesis counts: coordination included
};
using PhasesOfJobs = std::vector<std::vector<Phase>>;

struct Setting {
  std::vector<ThesisJob> jobs;
  Scale scale;
  std::string how;  // "base", "backoff" or a discipline
  bool locks() const { return how != "base" && how != "backoff"; }
};

std::string gate_socket(const std::string& directory) {
  return directory + "/gate.sock";
}

int run_gate(const std::string& directory, const std::string& discipline) {
  gate::Server::Options options;
  options.table.discipline = discipline;
  options.addresses = {gate_socket(directory)};
  auto server = gate::Server::create(std::move(options));
  return server && (*server)->run() ? 0 : 1;
}

// Takes a job's turns in one of the ways there are.
class Turns {
 public:
  static Result<std::unique_ptr<Turns>> create(const Setting& setting, const LiveProcess& process, Client& client) {
    auto turns = std::unique_ptr<Turns>(new Turns(setting, process));
    if (setting.locks()) {
      auto at_gate = gate::Client::create(
          {.address = gate_socket(process.directory), .job = fmt::format("job {}", process.job + 1)});
      if (!at_gate) return Failure(at_gate.error());
      turns->gate_ = std::move(*at_gate);
      if (auto met = turns->meet_gate(); !met) return Failure(met.error());
    }
    if (setting.how == "backoff") {
      auto file = client.open(fmt::format("probe{}", process.job), {.write = true, .create = true});
      if (!file) return Failure(file.error());
      turns->probe_file_ = std::move(*file);
      // The quiet-time maximum; the others wait for the common start meanwhile.
      for (int i = 0; i < 4 && process.job == 0; ++i)
        if (auto quiet = turns->probe(); !quiet) return Failure(quiet.error());
    }
    return turns;
  }

  Result<void> begin(Bytes bytes) {
    if (probe_file_) return probe();
    if (!gate_) return {};
    const gate::Outcome outcome = gate_->begin(gate::TargetList::everything(), bytes);
    if (outcome == gate::Outcome::kGranted) return {};
    gate_->end();
    return fail(ErrorCode::kUnreachable, fmt::format("the gate of the experiment: {}", gate::explain(outcome)));
  }
  void end() {
    if (gate_) gate_->end();
  }

 private:
  Turns(const Setting& setting, const LiveProcess& process) : gate_socket_(gate_socket(process.directory)) {
    prober_.directory = process.directory;
    prober_.state_directory = process.directory + "/state";
    prober_.seed = process.job + 1;
    gate::BackoffOptions& backoff = prober_.backoff;
    backoff.data_size = kLargestWrite * 8;
    backoff.priming = kLargestWrite;
    backoff.time_constant = setting.scale.of(backoff.time_constant);
    backoff.fixed_sleep = setting.scale.of(backoff.fixed_sleep);
    backoff.probe_pause = setting.scale.of(backoff.probe_pause);
  }

  // The gate's process may have been started a moment ago.
  Result<void> meet_gate() {
    for (int i = 0; i < 1000; ++i) {
      if (gate::query_status(gate_socket_, 5s)) return {};
      std::this_thread::sleep_for(5ms);
    }
    return fail(ErrorCode::kUnreachable, "the gate of the experiment did not start");
  }

  // Probe data goes on where the last one ended: a new file of a real file system is made beside the last one, too.
  Result<void> probe() {
    const auto report = gate::probe_through(
        [this](Bytes bytes) {
          const Burst burst{.offset = probed_, .total = bytes, .operation = kLargestWrite, .depth = kCallsUnderWay};
          probed_ += bytes.count();
          return run_burst(*probe_file_, burst);
        },
        prober_);
    return report ? Result<void>{} : Failure(report.error());
  }

  std::unique_ptr<gate::Client> gate_;
  std::string gate_socket_;
  std::shared_ptr<File> probe_file_;
  std::uint64_t probed_ = 0;
  gate::ProberOptions prober_;
};

void wait_for_start(const LiveProcess& process) {
  process.ready();
  char nothing = 0;
  while (read(process.start, &nothing, 1) > 0) continue;
}

// In the process of a job: ready, begin and end of each phase, by seconds_now().
Result<std::vector<double>> run_job(const Setting& setting, const LiveProcess& process) {
  const ThesisJob& job = setting.jobs[process.job];
  auto client = Client::connect({.cluster = process.cluster, .application = process.job});
  if (!client) return Failure(client.error());
  auto file = (*client)->open(fmt::format("checkpoint{}", process.job), {.write = true, .create = true});
  if (!file) return Failure(file.error());
  auto turns = Turns::create(setting, process, **client);
  if (!turns) return Failure(turns.error());
  const Bytes size = setting.scale.bytes(job.megabytes);
  std::vector<double> figures;
  wait_for_start(process);
  std::this_thread::sleep_for(setting.scale.of(job.start));
  for (unsigned i = 0; i < job.iterations; ++i) {
    std::this_thread::sleep_for(setting.scale.of(job.compute));
    figures.push_back(seconds_now());
    if (auto turn = (*turns)->begin(size); !turn) return Failure(turn.error());
    figures.push_back(seconds_now());
    const auto done = run_burst(
        **file, {.offset = i * size.count(), .total = size, .operation = kLargestWrite, .depth = kCallsUnderWay});
    if (!done) return Failure(done.error());
    figures.push_back(seconds_now());
    (*turns)->end();
  }
  return figures;
}

Result<PhasesOfJobs> run(const Setting& setting) {
  LiveCluster cluster;
  cluster.nodes = 1;
  cluster.figures = thesis_disk();
  cluster.depth = kServerThreads;
  cluster.policy = "fifo";
  cluster.stripe_size = kLargestWrite;
  cluster.spread = thesis_disk().capacity;
  cluster.slowdown = kDiskSlowdown;
  cluster.seed = 1;
  LivePlan plan;
  plan.jobs = static_cast<std::uint32_t>(setting.jobs.size());
  plan.body = [&](const LiveProcess& process) { return run_job(setting, process); };
  if (setting.locks()) plan.daemon = [&](const std::string& directory) { return run_gate(directory, setting.how); };
  const auto measured = run_live_processes(cluster, plan, 120s);
  if (!measured) return Failure(measured.error());
  PhasesOfJobs jobs;
  for (const std::vector<double>& figures : measured->figures) {
    std::vector<Phase>& phases = jobs.emplace_back();
    for (std::size_t i = 0; i + 2 < figures.size(); i += 3)
      phases.push_back(
          {figures[i] - measured->started, figures[i + 1] - measured->started, figures[i + 2] - measured->started});
  }
  return jobs;
}

struct Summary {
  double io_time = 0;  // of a job, mean
  double makespan = 0;
  double deviation = 0;  // of a job's phases over their mean; mean of the jobs
};

Summary summarize(const PhasesOfJobs& jobs) {
  Summary summary;
  for (const std::vector<Phase>& phases : jobs) {
    double sum = 0, squares = 0;
    for (const Phase& phase : phases) {
      sum += phase.whole();
      squares += phase.whole() * phase.whole();
      summary.makespan = std::max(summary.makespan, phase.end);
    }
    const double count = static_cast<double>(phases.size()), mean = sum / count;
    summary.io_time += sum / static_cast<double>(jobs.size());
    summary.deviation +=
        std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean / static_cast<double>(jobs.size());
  }
  return summary;
}

Timeline timeline_of(const Setting& setting, const PhasesOfJobs& jobs) {
  using Kind = Timeline::Segment::Kind;
  Timeline timeline;
  timeline.title = coordination_name(setting.how) + ", live";
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    timeline.jobs.push_back(fmt::format("job {}", i + 1));
    double last = std::chrono::duration<double>(setting.scale.of(setting.jobs[i].start)).count();
    const double megabytes = static_cast<double>(setting.scale.bytes(setting.jobs[i].megabytes).count()) / 1e6;
    for (const Phase& phase : jobs[i]) {
      timeline.segments.push_back({i, Kind::kCompute, last, phase.ready, 0});
      if (setting.how != "base") timeline.segments.push_back({i, Kind::kWaiting, phase.ready, phase.begin, 0});
      timeline.segments.push_back(
          {i, Kind::kInputOutput, phase.begin, phase.end, megabytes / (phase.end - phase.begin)});
      last = phase.end;
    }
  }
  return timeline;
}

struct Paper {
  std::optional<double> backoff;
  double locking = 0;
};

Result<ExperimentResult> compare(const LabOptions& options, const std::string& name, Setting setting,
                                 const std::vector<std::string>& ways, const Paper& paper) {
  ExperimentResult result;
  result.mode = "live";
  result.device =
      fmt::format("one node process: {}, depth {}, {} times as slow; times 1/{} of the thesis's",
                  describe(DeviceFigures(thesis_disk())), kServerThreads, kDiskSlowdown, setting.scale.time);
  result.columns = {"coordination", "total I/O s", "mean I/O s", "makespan s", "phase deviation %"};
  std::map<std::string, double> io;
  for (const std::string& how : ways) {
    say(options, fmt::format("{}, live: {}", name, coordination_name(how)));
    setting.how = how;
    const auto jobs = run(setting);
    if (!jobs) return Failure(jobs.error());
    const Summary summary = summarize(*jobs);
    io[how] = summary.io_time;
    result.rows.push_back({coordination_name(how), summary.io_time * static_cast<double>(jobs->size()), summary.io_time,
                           summary.makespan, 100 * summary.deviation});
    result.timelines.push_back(timeline_of(setting, *jobs));
  }
  const auto claim = [&](const char* what, const std::string& how, double figure) {
    result.claims.push_back({.id = fmt::format("{}.live.{}", name, what),
                             .what = fmt::format("I/O time with {} below the base", what),
                             .unit = "%",
                             .paper = figure,
                             .goal = figure,
                             .kind = Claim::Goal::kAtLeast,
                             .ours = reduction(io["base"], io[how])});
  };
  if (paper.backoff) claim("backoff", "backoff", *paper.backoff);
  claim("locking", "fifo", paper.locking);
  return result;
}

}  // namespace

Result<ExperimentResult> thesis_identical_live(const LabOptions& options) {
  return compare(options, "thesis-identical", {.jobs = identical_jobs(), .scale = {40}, .how = {}},
                 {"base", "backoff", "fifo"}, {.backoff = 45.12, .locking = 71.72});
}

Result<ExperimentResult> thesis_mixed_live(const LabOptions& options) {
  return compare(options, "thesis-mixed", {.jobs = mixed_jobs(), .scale = {80}, .how = {}}, {"base", "backoff", "fifo"},
                 {.backoff = 16.88, .locking = 48.83});
}

// Without backoff: a probe cannot be made as much smaller as these checkpoints are (43 ms alone), because a seek takes
// what it takes. Ten probers then keep the disk busy among themselves.
Result<ExperimentResult> thesis_scale_live(const LabOptions& options) {
  return compare(options, "thesis-scale", {.jobs = random_jobs(10, 1), .scale = {80}, .how = {}},
                 {"base", "fifo", "shortest", "set10"}, {.backoff = {}, .locking = 81.38});
}

}  // namespace tutti::lab
