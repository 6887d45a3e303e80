// SPDX-License-Identifier: Apache-2.0
#include "sim/simulated_cluster.h"

#include <fmt/format.h>

#include <cassert>
#include <cstring>

#include "gate/turns.h"

namespace tutti::sim {
namespace {

constexpr const char* kGateEndpoint = "unix:/gate";

// Every node is on a machine of its own, so clients must not assume that nodes share a page cache.
std::string endpoint_of(std::size_t node) {
  return fmt::format("tcp:node{}:7000", node);
}

// Simulated processes have the identity of the user who runs the simulation, because nodes check permissions.
wire::Identity own_identity() {
  const Credentials& own = own_credentials();
  return {.uid = own.uid, .gid = own.gid, .groups = {own.groups.begin(), own.groups.end()}};
}

}  // namespace

SimulatedNode::SimulatedNode(SimulatedNetwork& network, Volume& volume, std::size_t number, Options options)
    : network_(network),
      volume_(volume),
      number_(number),
      options_(std::move(options)),
      process_(network.simulator(), fmt::format("node{}", number)) {
  options_.node.name = process_.name();
  start();
}

void SimulatedNode::start() {
  files_ = volume_.mount(process_);
  engine_ = make_modelled_engine(process_, volume_.make_engine(process_, options_.faults), options_.device);
  transport_ = network_.make_transport(process_, {.station = true, .number = number_});
  auto service = NodeService::create(options_.node, {.world = &process_,
                                                     .workers = &process_.workers(),
                                                     .files = files_.get(),
                                                     .engine = engine_.get(),
                                                     .jobs = options_.jobs,
                                                     .process = static_cast<std::uint32_t>(number_ + 1),
                                                     .observer = options_.observer});
  assert(service);  // options were checked with the scenario
  service_ = std::move(*service);
  const auto joined = service_->join_cluster(
      *transport_, {.job = process_.name(), .claim = own_identity(), .timeout = std::chrono::seconds(1)});
  assert(joined);
  net::ListenOptions listen = service_->listen_options({});
  listen.instance = wire::Instance{.process = ++starts_};
  const std::uint64_t boot[] = {number_, volume_.power_cuts(process_)};
  std::memcpy(listen.instance->boot.data(), boot, sizeof boot);
  auto listener = transport_->listen(*net::parse_endpoint(endpoint_of(number_)), std::move(listen), *service_);
  assert(listener);
  listener_ = std::move(*listener);
}

SimulatedNode::~SimulatedNode() {
  if (service_) kill();
}

void SimulatedNode::kill() {
  process_.kill();
  service_->discard();
  network_.kill_connections(process_);
  listener_.reset();
  service_.reset();
  transport_.reset();
  engine_.reset();
  files_.reset();
}

SimulatedClient::SimulatedClient(SimulatedNetwork& network, std::size_t link, job::Identity identity,
                                 ClientOptions options, MakeTurns make_turns)
    : network_(network),
      link_(link),
      identity_(std::move(identity)),
      options_(std::move(options)),
      make_turns_(std::move(make_turns)),
      process_(network.simulator(), identity_.name) {
  create();
}

void SimulatedClient::create() {
  const net::ConnectOptions connect{.job = identity_.name,
                                    .claimed_job = {identity_.application, identity_.numbered},
                                    .claim = own_identity(),
                                    .timeout = std::chrono::seconds(2)};
  auto transport = network_.make_transport(process_, {.station = false, .number = link_});
  auto core = std::make_shared<Core>(process_, std::move(transport), options_, identity_, connect,
                                     make_turns_ ? make_turns_(process_) : nullptr);
  async_ = std::make_unique<AsyncClient>(std::move(core), 022);
}

void SimulatedClient::kill() {
  process_.kill();
  async_->core().stop();
  async_.reset();
}

SimulatedGate::SimulatedGate(SimulatedNetwork& network, gate::GateService::Options options, Duration latency)
    : network_(network), options_(std::move(options)), latency_(latency), process_(network.simulator(), "gate") {
  start(options_.recover_for);
}

SimulatedGate::~SimulatedGate() {
  if (service_) kill();
}

void SimulatedGate::start(Duration recover_for) {
  options_.recover_for = recover_for;
  transport_ = network_.make_transport(process_, {.station = true, .apart = latency_});
  auto service = gate::GateService::create(process_, options_);
  assert(service);  // options were checked with the scenario
  service_ = std::move(*service);
  auto listener =
      transport_->listen(*net::parse_endpoint(kGateEndpoint), gate::GateService::listen_options(), *service_);
  assert(listener);
  listener_ = std::move(*listener);
}

void SimulatedGate::kill() {
  process_.kill();
  (void)service_->stop();
  listener_.reset();
  service_.reset();
  transport_.reset();
}

SimulatedClient::MakeTurns SimulatedGate::turns(std::size_t link, std::uint64_t job, const Bounds& bounds) {
  return [this, link, job, bounds](Process& process) {
    gate::GateClient::Options options{.endpoint = *net::parse_endpoint(kGateEndpoint),
                                      .number = job,
                                      .answer_bound = bounds.answer_bound,
                                      .max_wait = bounds.max_wait};
    options.connect.job = process.name();
    return std::make_unique<gate::GateTurns>(process, network_.make_transport(process, {.number = link}), options);
  };
}

SimulatedCluster::SimulatedCluster(Options options)
    : options_(std::move(options)),
      simulator_(options_.seed),
      network_(simulator_, {.figures = options_.network,
                            .size = {.clients = options_.clients, .stations = options_.nodes},
                            .content = options_.content}),
      volume_(simulator_, {.content = options_.content}),
      cluster_(options_.cluster) {
  for (std::size_t i = 0; i < options_.nodes; ++i) {
    SimulatedNode::Options node = options_.node;
    if (options_.position)
      node.device.position = [this, i](const Operation& operation) { return options_.position(i, operation); };
    if (options_.faults) node.faults = [this, i](const Operation& operation) { return options_.faults(i, operation); };
    node.device.seed = options_.seed * 0x9e3779b97f4a7c15 + i;
    for (std::size_t j = 0; j < options_.nodes; ++j)
      node.node.cluster.push_back({fmt::format("node{}", j), endpoint_of(j)});
    nodes_.push_back(std::make_unique<SimulatedNode>(network_, volume_, i, std::move(node)));
    cluster_.nodes.push_back({fmt::format("node{}", i), endpoint_of(i), {static_cast<TargetId>(i)}});
  }
}

SimulatedCluster::~SimulatedCluster() {
  for (auto& client : clients_)
    if (client->running()) client->async().core().stop();
}

SimulatedClient& SimulatedCluster::add_client(job::Identity identity, std::size_t link,
                                              const SimulatedClient::MakeTurns& make_turns) {
  clients_.push_back(std::make_unique<SimulatedClient>(
      network_, link, std::move(identity),
      ClientOptions{.cluster = cluster_, .give_up = options_.give_up, .sync_timeout = options_.sync_timeout},
      make_turns));
  return *clients_.back();
}

}  // namespace tutti::sim
