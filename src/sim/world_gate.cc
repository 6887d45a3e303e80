// SPDX-License-Identifier: Apache-2.0
// Before a phase: the production lock table, or the production backoff, in virtual time.
#include <algorithm>

#include "gate/calibration.h"
#include "sim/world.h"

namespace tutti::sim {
namespace {

TimePoint time_of(Nanoseconds now) {
  return TimePoint(Duration(now));
}

}  // namespace

Result<void> World::build_gate() {
  if (scenario_.gate.kind != Gate::Kind::kLock) return {};
  gate::LockTable::Options options;
  options.targets = scenario_.servers.count;
  options.lease = std::chrono::hours(24 * 365);  // simulated clients never forget to renew
  options.discipline = scenario_.gate.discipline;
  options.discipline_options = scenario_.gate.discipline_options;
  auto table = gate::LockTable::create(std::move(options));
  if (!table) return Failure(table.error());
  gate_.emplace(std::move(*table));
  return {};
}

// An application's computation is over: it may have to wait before it begins its phase.
void World::ready(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  state.ready = now_;
  if (scenario_.gate.kind == Gate::Kind::kNone) return begin_phase(application);
  if (scenario_.gate.kind == Gate::Kind::kBackoff) {
    gate::BackoffOptions options = scenario_.gate.backoff;
    options.targets = state.layout.stripe_count;
    const double threshold = gate::Calibration::kShare * quiet_rate(*state.spec);
    const std::uint64_t seed = scenario_.seed ^ (std::uint64_t{application} << 32) ^ (state.iteration + 1);
    state.backoff = std::make_unique<gate::Backoff>(options, threshold, seed);
    return next_probe(application);
  }
  state.asking = true;
  schedule(now_ + scenario_.gate.latency.count(), EventKind::kGate, {application, kArrives});
  schedule(now_ + scenario_.gate.patience.count(), EventKind::kGate, {application, kGivesUp});
}

void World::gate_step(std::uint32_t application, std::uint32_t step) {
  ApplicationState& state = applications_[application];
  if (state.dead && step != kTick) return;
  switch (static_cast<GateStep>(step)) {
    case kArrives:
      return ask(application);
    case kGranted:
      if (!state.asking) return;  // went ahead without
      state.asking = false;
      state.holds = true;
      return begin_phase(application);
    case kReleased:
      if (gate_dead_) return;
      gate_->release(application, state.iteration, time_of(now_));  // the ticket of the phase that ended
      return deliver_answers();
    case kSlept:
      return next_probe(application);
    case kGivesUp:
      if (!state.asking || now_ - state.ready < scenario_.gate.patience.count()) return;
      state.asking = false;
      if (!gate_dead_) gate_->disconnect(application, time_of(now_));
      return begin_phase(application);
    case kTick:
      if (gate_dead_) return;
      gate_->advance(time_of(now_));
      return deliver_answers();
  }
}

void World::ask(std::uint32_t application) {
  if (gate_dead_) return;
  ApplicationState& state = applications_[application];
  gate::Ask ask{.ticket = state.iteration + std::uint64_t{1},
                .job = state.spec->name,
                .targets = gate::TargetSet::of(scenario_.servers.count, state.layout.targets),
                .bytes = state.spec->size * state.spec->operations * state.spec->ranks};
  gate_->request(application, std::move(ask), time_of(now_));
  deliver_answers();
  if (const auto deadline = gate_->next_deadline())
    schedule(std::max(now_ + 1, deadline->time_since_epoch().count()), EventKind::kGate, {application, kTick});
}

void World::deliver_answers() {
  for (const gate::Answer& answer : gate_->answers())
    if (answer.kind == gate::Answer::Kind::kGranted)
      schedule(now_ + scenario_.gate.latency.count(), EventKind::kGate,
               {static_cast<std::uint32_t>(answer.session), kGranted});
  gate_->clear_answers();
}

void World::release(std::uint32_t application) {
  applications_[application].holds = false;
  schedule(now_ + scenario_.gate.latency.count(), EventKind::kGate, {application, kReleased});
}

void World::next_probe(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  if (state.dead) return;
  const gate::Backoff::Step step = state.backoff->next();
  if (const auto* write = std::get_if<gate::Backoff::Write>(&step))
    return probe(application, write->bytes, state.layout.targets[write->target % state.layout.targets.size()]);
  if (const auto* sleep = std::get_if<gate::Backoff::Sleep>(&step))
    return schedule(now_ + sleep->time.count(), EventKind::kGate, {application, kSlept});
  begin_phase(application);
}

// Probe data goes to a file of its own on one server, in pieces as large as the application's operations.
void World::probe(std::uint32_t application, Bytes bytes, std::uint32_t target) {
  ApplicationState& state = applications_[application];
  const std::uint32_t slot = take_slot();
  Operation& operation = operations_[slot];
  operation.application = application;
  operation.rank = 0;
  operation.abandoned = false;
  operation.probe = true;
  operation.direction = Direction::kWrite;
  operation.file = (FileId{application} << 40) | ((FileId{1} << 40) - 1);
  unsorted_.clear();
  const std::uint64_t piece = std::min<std::uint64_t>(state.spec->size.count(), 1u << 30);
  for (std::uint64_t done = 0; done < bytes.count(); done += piece)
    unsorted_.push_back({done, static_cast<std::uint32_t>(std::min(piece, bytes.count() - done)), target});
  group_pieces(operation);
  shares_.assign(1, {target, bytes});
  operation.remaining = static_cast<std::uint32_t>(operation.pieces.size());
  operation.stamp = {};
  operation.stamp.application = state.stamper.application();
  operation.stamp.issued = operation.stamp.phase_start = time_of(now_) + state.skew;
  operation.stamp.operation = next_operation_++;
  operation.stamp.bottleneck = bytes;
  operation.issued = operation.arrival = now_;
  operation.first_server = operation.last_server = -1;
  send(slot);
}

// Bytes per second of a probe write when nobody else is there: what the thesis measures in quiet hours.
double World::quiet_rate(const Application& application) const {
  Device device(scenario_.servers.device);
  const std::uint64_t bytes = scenario_.gate.backoff.data_size.count();
  for (std::uint64_t done = 0; done < bytes; done += application.size.count())
    device.add({.position = (std::uint64_t{1} << 30) + done,
                .length = Bytes(std::min(application.size.count(), bytes - done)),
                .direction = Direction::kWrite,
                .tag = 0},
               TimePoint{});
  TimePoint last{};
  while (const auto next = device.next_finish()) {
    last = *next;
    device.pop_finished(last);
  }
  const Network& network = scenario_.network;
  double seconds =
      std::chrono::duration<double>(last.time_since_epoch() + 2 * (network.latency + network.jitter)).count();
  const double slowest = std::min(network.client_bandwidth > 0 ? network.client_bandwidth : 1e300,
                                  network.server_bandwidth > 0 ? network.server_bandwidth : 1e300);
  seconds += static_cast<double>(bytes) / slowest;
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

}  // namespace tutti::sim
