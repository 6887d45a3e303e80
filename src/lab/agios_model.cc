// SPDX-License-Identifier: Apache-2.0
#include "lab/agios_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::lab {

using namespace literals;
using namespace std::chrono_literals;

AgiosPolicy agios_paper_policy() {
  return {"mlf",
          {{"between", "arrival"},
           {"growth", "request"},
           {"wait", "0"},
           {"adjoin", "object"},
           {"max_requests", "1000000"},
           {"max_bytes", "1GiB"}}};
}

AgiosPolicy agios_predicting_policy(const std::string& prediction) {
  AgiosPolicy policy = agios_paper_policy();
  policy.options["prediction"] = prediction;
  return policy;
}

// dNFSp: stripes of 32 KiB, NFS clients that send requests of at most 8 KiB. The paper's nodes, Edel of Grid'5000, have
// an SSD, a Micron C400 (reference repository of Grid'5000, storage_devices of edel-1). 32 nodes run all processes.
Scenario agios_scenario(const AgiosTest& test, const AgiosServers& servers, const AgiosPolicy& policy,
                        std::uint64_t seed) {
  Scenario scenario = ethernet_disks(servers.depth, seed);
  scenario.name =
      fmt::format("{} {} {} {}", test.pattern_name(), test.size_name(), test.direction_name(), test.processes);
  scenario.servers.device = *device_preset("ssd-sata-2011");
  scenario.servers.request_cost = servers.request_cost;
  scenario.servers.write_cost = servers.write_cost;
  scenario.servers.thread_bandwidth =
      test.direction == Direction::kWrite ? servers.write_bandwidth : servers.read_bandwidth;
  scenario.servers.policy = {policy.name, policy.options};
  for (unsigned i = 0; i < test.applications; ++i) {
    Application application;
    application.name = fmt::format("test-{}", static_cast<char>('a' + i));
    application.ranks = test.processes;
    application.ranks_per_node = std::max(1u, test.processes * test.applications / 32);
    application.size = test.large ? 256_KiB : 16_KiB;
    application.operations = test.large ? 8 : 128;
    application.largest_request = 8_KiB;
    application.separate_requests = true;
    application.stripe_size = 32_KiB;
    application.direction = test.direction;
    application.pattern = test.pattern;
    application.barrier = sim::RankBarrier::kOperation;  // a round is served before the next is sent
    scenario.applications.push_back(application);
  }
  return scenario;
}

void fit_to_nodes(const AgiosTest& test, const AgiosServers& servers, Scenario& scenario) {
  const bool write = test.direction == Direction::kWrite;
  scenario.servers.device = FixedFigures{.latency = servers.request_cost + (write ? servers.write_cost : Duration{}),
                                         .bandwidth = write ? servers.write_bandwidth : servers.read_bandwidth};
  scenario.servers.request_cost = scenario.servers.write_cost = Duration{};
  scenario.servers.thread_bandwidth = 0;
  scenario.servers.read_ahead = Bytes{};
  scenario.servers.write_back = false;
}

Result<AgiosRun> run_agios(const AgiosTest& test, const AgiosServers& servers, const AgiosPolicy& policy,
                           const AgiosRepeat& repeat, const AgiosPredictions& predictions) {
  AgiosRun run;
  for (unsigned i = 0; i < repeat.seeds; ++i) {
    Scenario scenario = agios_scenario(test, servers, policy, kFirstSeed + i);
    scenario.servers.predictions = predictions;
    for (Application& application : scenario.applications) {
      application.iterations = repeat.iterations;
      if (repeat.iterations > 1) application.compute = 1s;
    }
    sim::RunOptions options;
    options.operation_records = false;
    const auto outcome = sim::run(scenario, options);
    if (!outcome) return Failure(outcome.error());
    if (!outcome->stuck.empty()) return fail(ErrorCode::kIo, fmt::format("{}: {}", scenario.name, outcome->stuck[0]));
    double seconds = std::chrono::duration<double>(outcome->makespan).count();
    if (repeat.iterations > 1) {
      double sum = 0, count = 0;
      for (const sim::PhaseRecord& phase : outcome->phases)
        if (phase.iteration > 0) sum += std::chrono::duration<double>(phase.end - phase.begin).count(), ++count;
      seconds = sum / count;
    }
    run.seconds.push_back(seconds);
    run.batches.push_back(static_cast<double>(outcome->batched_requests) /
                          static_cast<double>(std::max<std::uint64_t>(1, outcome->batches)));
  }
  return run;
}

Result<AgiosPredictions> record_agios(const AgiosTest& test, const AgiosServers& servers, unsigned traces) {
  constexpr std::uint64_t kFirstTraced = 104'001;
  std::vector<std::vector<Trace>> by_server;
  for (unsigned i = 0; i < traces; ++i) {
    const Scenario scenario = agios_scenario(test, servers, agios_paper_policy(), kFirstTraced + i);
    sim::RunOptions options;
    options.traces = true;
    options.operation_records = false;
    auto outcome = sim::run(scenario, options);
    if (!outcome) return Failure(outcome.error());
    by_server.resize(outcome->traces.size());
    for (std::size_t server = 0; server < by_server.size(); ++server)
      by_server[server].push_back(std::move(outcome->traces[server]));
  }
  AgiosPredictions predictions;
  for (const auto& each : by_server) predictions.push_back(PredictedQueues::combine(each));
  return predictions;
}

}  // namespace tutti::lab
