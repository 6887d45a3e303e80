// SPDX-License-Identifier: Apache-2.0
#include "sim/applications.h"

#include <algorithm>
#include <cmath>

#include "base/prng.h"

namespace tutti::sim {

Applications::Applications(const Scenario& scenario, Backend& backend, Outcome& outcome)
    : scenario_(scenario), backend_(backend), outcome_(outcome), running_(scenario.applications.size()) {
  for (const Application& spec : scenario.applications) {
    Progress& state = progress_.emplace_back();
    state.spec = &spec;
    state.ranks.resize(spec.ranks);
  }
  outcome_.application_end.resize(progress_.size());
}

void Applications::start() {
  for (std::uint32_t i = 0; i < progress_.size(); ++i) backend_.step_at(progress_[i].spec->start.count(), i, 0);
}

// Between phases, operand 0 begins an iteration and operand 1 ends its computation. In a phase, operand 0 starts the
// next round of all ranks, and operand rank + 1 the next operation of that rank.
void Applications::step(std::uint32_t application, std::uint32_t operand) {
  Progress& state = progress_[application];
  if (state.dead) return;
  if (state.in_phase) {
    if (operand == 0) return issue_round(application);
    return issue(application, operand - 1);
  }
  if (operand == 0) return begin_iteration(application);
  ready(application);
}

void Applications::begin_iteration(std::uint32_t application) {
  Progress& state = progress_[application];
  state.compute_begin = backend_.now();
  if (state.spec->compute > Duration::zero())
    backend_.step_at(backend_.now() + state.spec->compute.count(), application, 1);
  else
    ready(application);
}

void Applications::ready(std::uint32_t application) {
  Progress& state = progress_[application];
  const Application& spec = *state.spec;
  state.ready = backend_.now();
  state.operations = spec.operations;
  if (spec.variation > 0) {
    // A separate generator, so that phases are the same under every policy.
    Prng chance(scenario_.seed ^ (std::uint64_t{application} << 32) ^ (state.iteration + 1));
    const double factor = chance.uniform(1 - spec.variation, 1 + spec.variation);
    state.operations = std::max(1u, static_cast<unsigned>(std::lround(spec.operations * factor)));
  }
  backend_.ask_for_turn(application);
}

void Applications::begin_phase(std::uint32_t application) {
  Progress& state = progress_[application];
  const Nanoseconds now = backend_.now();
  if (state.ready > state.compute_begin)
    outcome_.timeline.push_back(
        {application, Activity::Kind::kCompute, Duration(state.compute_begin), Duration(state.ready), 0});
  if (now > state.ready)
    outcome_.timeline.push_back({application, Activity::Kind::kWaiting, Duration(state.ready), Duration(now), 0});
  state.in_phase = true;
  state.phase_begin = now;
  state.phase_bytes = Bytes{};
  std::fill(state.ranks.begin(), state.ranks.end(), RankProgress{});
  state.ranks_left = state.spec->ranks;
  backend_.phase_begins(application);
  if (state.spec->rank_spread > Duration::zero()) return spread_ranks(application);
  issue_round(application);
}

// The first round of a phase whose ranks do not begin at the same time.
void Applications::spread_ranks(std::uint32_t application) {
  Progress& state = progress_[application];
  const Application& spec = *state.spec;
  const unsigned each = std::min(spec.outstanding, state.operations);
  state.round_left = each * spec.ranks;
  // A separate generator, so that the starts are the same under every policy.
  Prng chance(scenario_.seed ^ 0x72616e6b ^ (std::uint64_t{application} << 32) ^ (state.iteration + 1));
  for (std::uint32_t rank = 0; rank < spec.ranks; ++rank) {
    const auto late = static_cast<Nanoseconds>(chance.below(static_cast<std::uint64_t>(spec.rank_spread.count())));
    for (unsigned i = 0; i < each; ++i) backend_.step_at(backend_.now() + late, application, rank + 1);
  }
}

void Applications::issue_round(std::uint32_t application) {
  Progress& state = progress_[application];
  const unsigned ranks = state.spec->ranks;
  const unsigned each = std::min(state.spec->outstanding, state.operations - state.ranks.front().issued);
  state.round_left = each * ranks;
  for (unsigned i = 0; i < each; ++i)
    for (std::uint32_t rank = 0; rank < ranks; ++rank) issue(application, rank);
}

void Applications::issue(std::uint32_t application, std::uint32_t rank) {
  Progress& state = progress_[application];
  const OperationIndex index{rank, state.spec->ranks, state.ranks[rank].issued++, state.operations};
  backend_.issue(application, rank, index);
}

void Applications::completed(std::uint32_t application, std::uint32_t rank, std::optional<Bytes> moved) {
  Progress& state = progress_[application];
  if (state.dead) return;
  if (!moved) ++outcome_.failed_operations;
  state.phase_bytes += moved.value_or(Bytes{});
  const Application& spec = *state.spec;
  RankProgress& its = state.ranks[rank];
  if (++its.completed == state.operations) {
    if (spec.sync) {
      --state.round_left;
      return backend_.sync(application, rank);
    }
    if (--state.ranks_left == 0) return end_phase(application);
  }
  const Nanoseconds after = backend_.now() + spec.think.count();
  if (spec.barrier == RankBarrier::kOperation) {
    if (--state.round_left > 0) return;
    if (spec.think > Duration::zero()) return backend_.step_at(after, application, 0);
    return issue_round(application);
  }
  if (its.issued == state.operations) return;
  if (spec.think > Duration::zero()) return backend_.step_at(after, application, rank + 1);
  issue(application, rank);
}

void Applications::synced(std::uint32_t application, std::uint32_t) {
  Progress& state = progress_[application];
  if (!state.dead && --state.ranks_left == 0) end_phase(application);
}

void Applications::end_phase(std::uint32_t application) {
  Progress& state = progress_[application];
  const Nanoseconds now = backend_.now();
  state.in_phase = false;
  backend_.phase_ends(application);
  const double seconds = static_cast<double>(now - state.phase_begin) / 1e9;
  const double rate = seconds > 0 ? static_cast<double>(state.phase_bytes.count()) / seconds : 0;
  outcome_.timeline.push_back(
      {application, Activity::Kind::kInputOutput, Duration(state.phase_begin), Duration(now), rate});
  outcome_.phases.push_back({application, state.iteration, Duration(state.ready), Duration(state.phase_begin),
                             Duration(now), state.phase_bytes, std::move(state.demand)});
  outcome_.bytes += state.phase_bytes;
  if (++state.iteration < state.spec->iterations) return begin_iteration(application);
  finish(application);
}

void Applications::kill(std::uint32_t application) {
  Progress& state = progress_[application];
  if (state.done) return;
  state.dead = true;
  finish(application);
}

void Applications::stop() {
  for (Progress& state : progress_) state.dead = true;
}

void Applications::finish(std::uint32_t application) {
  progress_[application].done = true;
  outcome_.application_end[application] = Duration(backend_.now());
  --running_;
}

}  // namespace tutti::sim
