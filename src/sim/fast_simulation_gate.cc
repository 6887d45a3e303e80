// SPDX-License-Identifier: Apache-2.0
// Turns in a fast simulation: the production lock table or the production backoff, in virtual time.
#include <algorithm>
#include <utility>

#include "sim/coordination.h"
#include "sim/fast_simulation.h"

namespace tutti::sim {
namespace {

// Messages that it takes to connect and to open a session.
constexpr Nanoseconds kConnect = 4, kOpen = 2;

TimePoint time_of(Nanoseconds now) {
  return TimePoint(Duration(now));
}

}  // namespace

Result<void> FastSimulation::build_gate() {
  if (scenario_.gate.kind != Gate::Kind::kLock) return {};
  auto table = gate::LockTable::create(lock_table_options(scenario_));
  if (!table) return Failure(table.error());
  gate_.emplace(std::move(*table));
  return {};
}

// The computation of the application has ended. It may have to wait before its phase.
void FastSimulation::ask_for_turn(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  if (scenario_.gate.kind == Gate::Kind::kNone || !state.spec->coordinated) return driver_.begin_phase(application);
  if (scenario_.gate.kind == Gate::Kind::kBackoff) return begin_probes(application);
  if (!reachable(state) && state.gave_up) return driver_.begin_phase(application);
  const Nanoseconds latency = scenario_.gate.latency.count();
  const std::uint32_t ticket = ticket_of(application);
  state.asking = true;
  state.gave_up.reset();
  state.unanswered = now_;
  if (state.connected || reachable(state)) {
    if (!state.connected) *state.unanswered += (kConnect + kOpen) * latency;
    schedule_gate(*state.unanswered + latency, {application, kAsked, ticket});
  }
  schedule_gate(*state.unanswered + scenario_.gate.answer_bound.count(), {application, kUnanswered, ticket});
  schedule_gate(now_ + scenario_.gate.patience.count(), {application, kGivesUp, ticket});
}

// Whether the application can get answers of the gate. After it gave up, it tries to connect again and again, as
// GateClient does, and does not wait for the gate until an attempt succeeds.
bool FastSimulation::reachable(const ApplicationState& state) const {
  const Nanoseconds latency = scenario_.gate.latency.count(), bound = scenario_.gate.answer_bound.count();
  if (gate_stopped_ || kConnect * latency > bound) return false;
  if (!state.gave_up) return true;
  constexpr Nanoseconds kFirst = 20'000'000;
  const Nanoseconds between = bound + std::clamp<Nanoseconds>(bound / 2, 50'000'000, 1'000'000'000);
  Nanoseconds attempt = *state.gave_up + kFirst;
  if (attempt < gate_continued_) attempt += (gate_continued_ - attempt + between - 1) / between * between;
  return now_ >= attempt + (kConnect + kOpen) * latency;
}

// A waiter sends renewals to learn whether the gate still answers.
void FastSimulation::waiter_renews(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  const std::uint32_t ticket = ticket_of(application);
  state.unanswered = now_;
  send_to_gate(application, kRenewed, ticket);
  schedule_gate(now_ + scenario_.gate.answer_bound.count(), {application, kUnanswered, ticket});
}

void FastSimulation::gate_step(std::uint32_t application, std::uint32_t operand) {
  const auto step = static_cast<GateStep>(operand % kSteps);
  const std::uint32_t ticket = operand / kSteps;
  if (step <= kClosed) return gate_receives({application, step, ticket});
  if (step == kTick) {
    if (now_ == gate_tick_) gate_tick_ = kNever;
    if (gate_stopped_) return;
    gate_->advance(time_of(now_));
    return deliver_answers();
  }
  if (driver_.progress(application).dead) return;
  ApplicationState& state = applications_[application];
  const bool current = ticket == ticket_of(application), waits = state.asking && current;
  switch (step) {
    case kQueued:
    case kGranted:
      return answer_arrives(application, ticket, step == kGranted);
    case kRenew:
      if (!state.holds || !current) return;
      send_to_gate(application, kRenewed, ticket);
      return schedule_gate(now_ + gate_->options().lease.count() / 3, {application, kRenew, ticket});
    case kWaiterRenews:
      if (waits) waiter_renews(application);
      return;
    case kSlept:
      return next_probe(application);
    case kGivesUp:
      if (!waits) return;
      state.asking = false;
      send_to_gate(application, kReleased, ticket);
      return driver_.begin_phase(application);
    case kUnanswered:
      if (!waits || !state.unanswered || now_ < *state.unanswered + scenario_.gate.answer_bound.count()) return;
      state.asking = state.connected = false;
      state.gave_up = now_;
      send_to_gate(application, kClosed, ticket);
      return driver_.begin_phase(application);
    default:
      return;
  }
}

void FastSimulation::answer_arrives(std::uint32_t application, std::uint32_t ticket, bool granted) {
  ApplicationState& state = applications_[application];
  const bool waits = state.asking && ticket == ticket_of(application);
  if (waits) {
    state.connected = true;
    const Nanoseconds sent = state.unanswered.value_or(now_);
    state.unanswered.reset();
    const Nanoseconds step = std::min(scenario_.gate.answer_bound / 2, gate_->options().lease / 4).count();
    if (!granted) schedule_gate(std::max(now_, sent + step), {application, kWaiterRenews, ticket});
  }
  if (!granted) return;
  if (!waits) return send_to_gate(application, kReleased, ticket);  // it already proceeded without a turn
  state.asking = false;
  state.holds = true;
  schedule_gate(now_ + gate_->options().lease.count() / 3, {application, kRenew, ticket});
  if (scenario_.gate.probe) return begin_probes(application);
  driver_.begin_phase(application);
}

// A stopped gate reads its messages when it continues.
void FastSimulation::gate_receives(const GateMessage& message) {
  if (gate_stopped_) return gate_unread_.push_back(message);
  const TimePoint now = time_of(now_);
  if (message.step == kAsked) ask(message.application, message.ticket);
  if (message.step == kReleased) gate_->release(message.application, message.ticket, now);
  if (message.step == kRenewed) gate_->renew(message.application, message.ticket, now);
  if (message.step == kClosed) gate_->disconnect(message.application, now);
  deliver_answers();
}

void FastSimulation::set_gate_stopped(bool stopped) {
  if (!gate_ || std::exchange(gate_stopped_, stopped) == stopped || stopped) return;
  gate_continued_ = now_;
  for (const GateMessage& message : std::exchange(gate_unread_, {})) gate_receives(message);
  gate_->advance(time_of(now_));
  deliver_answers();
}

void FastSimulation::ask(std::uint32_t application, std::uint32_t ticket) {
  ApplicationState& state = applications_[application];
  std::vector<TargetId> targets;
  for (const auto& layout : state.placed.layouts)
    targets.insert(targets.end(), layout->targets.begin(), layout->targets.end());
  // The same as in Core::begin_phase().
  job::Phases& phases = state.phases.front();
  Bytes bytes = announcement_of(*state.spec, driver_.progress(application).operations, phases).total;
  if (bytes == Bytes{} && state.spec->sizes != PhaseSizes::kUnknown) bytes = phases.learned(0);
  gate::Ask ask{.ticket = ticket,
                .job = state.spec->name,
                .targets = gate::TargetSet::of(scenario_.servers.count, targets),
                .bytes = bytes};
  gate_->request(application, std::move(ask), time_of(now_));
}

void FastSimulation::deliver_answers() {
  for (const gate::Answer& answer : gate_->answers()) {
    if (answer.kind != gate::AnswerKind::kGranted && answer.kind != gate::AnswerKind::kQueued) continue;
    schedule_gate(
        now_ + scenario_.gate.latency.count(),
        {static_cast<std::uint32_t>(answer.session), answer.kind == gate::AnswerKind::kGranted ? kGranted : kQueued,
         static_cast<std::uint32_t>(answer.ticket)});
  }
  gate_->clear_answers();
  const auto deadline = gate_->next_deadline();
  if (!deadline || deadline->time_since_epoch().count() >= gate_tick_) return;
  gate_tick_ = std::max(now_ + 1, deadline->time_since_epoch().count());
  schedule_gate(gate_tick_, {0, kTick, 0});
}

void FastSimulation::release_turn(std::uint32_t application) {
  applications_[application].holds = false;
  send_to_gate(application, kReleased, ticket_of(application));
}

void FastSimulation::begin_probes(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  state.backoff = std::make_unique<gate::Backoff>(
      make_backoff(scenario_, application, driver_.progress(application).iteration, state.layout(0)));
  next_probe(application);
}

// With own_data, what the probes wrote is part of the phase. The phase still has at least one operation per rank.
void FastSimulation::probes_done(std::uint32_t application) {
  Applications::Progress& progress = driver_.progress(application);
  const Application& spec = *progress.spec;
  if (scenario_.gate.own_data) {
    const std::uint64_t round = spec.size.count() * spec.ranks;
    const std::uint64_t written = applications_[application].backoff->written().count() / round;
    progress.operations -= static_cast<unsigned>(std::min<std::uint64_t>(written, progress.operations - 1));
  }
  driver_.begin_phase(application);
}

void FastSimulation::next_probe(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  if (driver_.progress(application).dead) return;
  const gate::Backoff::Step step = state.backoff->next();
  if (const auto* write = std::get_if<gate::Backoff::Write>(&step))
    return probe(application, write->bytes, state.layout(0).targets[write->target % state.layout(0).targets.size()]);
  if (const auto* sleep = std::get_if<gate::Backoff::Sleep>(&step))
    return schedule_gate(now_ + sleep->time.count(), {application, kSlept, 0});
  probes_done(application);
}

// Writes probe data to a separate file on one server, with requests as large as the application's operations.
void FastSimulation::probe(std::uint32_t application, Bytes bytes, std::uint32_t target) {
  ApplicationState& state = applications_[application];
  const std::uint32_t slot = take_slot();
  SimulatedOperation& operation = operations_[slot];
  operation.application = application;
  operation.rank = 0;
  operation.abandoned = false;
  operation.probe = true;
  operation.direction = Direction::kWrite;
  operation.file = probe_file_id(application);
  unsorted_.clear();
  const std::uint64_t part = probe_request(*state.spec, bytes).count();
  for (std::uint64_t done = 0; done < bytes.count(); done += part)
    unsorted_.push_back({.offset = done, .length = std::min(part, bytes.count() - done), .server = target});
  group_by_server(operation);
  shares_.assign(1, {target, bytes});
  operation.remaining = static_cast<std::uint32_t>(operation.requests.size());
  operation.stamp = probe_stamp(state.placed.id, bytes, time_of(now_) + state.skew);
  operation.stamp.operation = next_operation_++;
  operation.issued = operation.arrival = now_;
  operation.first_server = operation.last_server = -1;
  send(slot);
}

}  // namespace tutti::sim
