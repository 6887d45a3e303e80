// SPDX-License-Identifier: Apache-2.0
// The applications' side of a run: phases, operations, their pieces and their end.
#include <algorithm>
#include <cmath>

#include "sim/world.h"

namespace tutti::sim {
namespace {

// Tells files of one run apart; position() and the order of equal requests depend on it, so it never changes.
FileId file_id(std::uint32_t application, unsigned iteration, std::uint32_t rank) {
  return (FileId{application} << 40) | (FileId{iteration} << 20) | rank;
}

}  // namespace

void World::step(std::uint32_t application, std::uint32_t rank_plus_one) {
  ApplicationState& state = applications_[application];
  if (state.dead) return;
  if (state.in_phase) {
    if (rank_plus_one == 0) return issue_round(application);
    return issue(application, rank_plus_one - 1);
  }
  if (rank_plus_one == 0) return begin_iteration(application);
  ready(application);
}

// Operands of kStep: the first step of an iteration has b = 0, the one after its computation b = 1.
void World::begin_iteration(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  state.compute_begin = now_;
  if (state.spec->compute > Duration::zero())
    schedule(now_ + state.spec->compute.count(), EventKind::kStep, {application, 1});
  else
    ready(application);
}

void World::begin_phase(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  const Application& spec = *state.spec;
  if (state.ready > state.compute_begin)
    outcome_.timeline.push_back(
        {application, Segment::Kind::kCompute, Duration(state.compute_begin), Duration(state.ready), 0});
  if (now_ > state.ready)
    outcome_.timeline.push_back({application, Segment::Kind::kWaiting, Duration(state.ready), Duration(now_), 0});
  state.in_phase = true;
  state.phase_begin = now_;
  state.phase_bytes = Bytes{};
  state.operations = spec.operations;
  if (spec.variation > 0) {
    // Chance of its own, so that phases are the same under every policy.
    Prng chance(scenario_.seed ^ (std::uint64_t{application} << 32) ^ (state.iteration + 1));
    const double factor = chance.uniform(1 - spec.variation, 1 + spec.variation);
    state.operations = std::max(1u, static_cast<unsigned>(std::lround(spec.operations * factor)));
  }
  if (options_.demands) state.demand.assign(scenario_.servers.count, Bytes{});
  std::fill(state.ranks.begin(), state.ranks.end(), RankState{});
  state.ranks_left = spec.ranks;
  state.stamper.begin_phase({.now = TimePoint(Duration(now_)) + state.skew, .announced = expected_phase(state)});
  issue_round(application);
}

// What the stamps are to say of the coming phase; 0 leaves it to what the stamper has learned.
Bytes World::expected_phase(ApplicationState& state) {
  const Application& spec = *state.spec;
  if (spec.sizes == PhaseSizes::kUnknown) return state.stamper.remember(0, Bytes{}), Bytes{};
  if (spec.sizes == PhaseSizes::kLearned) {
    const double expected = static_cast<double>(state.stamper.learned().count()) * spec.size_error;
    return Bytes(static_cast<std::uint64_t>(expected));
  }
  if (state.announced == Bytes{}) {
    std::vector<std::uint64_t> load(scenario_.servers.count, 0);
    Prng chance(scenario_.seed);  // the place of random operations is not known beforehand
    Operation scratch;
    std::swap(chance, chance_);
    for (unsigned rank = 0; rank < spec.ranks; ++rank)
      for (unsigned i = 0; i < spec.operations; ++i) {
        split(state, {rank, spec.ranks, i, spec.operations}, scratch);
        for (const Piece& piece : scratch.pieces) load[scratch.groups[piece.group].server] += piece.length;
      }
    std::swap(chance, chance_);
    state.announced = Bytes(*std::max_element(load.begin(), load.end()));
  }
  double truth = static_cast<double>(state.announced.count());
  if (spec.sizes == PhaseSizes::kAnnounced)
    truth *= static_cast<double>(state.operations) / static_cast<double>(spec.operations);
  else if (state.stamper.learned() > Bytes{})
    truth = static_cast<double>(state.stamper.learned().count());
  return Bytes(static_cast<std::uint64_t>(truth * spec.size_error));
}

void World::issue_round(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  const unsigned ranks = state.spec->ranks;
  const unsigned each = std::min(state.spec->outstanding, state.operations - state.ranks.front().issued);
  state.round_left = each * ranks;
  for (unsigned i = 0; i < each; ++i)
    for (std::uint32_t rank = 0; rank < ranks; ++rank) issue(application, rank);
}

void World::issue(std::uint32_t application, std::uint32_t rank) {
  ApplicationState& state = applications_[application];
  const Application& spec = *state.spec;
  const std::uint32_t slot = take_slot();
  Operation& operation = operations_[slot];
  operation.application = application;
  operation.rank = rank;
  operation.file = file_id(application, state.iteration, spec.file_per_process ? rank : 0);
  split(state, {rank, spec.ranks, state.ranks[rank].issued++, state.operations}, operation);

  shares_.clear();
  for (const Group& group : operation.groups) {
    Bytes bytes;
    for (std::uint32_t i = 0; i < group.count; ++i) bytes += Bytes(operation.pieces[group.first + i].length);
    shares_.push_back({group.server, bytes});
    state.phase_bytes += bytes;
    if (options_.demands) state.demand[group.server] += bytes;
  }
  operation.stamp = state.stamper.stamp(next_operation_++, shares_, TimePoint(Duration(now_)) + state.skew);
  operation.remaining = static_cast<std::uint32_t>(operation.pieces.size());
  operation.issued = now_;
  operation.first_server = -1;
  operation.last_server = -1;
  operation.arrival = now_;
  operation.abandoned = false;
  operation.probe = false;
  operation.direction = spec.direction;
  send(slot);
  if (scenario_.timeout > Duration::zero())
    schedule(now_ + scenario_.timeout.count(), EventKind::kTimeout, {slot, operation.generation});
}

void World::split(const ApplicationState& state, const Place& place, Operation& operation) {
  const Place own = state.spec->file_per_process ? Place{0, 1, place.operation, place.operations} : place;
  extents_of(*state.spec, own, chance_, extents_);
  unsorted_.clear();
  if (state.spec->flow > Bytes{}) last_pieces_.assign(scenario_.servers.count, LastPiece{});
  for (const Extent& extent : extents_) add_pieces(state, extent);
  group_pieces(operation);
}

void World::add_pieces(const ApplicationState& state, const Extent& extent) {
  constexpr std::uint64_t kLargest = 1u << 30;
  const std::uint64_t asked = state.spec->largest_request.count();
  const std::uint64_t largest = asked > 0 ? std::min(asked, kLargest) : kLargest;
  for (const tutti::Piece& piece : tutti::split(state.layout, extent.offset, Bytes(extent.length))) {
    if (joins_last(state, piece)) continue;
    for (std::uint64_t done = 0; done < piece.length.count(); done += largest)
      unsorted_.push_back({piece.offset + done,
                           static_cast<std::uint32_t>(std::min(largest, piece.length.count() - done)), piece.target});
  }
}

// True if the piece goes on where the last one of its server ends, and is now part of it.
bool World::joins_last(const ApplicationState& state, const tutti::Piece& piece) {
  const std::uint64_t flow = state.spec->flow.count();
  if (flow == 0) return false;
  LastPiece& last = last_pieces_[piece.target];
  const std::uint64_t end = piece.object_offset + piece.length.count();
  if (last.end == piece.object_offset && last.number < unsorted_.size() &&
      unsorted_[last.number].group == piece.target && unsorted_[last.number].length + piece.length.count() <= flow) {
    unsorted_[last.number].length += static_cast<std::uint32_t>(piece.length.count());
    last.end = end;
    return true;
  }
  last = {static_cast<std::uint32_t>(unsorted_.size()), end};
  return false;
}

// Sorts the pieces by server, keeping their order on each.
void World::group_pieces(Operation& operation) {
  operation.groups.clear();
  counts_.resize(scenario_.servers.count, 0);
  for (const Piece& piece : unsorted_)
    if (counts_[piece.group]++ == 0) operation.groups.push_back({piece.group, 0, 0, 0});
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < operation.groups.size(); ++i) {
    Group& group = operation.groups[i];
    group.count = group.remaining = counts_[group.server];
    group.first = first;
    first += group.count;
    counts_[group.server] = i;  // from here on: the server's group
  }
  operation.pieces.resize(unsorted_.size());
  for (const Piece& piece : unsorted_) {
    const std::uint32_t index = counts_[piece.group];
    Group& group = operation.groups[index];
    operation.pieces[group.first + group.count - group.remaining--] = {piece.offset, piece.length, index};
  }
  for (Group& group : operation.groups) {
    group.remaining = group.count;
    counts_[group.server] = 0;
  }
}

