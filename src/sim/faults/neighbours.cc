// SPDX-License-Identifier: Apache-2.0
#include "sim/faults/neighbours.h"

#include <fmt/format.h>

#include <list>

#include "base/prng.h"
#include "sim/simulated_cluster.h"

namespace tutti::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::array<const char*, kClientFaults> kClientFaultNames = {
    "slow reader", "pause", "half open", "loss to nodes", "loss from nodes", "partition", "kill"};
constexpr std::array<const char*, kProbeKinds> kProbeNames = {"small read",  "small write", "large read",
                                                              "large write", "sync",        "look-up"};
constexpr std::size_t kNodes = 3, kNeighbours = 3;
constexpr std::size_t kSmall = 4 << 10, kLarge = 256 << 10;  // bytes of a neighbour's operation
constexpr std::size_t kFaultySize = 1 << 20;                 // bytes of an operation of the faulty client
constexpr std::size_t kFaultyOperations = 128;               // in flight: more than nodes have memory for
constexpr std::uint64_t kFileSize = 64 << 20;
constexpr Duration kPause = 50ms;  // between two operations of a neighbour

struct FaultyPlan {
  std::uint64_t seed = 0;
  ClientFault fault{};
  double rate = 0;        // of a slow reader, bytes per second
  double read_share = 0;  // of the faulty client's operations
  Nanoseconds begin = 0, end = 0;
};

FaultyPlan make_plan(std::uint64_t seed) {
  Prng chance(seed * 5 + 2);
  FaultyPlan plan{.seed = seed};
  plan.fault = static_cast<ClientFault>(chance.below(kClientFaults));
  plan.rate = chance.chance(0.5) ? 3e3 : 1e6;
  plan.read_share = 0.5 * static_cast<double>(chance.below(3));
  plan.begin = 500'000'000;
  plan.end = plan.begin + static_cast<Nanoseconds>(chance.uniform(2e9, 5e9));
  return plan;
}

// One of the two runs of a seed.
class NeighbourRun {
 public:
  // `policy` of the nodes; empty: the default.
  explicit NeighbourRun(const FaultyPlan& plan, const std::string& policy = {})
      : plan_(plan), chance_(plan.seed), cluster_(options(plan, policy)) {
    cluster_.volume().make_file("faulty", kFileSize);
    add_client("faulty", [this](const std::shared_ptr<OpenFile>& file) {
      for (std::size_t i = 0; i < kFaultyOperations; ++i) flood(file);
    });
    for (std::size_t i = 0; i < kNeighbours; ++i) {
      const std::string name = fmt::format("neighbour{}", i);
      cluster_.volume().make_file(name, kFileSize);
      add_client(name, [this, i](const std::shared_ptr<OpenFile>& file) {
        for (std::size_t kind = 0; kind < kProbeKinds; ++kind) probe(i, file, static_cast<ProbeKind>(kind));
      });
    }
  }
  ~NeighbourRun() {
    stopped_ = true;
    for (auto& client : clients_) client.file = nullptr;
  }

  NeighbourTimes run(bool faulty) {
    Simulator& simulator = cluster_.simulator();
    simulator.at(plan_.begin, [this, faulty] {
      measuring_ = true;
      if (faulty) set_faulty(true);
    });
    simulator.at(plan_.end, [] {});
    while (simulator.now() < plan_.end && simulator.run_next()) {
    }
    for (const auto& [kind, begin] : pending_)
      times_[kind].add(Duration(simulator.now() - std::max(begin, plan_.begin)));
    if (faulty) set_faulty(false);
    return times_;
  }
  std::uint64_t operations() const { return operations_; }

 private:
  struct NamedClient {
    SimulatedClient* client = nullptr;
    std::shared_ptr<OpenFile> file{};
  };

  static SimulatedCluster::Options options(const FaultyPlan& plan, const std::string& policy) {
    SimulatedCluster::Options options;
    if (!policy.empty()) options.node.node.policy = policy;
    options.seed = plan.seed;
    options.nodes = kNodes;
    options.clients = kNeighbours + 1;
    options.network.latency = 50us;
    options.network.jitter = 30us;
    options.cluster.stripe_size = Bytes(kLarge);
    options.cluster.request_timeout = 5s;
    options.cluster.fence_time = 2s;
    options.node.device.figures = FixedFigures{.latency = 100us, .bandwidth = 100e6};
    options.node.node.write_buffers = Bytes(16 << 20);
    options.node.node.read_buffers = Bytes(16 << 20);
    return options;
  }

