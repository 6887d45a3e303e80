// SPDX-License-Identifier: Apache-2.0
#include "sim/fast_simulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "sim/live_stopwatch.h"

namespace tutti::sim {
namespace {

NetworkModel::Size network_size(const Scenario& scenario) {
  NetworkModel::Size size;
  size.stations = scenario.servers.count + std::size_t{scenario.forwarding.count};
  for (const Application& application : scenario.applications) size.clients += client_nodes(application);
  return size;
}

Duration since_start(Nanoseconds time) {
  return Duration(time);
}

}  // namespace

Result<std::unique_ptr<FastSimulation>> FastSimulation::create(const Scenario& scenario, const RunOptions& options) {
  if (auto valid = check(scenario); !valid) return Failure(valid.error());
  std::unique_ptr<FastSimulation> simulation(new FastSimulation(scenario, options));
  if (auto built = simulation->build_stations(); !built) return Failure(built.error());
  simulation->build_applications();
  if (auto built = simulation->build_gate(); !built) return Failure(built.error());
  return simulation;
}

FastSimulation::FastSimulation(const Scenario& scenario, const RunOptions& options)
    : scenario_(scenario),
      options_(options),
      network_(scenario.network, network_size(scenario), scenario.seed ^ options.jitter),
      chance_(scenario.seed),
      active_faults_(scenario_),
      driver_(scenario_, *this, outcome_) {
  spread_ = spread_of(scenario_.servers);
  if (options.traces) recorder_.emplace(scenario.servers.count);
}

Result<void> FastSimulation::build_stations() {
  const unsigned servers = scenario_.servers.count;
  const unsigned count = servers + scenario_.forwarding.count;
  stations_.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    const bool server = i < servers;
    const PolicyChoice& choice = server ? scenario_.servers.policy : scenario_.forwarding.policy;
    PolicyOptions options = choice.options;
    // Policies with an option "node" get the number of their node.
    if (const PolicyInfo* info = find_policy(choice.name))
      for (const OptionInfo& option : info->options)
        if (option.name == "node") options.try_emplace("node", std::to_string(server ? i : i - servers));
    const bool disk = server && std::holds_alternative<HddFigures>(scenario_.servers.device);
    const auto& predictions = scenario_.servers.predictions;
    auto policy = make_policy(choice.name, std::move(options), disk ? "hdd" : "ssd",
                              server && i < predictions.size() ? predictions[i] : nullptr);
    if (!policy) return Failure(policy.error());
    const unsigned depth = server ? scenario_.servers.depth : scenario_.forwarding.depth;
    stations_.emplace_back(std::move(*policy),
                           Station::Limits{depth, scenario_.servers.read_ahead, scenario_.servers.write_cache,
                                           scenario_.servers.write_buffers, scenario_.servers.read_buffers},
                           scenario_.servers.device);
  }
  return {};
}

void FastSimulation::build_applications() {
  std::vector<Placed> placed = place_applications(scenario_, chance_);
  std::size_t ranks = 0;
  for (const Application& application : scenario_.applications) ranks += application.ranks;
  credit_ = std::min(scenario_.servers.limits.bytes,
                     net::WriteMemory(scenario_.servers.write_buffers).share({1, std::max<std::size_t>(ranks, 1)}));
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const Application& spec = scenario_.applications[i];
    ApplicationState& state =
        applications_.emplace_back(ApplicationState{.spec = &spec, .placed = std::move(placed[i])});
    state.announced.resize(scenario_.servers.count);
    state.pattern = file_pattern(spec);
    // An operation is one message per server. With fewer bytes and requests, the limits cannot be reached.
    const wire::Limits& limits = scenario_.servers.limits;
    const bool writes = spec.direction == Direction::kWrite;
    if (spec.outstanding > limits.requests || spec.size * spec.outstanding > Bytes(limits.bytes) ||
        (writes && credit_for(spec.size.count()) * spec.outstanding > credit_))
      state.connections.resize(std::size_t{spec.ranks} * scenario_.servers.count);
    state.phases.reserve(spec.ranks);
    for (std::uint32_t rank = 0; rank < spec.ranks; ++rank) {
      job::Phases& phases = state.phases.emplace_back(job::Phases::Options{.application = state.placed.id,
                                                                           .order = state.placed.id,
                                                                           .processes = spec.ranks,
                                                                           .targets = scenario_.servers.count});
      phases.opened(0, state.placed.layout(rank));
      remember_earlier_run(spec, phases);
    }
  }
}

