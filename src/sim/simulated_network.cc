// SPDX-License-Identifier: Apache-2.0
#include "sim/simulated_network.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "sim/simulated_connection.h"

namespace tutti::sim {

// ---- the transport of a process ----

class SimulatedTransport final : public net::Transport {
 public:
  SimulatedTransport(SimulatedNetwork& network, SimulatedNetwork::Attachment end) : network_(network), here_(end) {}
  ~SimulatedTransport() override;

  Result<std::unique_ptr<net::Listener>> listen(const net::Endpoint& endpoint, net::ListenOptions options,
                                                net::Handler& handler) override;
  void connect(const net::Endpoint& endpoint, net::ConnectOptions options, net::Handler& handler,
               Connected done) override;

 private:
  void accept(const std::string& name, const net::ConnectOptions& options, net::Handler& handler,
              const Connected& done);

  SimulatedNetwork& network_;
  const SimulatedNetwork::Attachment here_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

namespace {

// Stops listening when destroyed.
class Listening final : public net::Listener {
 public:
  Listening(std::function<void()> stop, net::Endpoint endpoint, std::shared_ptr<SimulatedListener> state)
      : stop_(std::move(stop)), endpoint_(std::move(endpoint)), state_(std::move(state)) {}
  ~Listening() override { stop_(); }
  const net::Endpoint& endpoint() const override { return endpoint_; }
  std::size_t connections() const override { return state_->connections; }
  bool wait_until_sent(Duration) override { return true; }

