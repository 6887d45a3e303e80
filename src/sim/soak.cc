// SPDX-License-Identifier: Apache-2.0
#include "sim/soak.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/prng.h"
#include "sim/simulated_cluster.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kNodes = 4, kMachines = 96;  // machines of jobs, each with one job at a time
constexpr std::size_t kOperation = 256 << 10;      // bytes of a read or write
constexpr double kDay = 86'400e9;                  // ns
constexpr double kCompute = 900e9;                 // mean time between two phases, ns
constexpr double kKilled = 0.03;                   // share of jobs that are killed in the middle

class Soak {
 public:
  explicit Soak(const SoakOptions& options)
      : options_(options),
        chance_(options.seed * 11 + 5),
        cluster_(cluster_options(options.seed)),
        gate_(cluster_.network(), {.table = {.targets = kNodes}}, 100us),
        machines_(kMachines) {
    for (std::size_t i = 0; i < kMachines; ++i) add_machine(i);
  }

  SoakOutcome run() {
    const auto end = static_cast<Nanoseconds>(options_.days * kDay);
    Simulator& simulator = cluster_.simulator();
    arrive();
    sample();
    while (simulator.now() < end && simulator.run_next()) {
    }
    stopped_ = true;  // no new jobs; those that run end within hours
    const Nanoseconds limit = end + static_cast<Nanoseconds>(kDay);
    while (running_ > 0 && simulator.now() < limit && simulator.run_next()) {
    }
    const Nanoseconds settled = simulator.now() + 60'000'000'000;
    simulator.at(settled, [] {});
    while (simulator.now() < settled && simulator.run_next()) {
    }
    check_rest();
    for (std::string& wrong : check_heap(outcome_.samples)) outcome_.violations.push_back(std::move(wrong));
    outcome_.events = simulator.events();
    return std::move(outcome_);
  }

 private:
  // One machine and the job on it.
  struct Machine {
    SimulatedClient* client = nullptr;
    std::uint64_t job = 0;  // 0: none
    std::string path{};
    std::shared_ptr<OpenFile> file{};
    std::uint64_t phases = 0, writes = 0;  // left
  };

  static SimulatedCluster::Options cluster_options(std::uint64_t seed) {
    SimulatedCluster::Options options;
    options.seed = seed;
    options.nodes = kNodes;
    options.clients = kMachines;
    options.cluster.stripe_size = Bytes(64 << 10);
    options.node.device.figures = SsdFigures{};
    return options;
  }

  void add_machine(std::size_t index) {
    const auto make_turns = [this, index](Process& process) -> std::unique_ptr<job::Turns> {
      if (machines_[index].job == 0) return nullptr;  // no job has come yet
      return gate_.turns(index, machines_[index].job, {})(process);
    };
    machines_[index].client = &cluster_.add_client({.name = "none"}, index, make_turns);
    machines_[index].client->kill();
  }

  void arrive() {
    if (stopped_) return;
    const double pause = options_.days * kDay / static_cast<double>(options_.jobs);
    cluster_.simulator().at(cluster_.simulator().now() + static_cast<Nanoseconds>(chance_.exponential(pause)), [this] {
      const auto free = std::ranges::find(machines_, 0, &Machine::job);
      if (free != machines_.end() && !stopped_) begin(*free);
      arrive();
    });
  }

  void begin(Machine& machine) {
    ++running_;
    machine.job = ++last_job_;
    machine.phases = 1 + chance_.below(4);
    machine.path = fmt::format("job{}", machine.job);
    // Most jobs are runs of a few programs; others have names of their own.
    const std::string name = chance_.chance(0.9) ? fmt::format("program{}", chance_.below(200)) : machine.path;
    machine.client->create(
        {.number = machine.job, .application = static_cast<ApplicationId>(machine.job), .name = name});
    if (chance_.chance(kKilled))
      in(machine, chance_.exponential(kCompute), [this, &machine] {
        ++outcome_.killed_jobs;
        end(machine);
      });
    machine.client->start([this, &machine](const Result<void>&) { open(machine); });
  }

  // Later, unless the job has ended.
  void in(Machine& machine, double time, Task task) {
    machine.client->process().at(cluster_.simulator().now() + static_cast<Nanoseconds>(time), std::move(task));
  }

  template <typename T, typename Then>
  Done<T> then(Machine& machine, Then next) {
    ++outcome_.operations;
    return [this, &machine, job = machine.job, next](Result<T> result) {
      if (machine.job != job) return;  // it was killed
      if (!result) ++outcome_.failed_operations;
      next(result);
    };
  }

  void open(Machine& machine) {
    machine.client->async().open(
        machine.path, {.write = true, .create = true},
        then<std::shared_ptr<OpenFile>>(machine, [this, &machine](Result<std::shared_ptr<OpenFile>>& opened) {
          if (!opened) return end(machine);
          machine.file = *opened;
          begin_phase(machine);
        }));
  }

  void begin_phase(Machine& machine) {
    machine.writes = 4 + chance_.below(12);
    machine.client->async().core().begin_phase({.total = Bytes(machine.writes * kOperation)},
                                               then<void>(machine, [this, &machine](auto&) { write(machine); }));
  }

