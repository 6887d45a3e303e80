// SPDX-License-Identifier: Apache-2.0
#include "sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/units.h"

namespace tutti::sim {
namespace {

std::size_t client_nodes(const Application& application) {
  return (application.ranks + application.ranks_per_node - 1) / application.ranks_per_node;
}

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

Result<std::unique_ptr<World>> World::create(const Scenario& scenario, const RunOptions& options) {
  if (auto valid = check(scenario); !valid) return Failure(valid.error());
  std::unique_ptr<World> world(new World(scenario, options));
  if (auto built = world->build_stations(); !built) return Failure(built.error());
  world->build_applications();
  if (auto built = world->build_gate(); !built) return Failure(built.error());
  return world;
}

World::World(const Scenario& scenario, const RunOptions& options)
    : scenario_(scenario),
      options_(options),
      network_(scenario.network, network_size(scenario), scenario.seed),
      chance_(scenario.seed),
      active_faults_(scenario.faults.size(), false) {
  if (const auto* hdd = std::get_if<HddFigures>(&scenario_.servers.device)) {
    const Bytes spread = scenario_.servers.spread;
    spread_ = spread > Bytes{} ? std::min(spread, hdd->capacity).count() : hdd->capacity.count();
  }
}

Result<void> World::build_stations() {
  const unsigned servers = scenario_.servers.count;
  const unsigned count = servers + scenario_.forwarding.count;
  stations_.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    const bool server = i < servers;
    const PolicyChoice& choice = server ? scenario_.servers.policy : scenario_.forwarding.policy;
    PolicyOptions options = choice.options;
    // Nodes that must differ are told their number, where the policy asks for it.
    if (const PolicyInfo* info = find_policy(choice.name))
      for (const OptionInfo& option : info->options)
        if (option.name == "node") options.try_emplace("node", std::to_string(server ? i : i - servers));
    auto policy = make_policy(choice.name, options);
    if (!policy) return Failure(policy.error());
    const unsigned depth = server ? scenario_.servers.depth : scenario_.forwarding.depth;
    stations_.emplace_back(std::move(*policy), Station::Kind{depth, scenario_.servers.read_ahead},
                           scenario_.servers.device);
  }
  return {};
}

void World::build_applications() {
  std::set<ApplicationId> taken;
  for (const Application& spec : scenario_.applications)
    if (spec.id) taken.insert(*spec.id);
  std::size_t client = 0;
  applications_.reserve(scenario_.applications.size());
  for (const Application& spec : scenario_.applications) {
    ApplicationId id = spec.id.value_or(0);
    if (!spec.id) {
      const std::uint64_t ids = std::max<std::uint64_t>(32768, 4 * scenario_.applications.size());
      do id = static_cast<ApplicationId>(chance_.below(ids));
      while (!taken.insert(id).second);
    }
    ApplicationState& state = applications_.emplace_back(spec, id);
    const unsigned servers = scenario_.servers.count;
    const unsigned columns = spec.stripe_count ? spec.stripe_count : servers;
    const auto drawn = static_cast<unsigned>(chance_.below(servers));
    const unsigned first = spec.first_server.value_or(columns < servers ? drawn : 0);
    state.layout.stripe_size = spec.stripe_size;
    state.layout.stripe_count = columns;
    state.layout.targets.clear();
    for (unsigned i = 0; i < columns; ++i) state.layout.targets.push_back((first + i) % servers);
    state.first_client = client;
    state.ranks.resize(spec.ranks);
    client += client_nodes(spec);
  }
}

Outcome World::run() {
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < scenario_.faults.size(); ++i) {
    schedule(scenario_.faults[i].at.count(), EventKind::kFault, {i, 0});
    if (const auto until = scenario_.faults[i].until) schedule(until->count(), EventKind::kFault, {i, 1});
  }
  running_ = applications_.size();
  outcome_.application_end.resize(applications_.size());
  for (std::uint32_t i = 0; i < applications_.size(); ++i)
    schedule(applications_[i].spec->start.count(), EventKind::kStep, {i, 0});

  constexpr std::uint64_t kProgressEvery = 1 << 18;
  while (running_ > 0 && !events_.empty()) {
    const Event event = events_.pop();
    if (event.time > scenario_.limit.count()) break;
    now_ = event.time;
    handle(event);
    if (++outcome_.events % kProgressEvery == 0 && options_.progress)
      options_.progress(since_start(now_), outcome_.events);
  }
  if (running_ > 0) collect_stuck();
  for (std::uint32_t i = 0; i < scenario_.servers.count; ++i)
    outcome_.server_busy.push_back(stations_[i].device().busy(TimePoint(Duration(now_))));
  for (const Duration end : outcome_.application_end) outcome_.makespan = std::max(outcome_.makespan, end);
  outcome_.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::move(outcome_);
}

void World::handle(const Event& event) {
  switch (event.kind()) {
    case EventKind::kStep:
      return step(event.a, event.b);
    case EventKind::kMessage:
      return message(event.a, event.b);
    case EventKind::kForward:
      return forward(event.a, event.b);
    case EventKind::kHandled:
      serve(event.a, event.b);
      return pump(event.a);
    case EventKind::kFinish:
      return finish(event.a);
    case EventKind::kWake:
      return wake(event.a);
    case EventKind::kReply:
      return reply(event.a);
    case EventKind::kReturn:
      return come_back(event.a, event.b);
    case EventKind::kTimeout:
      return timeout(event.a, event.b);
    case EventKind::kFault:
      return fault(event.a, event.b == 1);
    case EventKind::kGate:
      return gate_step(event.a, event.b);
  }
}

void World::collect_stuck() {
  for (std::uint32_t i = 0; i < applications_.size(); ++i)
    if (!applications_[i].done) outcome_.stuck.push_back(describe_wait(applications_[i], i));
}

std::string World::describe_wait(const ApplicationState& state, std::uint32_t application) const {
  const std::string who = fmt::format("application '{}'", state.spec->name);
  if (state.asking) return fmt::format("{} waits at the gate before phase {}", who, state.iteration + 1);
  if (!state.in_phase)
    return fmt::format("{} is before phase {} at the limit of {}", who, state.iteration + 1, format(scenario_.limit));
  for (const Operation& operation : operations_) {
    if (operation.application != application || operation.remaining == 0 || operation.abandoned) continue;
    for (const Group& group : operation.groups) {
      if (group.remaining == 0) continue;
      const Station& station = stations_[group.server];
      const char* what = station.stopped ? "is stopped" : "has not served them";
      return fmt::format(
          "{}, phase {}: rank {} waits for operation {} since {}: {} of its {} pieces on server {}, which {}", who,
          state.iteration + 1, operation.rank, operation.stamp.operation, format(since_start(operation.issued)),
          group.remaining, group.count, group.server, what);
    }
  }
  return fmt::format("{}, phase {}: no operation is under way", who, state.iteration + 1);
}

Result<Outcome> run(const Scenario& scenario, const RunOptions& options) {
  auto world = World::create(scenario, options);
  if (!world) return Failure(world.error());
  return (*world)->run();
}

}  // namespace tutti::sim