 private:
  const std::function<void()> stop_;
  const net::Endpoint endpoint_;
  const std::shared_ptr<SimulatedListener> state_;
};

// Memory was released: waiting connections try again, in order.
void wake_starved(const std::shared_ptr<SimulatedListener>& listener) {
  if (listener->starved.empty() || std::exchange(listener->waking, true)) return;
  listener->process->soon([listener] {
    listener->waking = false;
    for (std::size_t count = listener->starved.size(); count > 0; --count) {
      const auto connection = listener->starved.front().lock();
      listener->starved.pop_front();
      if (connection) connection->receive();
    }
  });
}

}  // namespace

SimulatedTransport::~SimulatedTransport() {
  *alive_ = false;
  std::vector<std::shared_ptr<SimulatedConnection>> own;
  for (const auto& [number, connection] : network_.open_)
    if (connection->owner_ == this) own.push_back(connection);
  for (const auto& connection : own) connection->end({ErrorCode::kStopped, "the transport was shut down"});
}

Result<std::unique_ptr<net::Listener>> SimulatedTransport::listen(const net::Endpoint& endpoint,
                                                                  net::ListenOptions options, net::Handler& handler) {
  const std::string name = net::to_text(endpoint);
  auto state = std::make_shared<SimulatedListener>();
  state->options = std::move(options);
  state->handler = &handler;
  state->process = here_.process;
  state->transport = this;
  state->port = here_.port;
  if (!state->options.pool) state->options.pool = net::BufferPool::create(Bytes(std::uint64_t{256} << 20));
  const auto retry = [weak = std::weak_ptr(state)] {
    if (const auto listener = weak.lock()) wake_starved(listener);
  };
  state->options.pool->when_released(retry);
  if (state->options.pulled_pool) state->options.pulled_pool->when_released(retry);
  if (!network_.listeners_.emplace(name, state).second)
    return fail(ErrorCode::kIo, fmt::format("cannot listen on {}: the name is in use", name), EADDRINUSE);
  auto stop = [this, name, state] {
    network_.listeners_.erase(name);
    std::vector<std::shared_ptr<SimulatedConnection>> open;
    for (const auto& [number, connection] : network_.open_)
      if (connection->listener_ == state) open.push_back(connection);
    for (const auto& connection : open) connection->end({ErrorCode::kStopped, "the node stopped listening"});
  };
  return std::make_unique<Listening>(std::move(stop), endpoint, std::move(state));
}

void SimulatedTransport::connect(const net::Endpoint& endpoint, net::ConnectOptions options, net::Handler& handler,
                                 Connected done) {
  // One round trip for the connection and one for the handshake.
  const Nanoseconds late = network_.simulator_.now() + options.timeout.count();
  const std::string name = net::to_text(endpoint);
  const auto found = network_.listeners_.find(name);
  const auto* there = found == network_.listeners_.end() ? nullptr : found->second->process;
  const Duration shared = network_.model_.figures().latency;
  const Duration latency = there ? found->second->port.apart.value_or(shared) : shared;
  const Nanoseconds back = network_.simulator_.now() + 4 * latency.count();
  const bool unresponsive = back > late || (there && (there->paused() || network_.find_cut(*here_.process, *there) ||
                                                      network_.find_cut(*there, *here_.process)));
  here_.process->at(unresponsive ? late : back, [this, alive = alive_, name, unresponsive, options, &handler, done] {
    if (!*alive) return;
    if (unresponsive) return done(fail(ErrorCode::kTimeout, "the peer did not answer in time"));
    accept(name, options, handler, done);
  });
}

void SimulatedTransport::accept(const std::string& name, const net::ConnectOptions& options, net::Handler& handler,
                                const Connected& done) {
  const auto found = network_.listeners_.find(name);
  if (found == network_.listeners_.end())
    return done(
        fail(ErrorCode::kUnreachable, fmt::format("cannot connect to {}: Connection refused", name), ECONNREFUSED));
  const auto listener = found->second;
  const SimulatedNetwork::Attachment there{listener->process, listener->port};
  net::Peer peer{.identity = options.claim.value_or(network_.options_.identity),
                 .method = wire::Method::kPeer,
                 .job = options.job,
                 .address = here_.process->name()};
  if (listener->options.jobs) {
    const auto bound = listener->options.jobs->bind(peer, options.claimed_job, std::optional<ApplicationId>{});
    if (!bound) return done(Failure(bound.error()));
    peer.application = *bound;
  }
  auto client = std::make_shared<SimulatedConnection>(network_, here_, handler, this);
  auto node = std::make_shared<SimulatedConnection>(network_, there, *listener->handler, listener->transport);
  client->other_ = node;
  node->other_ = client;
  client->pool_ = options.pool;
  node->pool_ = listener->options.pool;
  node->listener_ = listener;
  node->peer_ = std::move(peer);
  client->peer_ = {.job = listener->options.node, .address = name};
  client->welcome_ = {.node = listener->options.node,
                      .now = listener->process->clock().steady(),
                      .limits = listener->options.limits,
                      .instance = listener->options.instance.value_or(wire::Instance{}),
                      .fence_time = listener->options.fence_time};
  ++listener->connections;
  network_.open_[client->number_] = client;
  network_.open_[node->number_] = node;
  node->handler_.connected(node);
  done(client);
}

SimulatedNetwork::SimulatedNetwork(Simulator& simulator, const Options& options)
    : simulator_(simulator),
      options_(options),
      model_(options.figures, options.size, simulator.chance()()),
      frame_pool_(std::make_unique<FramePool>()) {}

SimulatedNetwork::~SimulatedNetwork() {
  for (auto& [number, connection] : open_) connection->other_ = nullptr;  // the two ends refer to each other
}

void SimulatedNetwork::heal(const Process& from, const Process& to) {
  const auto found = cuts_.find({&from, &to});
  if (found == cuts_.end()) return;
  const std::vector<Task> held = std::move(found->second.held);
  cuts_.erase(found);
  for (const Task& send : held) send();
}

SimulatedNetwork::Census SimulatedNetwork::census() const {
  Census census;
  for (const auto& [number, connection] : open_) connection->add_to(census);
  for (const auto& [name, listener] : listeners_) census.request_memory += listener->request_memory;
  return census;
}

std::vector<std::shared_ptr<SimulatedConnection>> SimulatedNetwork::connections_of(const Process& process) const {
  std::vector<std::shared_ptr<SimulatedConnection>> own;
  for (const auto& [number, connection] : open_)
    if (&connection->process() == &process) own.push_back(connection);
  return own;
}

void SimulatedNetwork::forget_connections(const Process& process) {
  for (const auto& connection : connections_of(process)) connection->forget();
}

void SimulatedNetwork::kill_connections(const Process& process) {
  for (const auto& connection : connections_of(process)) {
    connection->end_here({ErrorCode::kUnreachable, "the process was killed"});
    connection->context = nullptr;  // no handler is called that would; a session owns requests that own the connection
  }
}

std::unique_ptr<net::Transport> SimulatedNetwork::make_transport(Process& process, NetworkPort port) {
  return std::make_unique<SimulatedTransport>(*this, Attachment{&process, port});
}

Nanoseconds SimulatedNetwork::arrival(const Attachment& from, const Attachment& to, std::uint64_t bytes) {
  const Nanoseconds now = simulator_.now();
  Nanoseconds there = 0;
  if (const auto apart = from.port.apart ? from.port.apart : to.port.apart)
    there = now + apart->count();
  else if (from.port.station && to.port.station)
    there = model_.between(now, from.port.number, to.port.number, bytes);
  else if (to.port.station)
    there = model_.to_station(now, from.port.number, to.port.number, bytes);
  else
    there = model_.to_client(now, from.port.number, to.port.number, bytes);
  return extra_delay ? there + extra_delay(*from.process, *to.process) : there;
}

}  // namespace tutti::sim