  void add_client(const std::string& name, std::function<void(const std::shared_ptr<OpenFile>&)> load) {
    const std::size_t number = clients_.size();
    SimulatedClient& client = cluster_.add_client(
        {.number = number + 1, .application = static_cast<ApplicationId>(number + 1), .name = name}, number);
    clients_.push_back({&client});
    client.start([this, number, name, load = std::move(load)](const Result<void>&) {
      clients_[number].client->async().open(name, {.write = true},
                                            [this, number, load](Result<std::shared_ptr<OpenFile>> opened) {
                                              if (!opened || stopped_) return;
                                              clients_[number].file = *opened;
                                              load(*opened);
                                            });
    });
  }

  // Keeps one operation of the faulty client in flight.
  void flood(const std::shared_ptr<OpenFile>& file) {
    if (stopped_) return;
    ++operations_;
    const std::uint64_t offset = chance_.below(kFileSize / kFaultySize) * kFaultySize;
    auto again = [this, file](Result<std::size_t>) {
      if (!stopped_ && faulty_alive_) clients_[0].client->process().soon([this, file] { flood(file); });
    };
    if (chance_.chance(plan_.read_share))
      file->read({{offset, std::span(memory_)}}, std::move(again));
    else
      file->write({{offset, std::span<const std::byte>(memory_)}}, std::move(again));
  }

  // Repeats one kind of operation of a neighbour.
  void probe(std::size_t neighbour, const std::shared_ptr<OpenFile>& file, ProbeKind kind) {
    if (stopped_) return;
    ++operations_;
    const auto entry = pending_.emplace(pending_.end(), static_cast<std::size_t>(kind), cluster_.simulator().now());
    auto ended = [this, neighbour, file, kind, entry](bool succeeded) {
      if (stopped_) return;
      const Nanoseconds now = cluster_.simulator().now();
      ProbeTimes& times = times_[entry->first];
      if (measuring_) times.add(Duration(now - entry->second));
      if (measuring_ && !succeeded) ++times.failed;
      pending_.erase(entry);
      clients_[neighbour + 1].client->process().at(now + kPause.count(),
                                                   [this, neighbour, file, kind] { probe(neighbour, file, kind); });
    };
    auto moved = [ended](Result<std::size_t> done) { ended(done.has_value()); };
    const bool large = kind == ProbeKind::kLargeRead || kind == ProbeKind::kLargeWrite;
    const std::size_t size = large ? kLarge : kSmall;
    const std::uint64_t offset = chance_.below(kFileSize / kLarge) * kLarge;
    switch (kind) {
      case ProbeKind::kSmallRead:
      case ProbeKind::kLargeRead:
        file->read({{offset, std::span(memory_).first(size)}}, moved);
        return;
      case ProbeKind::kSmallWrite:
      case ProbeKind::kLargeWrite:
        file->write({{offset, std::span<const std::byte>(memory_).first(size)}}, moved);
        return;
      case ProbeKind::kSync:
        return file->fsync(true, moved);
      case ProbeKind::kLookUp:
        clients_[neighbour + 1].client->async().status(
            "faulty", true, [ended](const Result<FileStatus>& done) { ended(done.has_value()); });
    }
  }

  void set_faulty(bool faulty) {
    SimulatedNetwork& network = cluster_.network();
    Process& process = clients_[0].client->process();
    const auto each_node = [&](const std::function<void(Process&)>& apply) {
      for (std::size_t i = 0; i < kNodes; ++i) apply(cluster_.node(i).process());
    };
    switch (plan_.fault) {
      case ClientFault::kSlowReader:
        return network.set_receiver(
            process, faulty ? SimulatedNetwork::Receiver{plan_.rate, 4096} : SimulatedNetwork::Receiver{});
      case ClientFault::kPause:
        return faulty ? process.pause() : process.resume();
      case ClientFault::kHalfOpen:
        if (faulty) network.forget_connections(process);
        return;
      case ClientFault::kLossToNodes:
        return each_node([&](Process& node) { faulty ? network.cut(process, node) : network.heal(process, node); });
      case ClientFault::kLossFromNodes:
        return each_node([&](Process& node) { faulty ? network.cut(node, process) : network.heal(node, process); });
      case ClientFault::kPartition:
        return each_node([&](Process& node) {
          faulty ? network.hold(process, node) : network.heal(process, node);
          faulty ? network.hold(node, process) : network.heal(node, process);
        });
      case ClientFault::kKill:
        if (!faulty) return;
        faulty_alive_ = false;
        clients_[0].file = nullptr;
        clients_[0].client->kill();
    }
  }