Outcome FastSimulation::run() {
  const Stopwatch stopwatch;
  for (std::uint32_t i = 0; i < scenario_.faults.size(); ++i) {
    schedule(scenario_.faults[i].at.count(), EventKind::kFault, {i, 0});
    if (const auto until = scenario_.faults[i].until) schedule(until->count(), EventKind::kFault, {i, 1});
  }
  driver_.start();

  constexpr std::uint64_t kProgressEvery = 1 << 18;
  constexpr std::size_t kMany = 256;  // stations; fewer fit into the caches
  const bool looks_ahead = stations_.size() >= kMany && scenario_.forwarding.count == 0;
  while (driver_.running() > 0 && !events_.empty()) {
    const Event event = events_.pop();
    if (looks_ahead) look_ahead();
    if (event.time > scenario_.limit.count()) break;
    now_ = event.time;
    handle(event);
    if (++outcome_.events % kProgressEvery == 0 && options_.progress)
      options_.progress(since_start(now_), outcome_.events);
  }
  if (driver_.running() > 0) collect_stuck();
  for (std::uint32_t i = 0; i < scenario_.servers.count; ++i)
    outcome_.server_busy.push_back(stations_[i].device().busy(TimePoint(Duration(now_))));
  for (std::uint32_t i = 0; i < applications_.size(); ++i)
    for (std::uint32_t server = 0; server < scenario_.servers.count; ++server)
      if (const Bytes bytes = applications_[i].announced[server]; bytes > Bytes{})
        outcome_.announced.push_back({i, server, bytes});
  for (const Duration end : outcome_.application_end) outcome_.makespan = std::max(outcome_.makespan, end);
  if (recorder_) outcome_.traces = recorder_->take();
  outcome_.wall_seconds = stopwatch.seconds();
  return std::move(outcome_);
}

void FastSimulation::handle(const Event& event) {
  switch (event.kind()) {
    case EventKind::kStep:
      return driver_.step(event.a, event.b);
    case EventKind::kMessage:
      return message_arrives(event.a, event.b);
    case EventKind::kPayload:
      return payload_arrives(event.a, event.b);
    case EventKind::kForward:
      return forwarded_batch_arrives(event.a, event.b);
    case EventKind::kHandled:
      serve(event.a, event.b);
      return pump(event.a);
    case EventKind::kFinish:
      return finish(event.a);
    case EventKind::kWake:
      return event.b == 1 ? retry_starved(event.a) : wake(event.a);
    case EventKind::kReply:
      return reply(event.a);
    case EventKind::kReturn:
      return answer_forwarded(event.a, event.b);
    case EventKind::kAnswered:
      return answered(event.a, event.b);
    case EventKind::kSync:
      return sync_arrives(event.a, event.b);
    case EventKind::kSynced:
      return synced(event.a, event.b);
    case EventKind::kTimeout:
      return timeout(event.a, event.b);
    case EventKind::kFault:
      return fault(event.a, event.b == 1);
    case EventKind::kGate:
      return gate_step(event.a, event.b);
  }
}

void FastSimulation::collect_stuck() {
  for (std::uint32_t i = 0; i < applications_.size(); ++i)
    if (!driver_.progress(i).done) outcome_.stuck.push_back(describe_wait(applications_[i], i));
}

std::string FastSimulation::describe_wait(const ApplicationState& state, std::uint32_t application) const {
  const std::string who = fmt::format("application '{}'", state.spec->name);
  const Applications::Progress& progress = driver_.progress(application);
  if (state.asking) return fmt::format("{} waits at the gate before phase {}", who, progress.iteration + 1);
  if (!progress.in_phase)
    return fmt::format("{} is before phase {} at the limit of {}", who, progress.iteration + 1,
                       format(scenario_.limit));
  for (const SimulatedOperation& operation : operations_) {
    if (operation.application != application || operation.remaining == 0 || operation.abandoned) continue;
    for (const ServerMessage& message : operation.messages) {
      if (message.remaining == 0) continue;
      const Station& station = stations_[message.server];
      const char* what = station.stopped ? "is stopped" : "has not served them";
      return fmt::format(
          "{}, phase {}: rank {} waits for operation {} since {}: {} of its {} requests on server {}, which {}", who,
          progress.iteration + 1, operation.rank, operation.stamp.operation, format(since_start(operation.issued)),
          message.remaining, message.count, message.server, what);
    }
  }
  return fmt::format("{}, phase {}: no operation is in progress", who, progress.iteration + 1);
}

Result<Outcome> run(const Scenario& scenario, const RunOptions& options) {
  if (options.full) return run_full(scenario, options);
  auto simulation = FastSimulation::create(scenario, options);
  if (!simulation) return Failure(simulation.error());
  return (*simulation)->run();
}

}  // namespace tutti::sim
