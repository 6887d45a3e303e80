// SPDX-License-Identifier: Apache-2.0
// Beyond the papers: ten jobs of unequal size write checkpoints at the same time, with one or several processes per
// job.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lab/answer.h"
#include "lab/catalogue.h"
#include "lab/report_runs.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;

struct Contender {
  std::string policy;
  unsigned depth;
};

// fifo at the depth of PVFS2 servers, and at the depth of the others: enough to keep the disk busy, and low enough that
// the policy decides the order.
const Contender kContenders[] = {{"fifo", 16}, {"fifo", 4}, {"window", 4}, {"concert", 4}};

// How a job writes its checkpoint.
struct Way {
  const char* id;
  const char* name;
  unsigned processes;
  bool file_per_process;
};

// All processes announce the size of the whole job's phase.
Scenario checkpoint_scenario(const Way& way, const CheckpointSize& size, const Contender& contender,
                             std::uint64_t seed) {
  Scenario scenario = sc11_cluster(false, 4, contender.depth, Bytes(std::uint64_t{16} << 30));
  scenario.name = "checkpoints";
  scenario.seed = seed;
  scenario.servers.policy.name = contender.policy;
  if (contender.policy == "window") scenario.servers.policy.options["width"] = "1000ms";
  for (unsigned i = 0; i < size.jobs; ++i) {
    const Bytes bytes = size.smallest * (1u << (i % 5));
    Application application;
    application.name = fmt::format("job{} ({} MiB)", i, static_cast<double>(bytes.count()) / (1 << 20));
    application.id = 100 + (i * 7) % 10;
    application.ranks = way.processes;
    application.operations = static_cast<unsigned>(bytes.count() / (size.operation.count() * way.processes));
    application.size = size.operation;
    application.direction = Direction::kWrite;
    application.file_per_process = way.file_per_process;
    application.sizes = sim::PhaseSizes::kAnnounced;
    scenario.applications.push_back(application);
  }
  return scenario;
}

// Live runs take real time, so there are fewer of them.
CheckpointSize checkpoint_size(Mode mode) {
  CheckpointSize size;
  if (mode == Mode::kLive) size.placements = 3;
  return size;
}

}  // namespace

Result<ExperimentResult> checkpoints_in(const LabOptions& options, unsigned processes, const CheckpointSize& size) {
  const std::string name = processes == 1 ? "checkpoints" : "checkpoints-processes";
  const std::vector<Way> ways = processes == 1 ? std::vector<Way>{{"concert", "one process", 1, false}}
                                               : std::vector<Way>{{"shared", "shared", processes, false},
                                                                  {"own-files", "one per process", processes, true}};
  ExperimentResult result;
  result.device = fmt::format("hdd-7200, 4 servers, {} process{} per job, mean of {} placements", processes,
                              processes == 1 ? "" : "es", size.placements) +
                  describe(options.mode, "at the devices' own speed");
  result.columns = {"files", "policy", "depth", "mean checkpoint s", "slowest s", "mean slowdown"};
  for (const Way& way : ways) {
    std::map<std::string, Averages> bests;  // by policy, at its best depth
    for (const Contender& contender : kContenders) {
      say(options, fmt::format("{}: {}, {}, depth {}", name, way.name, contender.policy, contender.depth));
      const auto make = [&](std::uint64_t seed) { return checkpoint_scenario(way, size, contender, seed); };
      const auto averages = average(options.mode, make, {.seeds = size.placements, .slowdown = true});
      if (!averages) return Failure(averages.error());
      Averages& best = bests.try_emplace(contender.policy, *averages).first->second;
      if (averages->phase < best.phase) best = *averages;
      result.rows.push_back({way.name, contender.policy, std::int64_t{contender.depth}, averages->phase,
                             averages->makespan, averages->slowdown});
      result.timelines.push_back(timeline_of(
          make(kFirstSeed), averages->timeline,
          fmt::format("Ten checkpoints at once, {}: {}, depth {}", way.name, contender.policy, contender.depth)));
    }
    const Averages &fifo = bests["fifo"], &concert = bests["concert"];
    if (result.answer.sentence.empty())
      result.answer = compare_runs("mean checkpoint", {"fifo", fifo.phase, fifo.makespan},
                                   {"concert", concert.phase, concert.makespan});
    result.claims.push_back(with({.id = fmt::format("{}.{}", name, way.id),
                                  .what = fmt::format("concert's mean checkpoint below fifo's best, {}", way.name),
                                  .unit = "%",
                                  .goal = 30,
                                  .goal_is = Claim::Goal::kAtLeast},
                                 reduction_over_seeds(fifo.phases, concert.phases)));
  }
  return result;
}

Result<ExperimentResult> checkpoints(const LabOptions& options) {
  return checkpoints_in(options, 1, checkpoint_size(options.mode));
}

Result<ExperimentResult> checkpoints_processes(const LabOptions& options) {
  return checkpoints_in(options, 4, checkpoint_size(options.mode));
}

}  // namespace tutti::lab