void World::send(std::uint32_t slot) {
  Operation& operation = operations_[slot];
  const ApplicationState& state = applications_[operation.application];
  const bool carries = operation.direction == Direction::kWrite;
  const std::size_t client = client_of(state, operation.rank);
  const unsigned forwarding = scenario_.forwarding.count;
  for (std::uint32_t i = 0; i < operation.groups.size(); ++i) {
    const std::uint32_t server = operation.groups[i].server;
    const std::size_t station = forwarding ? scenario_.servers.count + client % forwarding : server;
    const std::uint64_t bytes = kHeaderBytes + (carries ? shares_[i].bytes.count() : 0);
    const Nanoseconds arrival = network_.to_station(now_, client, station, bytes);
    schedule(arrival + extra_delay(operation.application, server), EventKind::kMessage, {slot, i});
  }
}

void World::reply(std::uint32_t slot) {
  Operation& operation = operations_[slot];
  const std::uint32_t application = operation.application;
  const std::uint32_t rank = operation.rank;
  if (operation.probe) {
    applications_[application].backoff->wrote(Duration(now_ - operation.issued));
    free_slot(slot);
    return next_probe(application);
  }
  if (options_.operation_records)
    outcome_.operations.push_back({application, Duration(operation.issued), Duration(operation.first_server),
                                   Duration(operation.last_server), Duration(now_)});
  free_slot(slot);
  advance(application, rank);
}