  void write(Machine& machine) {
    if (machine.writes-- == 0)
      return machine.file->fsync(true, then<std::size_t>(machine, [this, &machine](auto&) { read(machine); }));
    machine.file->write({{machine.writes * kOperation, std::span<const std::byte>(memory_)}},
                        then<std::size_t>(machine, [this, &machine](auto&) { write(machine); }));
  }

  void read(Machine& machine) {
    machine.file->read({{0, std::span(memory_)}}, then<std::size_t>(machine, [this, &machine](auto&) {
                         machine.client->async().core().end_phase();
                         if (--machine.phases > 0)
                           in(machine, chance_.exponential(kCompute), [this, &machine] { begin_phase(machine); });
                         else
                           unlink(machine);
                       }));
  }

  void unlink(Machine& machine) {
    machine.client->async().unlink(machine.path, then<void>(machine, [this, &machine](auto&) {
                                     // Not inside a callback of the client that ends.
                                     cluster_.simulator().at(cluster_.simulator().now(),
                                                             [this, &machine, job = machine.job] {
                                                               if (machine.job == job) end(machine);
                                                             });
                                   }));
  }

  void end(Machine& machine) {
    machine.job = 0;
    machine.file = nullptr;
    machine.client->kill();
    --running_;
    ++outcome_.jobs;
  }

  void sample() {
    SoakSample sample{.day = static_cast<double>(cluster_.simulator().now()) / kDay,
                      .jobs = outcome_.jobs,
                      .heap = options_.heap ? options_.heap() : 0,
                      .connections = cluster_.network().census().established};
    if (outcome_.samples.size() % 24 == 0) {
      for (std::size_t i = 0; i < kNodes; ++i) usage_rows_ = std::max(usage_rows_, usage_rows(i));
      if (options_.progress) options_.progress(sample.day);
    }
    sample.usage_rows = usage_rows_;
    outcome_.samples.push_back(sample);
    cluster_.simulator().at(cluster_.simulator().now() + static_cast<Nanoseconds>(kDay / 24),
                            [this] { this->sample(); });
  }

  std::size_t usage_rows(std::size_t node) {
    std::size_t rows = 0;
    wire::UsageKey first;
    for (bool more = true; more;) {
      const wire::StatisticsReply reply = cluster_.node(node).service().statistics(first);
      rows += reply.usage.size();
      more = reply.more && !reply.usage.empty();
      if (more) first = wire::usage_key(reply.usage.back()).next();
    }
    return rows;
  }

  // What jobs leave behind.
  void check_rest() {
    const auto wrong = [&](std::string what) { outcome_.violations.push_back("at the end " + std::move(what)); };
    if (running_ > 0) wrong(fmt::format("{} jobs have not ended", running_));
    const SimulatedNetwork::Census census = cluster_.network().census();
    if (census.established > 0) wrong(fmt::format("there are {} connections", census.established));
    if (census.request_memory > 0) wrong(fmt::format("requests hold {} bytes", census.request_memory));
    for (std::size_t i = 0; i < kNodes; ++i) {
      const wire::StatisticsReply statistics = cluster_.node(i).service().statistics();
      if (!cluster_.node(i).service().idle() || statistics.waiting > 0 || statistics.in_flight > 0)
        wrong(fmt::format("node {} has requests", i));
      if (statistics.buffer_bytes > 0)
        wrong(fmt::format("node {} has {} bytes of buffers", i, statistics.buffer_bytes));
    }
    if (!gate_.service().stop()) wrong("the gate has holders or waiters");
    if (outcome_.failed_operations > 0) wrong(fmt::format("{} operations have failed", outcome_.failed_operations));
  }

  const SoakOptions options_;
  Prng chance_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kOperation);  // of all operations: data is not sent
  SimulatedCluster cluster_;
  SimulatedGate gate_;
  std::vector<Machine> machines_;
  std::uint64_t last_job_ = 0;
  std::size_t running_ = 0;  // jobs
  bool stopped_ = false;
  std::size_t usage_rows_ = 0;  // the most so far
  SoakOutcome outcome_;
};

}  // namespace

std::vector<std::string> check_heap(const std::vector<SoakSample>& samples) {
  if (samples.size() < 2) return {};
  const auto mebibytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const std::uint64_t begin = samples.front().heap;
  std::uint64_t most = 0;  // until the tables are full
  for (const SoakSample& sample : samples) {
    if (sample.jobs > kTablesFull && static_cast<double>(sample.heap) > kGrowth * static_cast<double>(most))
      return {fmt::format("the heap has {:.1f} MiB on day {:.1f}; until the tables were full it had {:.1f} MiB",
                          mebibytes(sample.heap), sample.day, mebibytes(most))};
    if (sample.jobs <= kTablesFull) most = std::max(most, sample.heap);
    // 4 MiB for the jobs that are running.
    if (sample.heap > begin + (4 << 20) + sample.jobs * kMostPerJob)
      return {fmt::format("the heap grew from {:.1f} to {:.1f} MiB with {} jobs, more than {} bytes per job",
                          mebibytes(begin), mebibytes(sample.heap), sample.jobs, kMostPerJob)};
  }
  return {};
}

SoakOutcome run_soak(const SoakOptions& options) {
  return Soak(options).run();
}

}  // namespace tutti::sim