  const FaultyPlan plan_;
  Prng chance_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kFaultySize);  // of all operations: data is not sent
  SimulatedCluster cluster_;
  std::vector<NamedClient> clients_;                        // the first one is the faulty one
  std::list<std::pair<std::size_t, Nanoseconds>> pending_;  // kind and begin of operations of neighbours
  NeighbourTimes times_{};
  std::uint64_t operations_ = 0;
  bool measuring_ = false;
  bool faulty_alive_ = true;
  bool stopped_ = false;
};

// Of each kind, what took longer.
NeighbourTimes slower_of(NeighbourTimes times, const NeighbourTimes& others) {
  for (std::size_t i = 0; i < kProbeKinds; ++i) {
    const Duration longest = std::max(times[i].longest, others[i].longest);
    if (others[i].mean() > times[i].mean()) times[i] = others[i];
    times[i].longest = longest;
  }
  return times;
}

double milliseconds(Duration time) {
  return static_cast<double>(time.count()) / 1e6;
}

}  // namespace

const char* name_of(ClientFault fault) {
  return kClientFaultNames[static_cast<std::size_t>(fault)];
}

const char* name_of(ProbeKind kind) {
  return kProbeNames[static_cast<std::size_t>(kind)];
}

// A sync waits for the writes that are in progress, or for nothing. If writes are served faster, more of them are in
// progress during a sync, and the mean sync takes longer. So it may take as long as a write.
static Duration usual_mean(const NeighbourTimes& healthy, ProbeKind kind) {
  const auto mean = [&](ProbeKind of) { return healthy[static_cast<std::size_t>(of)].mean(); };
  return kind == ProbeKind::kSync ? std::max(mean(kind), mean(ProbeKind::kLargeWrite)) : mean(kind);
}

std::vector<std::string> compare(const NeighbourTimes& healthy, const NeighbourTimes& faulty) {
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < kProbeKinds; ++i) {
    const char* const kind = name_of(static_cast<ProbeKind>(i));
    if (faulty[i].failed > healthy[i].failed) wrong.push_back(fmt::format("{} {}s fail", faulty[i].failed, kind));
    const Duration usual = usual_mean(healthy, static_cast<ProbeKind>(i));
    if (faulty[i].mean() > kMeanFactor * usual + kSlack)
      wrong.push_back(fmt::format("the mean {} takes {:.3f} ms instead of {:.3f} ms", kind,
                                  milliseconds(faulty[i].mean()), milliseconds(usual)));
    if (faulty[i].longest > kLongestFactor * healthy[i].longest + kSlack)
      wrong.push_back(fmt::format("the longest {} takes {:.3f} ms instead of {:.3f} ms", kind,
                                  milliseconds(faulty[i].longest), milliseconds(healthy[i].longest)));
  }
  return wrong;
}

NeighbourOutcome run_neighbours(std::uint64_t seed) {
  const FaultyPlan plan = make_plan(seed);
  NeighbourOutcome outcome{.fault = plan.fault};
  for (const bool faulty : {false, true}) {
    NeighbourRun run(plan);
    (faulty ? outcome.faulty : outcome.healthy) = run.run(faulty);
    outcome.operations += run.operations();
  }
  // The policy may serve the neighbours of a large healthy client before it, which must not count against the faulty
  // one: in order of arrival they would wait as long beside the healthy one.
  if (!compare(outcome.healthy, outcome.faulty).empty())
    outcome.healthy = slower_of(outcome.healthy, NeighbourRun(plan, "fifo").run(false));
  for (const std::string& what : compare(outcome.healthy, outcome.faulty))
    outcome.violations.push_back(fmt::format("beside a faulty client ({}): {}", name_of(plan.fault), what));
  return outcome;
}

}  // namespace tutti::sim
