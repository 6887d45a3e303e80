// SPDX-License-Identifier: Apache-2.0
#include "lab/thesis_jobs.h"

#include <fmt/format.h>

#include "base/prng.h"

namespace tutti::lab {

using namespace std::chrono_literals;
using sim::Gate;

namespace {

HddFigures thesis_disk() {
  HddFigures disk;
  disk.capacity = Bytes(12'000'000'000'000);
  disk.bandwidth = 91.48 * kMegabyte;
  disk.write_positioning = 1;  // writes are served in order of arrival
  return disk;
}

// The prober of the thesis (sections 3.1.2 and 4.2): three files of 3 MB and 500 KB of priming. The pause between its
// writes is not given; this one makes a quiet iteration take 4.03 s, as the thesis measured.
gate::BackoffOptions thesis_prober() {
  gate::BackoffOptions prober;
  prober.priming = Bytes(500'000);
  prober.probe_pause = 1975ms;
  return prober;
}

}  // namespace

Scenario nfs_server() {
  Scenario scenario;
  scenario.servers.count = 1;
  scenario.servers.depth = kServerThreads;
  scenario.servers.device = thesis_disk();
  scenario.servers.write_cache = kDiskCache;
  scenario.network.latency = 100us;
  scenario.network.jitter = 200us;
  scenario.network.server_bandwidth = 125e6;
  scenario.gate.backoff = thesis_prober();
  return scenario;
}

std::vector<ThesisJob> mixed_jobs() {
  return {ThesisJob{3, 1392, 140s, 0s}, ThesisJob{5, 1312, 132s, 0s}, ThesisJob{3, 1392, 140s, 0s},
          ThesisJob{3, 2192, 220s, 0s}};
}

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
  application.pattern = Pattern::kStrided;
  application.sizes = sim::PhaseSizes::kAnnounced;  // for the gate; the server serves in order of arrival
  return application;
}

std::string coordination_name(const std::string& how) {
  if (how == "base" || how == "backoff") return how;
  if (how == "backoff-own") return "backoff, own data";
  if (how == "lock-probe") return "locking, then a probe";
  return how == "fifo" ? "locking" : "locking, " + how;
}

void coordinate(const std::string& how, Scenario& scenario) {
  Gate& gate = scenario.gate;
  if (how == "base") return;
  const bool backs_off = how == "backoff" || how == "backoff-own";
  gate.kind = backs_off ? Gate::Kind::kBackoff : Gate::Kind::kLock;
  gate.own_data = how == "backoff-own";
  gate.probe = how == "lock-probe";
  if (backs_off || gate.probe) return;
  const bool share_bandwidth = how == "set10-bandwidth";
  gate.discipline = share_bandwidth ? "set10" : how;
  if (share_bandwidth) gate.discipline_options["share"] = "bandwidth";
}

Scenario with_jobs(const std::vector<ThesisJob>& jobs, const std::string& how, std::uint64_t seed) {
  Scenario scenario = nfs_server();
  scenario.seed = seed;
  Prng chance(seed * 7919);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    ThesisJob job = jobs[i];
    job.start += Duration(static_cast<std::int64_t>(chance.uniform(0, 1e9)));
    scenario.applications.push_back(ior(fmt::format("job {}", i + 1), job));
  }
  coordinate(how, scenario);
  return scenario;
}

}  // namespace tutti::lab
