// SPDX-License-Identifier: Apache-2.0
// Production nodes, clients and gate in one simulated world.
#pragma once

#include <tutti/client.h>

#include <memory>
#include <string>
#include <vector>

#include "client/async_client.h"
#include "gate/client.h"
#include "gate/service.h"
#include "node/node_service.h"
#include "sim/simulated_files.h"
#include "sim/simulated_network.h"
#include "sim/simulator.h"

namespace tutti::sim {

// A node process: the production service with a mount of the volume and a modelled device. Each node has a machine of
// its own, which boots again at the first start after Volume::cut_power().
class SimulatedNode {
 public:
  struct Options {
    NodeOptions node{};
    ModelledOptions device{};
    DiskRule faults{};
    std::shared_ptr<net::JobCheck> jobs{};  // as in NodeService::Dependencies
    SchedulerObserver* observer = nullptr;  // the same
  };
  SimulatedNode(SimulatedNetwork& network, Volume& volume, std::size_t number, Options options);
  ~SimulatedNode();

  // Kills the process; start() starts it again, with an empty queue and no connections.
  void kill();
  void start();
  bool running() const { return service_ != nullptr; }

  Process& process() { return process_; }
  NodeService& service() { return *service_; }
  // The device of the node.
  void set_slowdown(double factor) { engine_->set_slowdown(factor); }
  Duration busy() const { return engine_->busy(); }

 private:
  SimulatedNetwork& network_;
  Volume& volume_;
  const std::size_t number_;
  std::uint64_t starts_ = 0;
  Options options_;
  Process process_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<ModelledEngine> engine_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<NodeService> service_;
  std::unique_ptr<net::Listener> listener_;
};

// A client process: the production client without its blocking calls.
class SimulatedClient {
 public:
  using MakeTurns = std::function<std::unique_ptr<job::Turns>(Process&)>;
  SimulatedClient(SimulatedNetwork& network, std::size_t link, job::Identity identity, ClientOptions options,
                  MakeTurns make_turns);

  // Connects.
  void start(Done<void> done) { async_->core().start(std::move(done)); }
  // Kills the process. Calls in progress fail with kStopped inside this call. Files must be closed.
  void kill();
  // Starts a new client in the process after kill(), for another job if there is an identity. Call start() next.
  void create();
  void create(job::Identity identity) {
    identity_ = std::move(identity);
    create();
  }
  Process& process() { return process_; }
  AsyncClient& async() { return *async_; }
  bool running() const { return async_ != nullptr; }

 private:
  SimulatedNetwork& network_;
  const std::size_t link_;
  job::Identity identity_;
  const ClientOptions options_;
  const MakeTurns make_turns_;
  Process process_;
  std::unique_ptr<AsyncClient> async_;
};

// A gate process: the production gate service.
class SimulatedGate {
 public:
  // Messages to and from the gate take `latency`.
  SimulatedGate(SimulatedNetwork& network, gate::GateService::Options options, Duration latency);
  ~SimulatedGate();

  // Kills the process. start() starts it again; jobs of the killed gate may re-assert their turns for `recover_for`.
  void kill();
  void start(Duration recover_for);
  bool running() const { return service_ != nullptr; }

  Process& process() { return process_; }
  gate::GateService& service() { return *service_; }
  // Makes turns at this gate for a process on link number `link` that belongs to job number `job`.
  struct Bounds {
    Duration answer_bound = gate::GateClient::Options{}.answer_bound;
    Duration max_wait = gate::GateClient::Options{}.max_wait;
  };
  SimulatedClient::MakeTurns turns(std::size_t link, std::uint64_t job, const Bounds& bounds);

 private:
  SimulatedNetwork& network_;
  gate::GateService::Options options_;
  const Duration latency_;
  Process process_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<gate::GateService> service_;
  std::unique_ptr<net::Listener> listener_;
};

class SimulatedCluster {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::size_t nodes = 1;
    std::size_t clients = 64;  // number of client links
    bool content = false;
    Network network{};
    Cluster cluster{};  // without nodes; `nodes` nodes are added, with one target each
    Duration give_up = ClientOptions{}.give_up;
    std::optional<Duration> sync_timeout{};  // as in ClientOptions
    SimulatedNode::Options node{};
    // The position of an operation on the device of a node. Empty: the default of ModelledOptions.
    std::function<std::uint64_t(std::size_t node, const Operation&)> position{};
    // The faults of a node's operations. Empty: `node.faults`.
    std::function<std::optional<DiskFault>(std::size_t node, const Operation&)> faults{};
  };
  explicit SimulatedCluster(Options options);
  ~SimulatedCluster();

  Simulator& simulator() { return simulator_; }
  SimulatedNetwork& network() { return network_; }
  Volume& volume() { return volume_; }
  SimulatedNode& node(std::size_t number) { return *nodes_[number]; }
  std::size_t nodes() const { return nodes_.size(); }
  const Cluster& description() const { return cluster_; }

  // Several clients may share a link of the network.
  SimulatedClient& add_client(job::Identity identity, std::size_t link,
                              const SimulatedClient::MakeTurns& make_turns = {});
  SimulatedClient& add_client(const std::string& name) { return add_client({.name = name}, clients_.size()); }

 private:
  const Options options_;
  Simulator simulator_;
  SimulatedNetwork network_;
  Volume volume_;
  Cluster cluster_;
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  std::vector<std::unique_ptr<SimulatedClient>> clients_;
};

}  // namespace tutti::sim