// An operation of the rank is over, served or given up.
void World::advance(std::uint32_t application, std::uint32_t rank) {
  ApplicationState& state = applications_[application];
  if (state.dead) return;
  const Application& spec = *state.spec;
  RankState& its = state.ranks[rank];
  if (++its.completed == state.operations && --state.ranks_left == 0) return end_phase(application);
  if (spec.barrier == Barrier::kOperation) {
    if (--state.round_left > 0) return;
    if (spec.think > Duration::zero()) return schedule(now_ + spec.think.count(), EventKind::kStep, {application, 0});
    return issue_round(application);
  }
  if (its.issued == state.operations) return;
  if (spec.think > Duration::zero())
    return schedule(now_ + spec.think.count(), EventKind::kStep, {application, rank + 1});
  issue(application, rank);
}

void World::end_phase(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  state.stamper.end_phase();
  state.in_phase = false;
  if (state.holds) release(application);
  const double seconds = static_cast<double>(now_ - state.phase_begin) / 1e9;
  const double rate = seconds > 0 ? static_cast<double>(state.phase_bytes.count()) / seconds : 0;
  outcome_.timeline.push_back(
      {application, Segment::Kind::kInputOutput, Duration(state.phase_begin), Duration(now_), rate});
  outcome_.phases.push_back({application, state.iteration, Duration(state.ready), Duration(state.phase_begin),
                             Duration(now_), state.phase_bytes, std::move(state.demand)});
  outcome_.bytes += state.phase_bytes;
  if (++state.iteration < state.spec->iterations) return begin_iteration(application);
  finish_application(application);
}

void World::finish_application(std::uint32_t application) {
  applications_[application].done = true;
  outcome_.application_end[application] = Duration(now_);
  --running_;
}

void World::timeout(std::uint32_t slot, std::uint32_t generation) {
  Operation& operation = operations_[slot];
  if (operation.generation != generation || operation.remaining == 0 || operation.abandoned) return;
  const std::uint32_t application = operation.application;
  const std::uint32_t rank = operation.rank;
  ++outcome_.failed_operations;
  abandon(slot);
  advance(application, rank);
}

// The client no longer waits: what waits at the stations is cancelled, what is under way ends unheard.
void World::abandon(std::uint32_t slot) {
  operations_[slot].abandoned = true;
  const unsigned forwarding = scenario_.forwarding.count;
  const ApplicationState& state = applications_[operations_[slot].application];
  for (std::uint32_t i = 0; i < operations_[slot].pieces.size(); ++i) {
    const Group& group = operations_[slot].groups[operations_[slot].pieces[i].group];
    const std::size_t station =
        forwarding ? scenario_.servers.count + client_of(state, operations_[slot].rank) % forwarding : group.server;
    if (stations_[station].policy().cancel(piece_id(slot, i))) drop_piece(slot);
  }
}

void World::drop_piece(std::uint32_t slot) {
  if (--operations_[slot].remaining == 0) free_slot(slot);
}

std::uint32_t World::take_slot() {
  if (free_operations_.empty()) {
    free_operations_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  const std::uint32_t slot = free_operations_.back();
  free_operations_.pop_back();
  ++operations_[slot].generation;
  return slot;
}

void World::free_slot(std::uint32_t slot) {
  free_operations_.push_back(slot);
}

}  // namespace tutti::sim
