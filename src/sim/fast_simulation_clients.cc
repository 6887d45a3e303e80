// SPDX-License-Identifier: Apache-2.0
// The clients of a fast simulation: phases, operations, messages and answers.
#include <algorithm>
#include <utility>

#include "sim/fast_simulation.h"

namespace tutti::sim {
void FastSimulation::phase_begins(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  Applications::Progress& progress = driver_.progress(application);
  if (options_.demands) progress.demand.assign(scenario_.servers.count, Bytes{});
  for (job::Phases& phases : state.phases)
    (void)phases.begin(announcement_of(*state.spec, progress.operations, phases));  // within the limit of begin()
}

void FastSimulation::phase_ends(std::uint32_t application) {
  ApplicationState& state = applications_[application];
  for (job::Phases& phases : state.phases) phases.end();
  if (state.holds) release_turn(application);
}

void FastSimulation::issue(std::uint32_t application, std::uint32_t rank, const OperationIndex& index) {
  ApplicationState& state = applications_[application];
  Applications::Progress& progress = driver_.progress(application);
  const Application& spec = *state.spec;
  const std::uint32_t slot = take_slot();
  SimulatedOperation& operation = operations_[slot];
  operation.application = application;
  operation.rank = rank;
  operation.file = file_id(application, progress.iteration, spec.file_per_process ? rank : 0);
  split(state, index, operation);

  sum_shares(operation);
  if (options_.demands)
    for (const ServerMessage& message : operation.messages) progress.demand[message.server] += Bytes(message.bytes);
  operation.stamp = state.phases[rank].issue(next_operation_++, shares_, TimePoint(Duration(now_)) + state.skew);
  apply(spec.trick, operation.stamp);
  operation.stamp.user = spec.user;
  operation.remaining = static_cast<std::uint32_t>(operation.requests.size());
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

// The bytes of the operation on each server, in the order of the messages.
void FastSimulation::sum_shares(const SimulatedOperation& operation) {
  shares_.clear();
  counts_.resize(scenario_.servers.count, 0);  // here: number of a share, plus one
  for (const ServerMessage& message : operation.messages) {
    if (counts_[message.server] == 0) {
      shares_.push_back({message.server, Bytes{}});
      counts_[message.server] = static_cast<std::uint32_t>(shares_.size());
    }
    shares_[counts_[message.server] - 1].bytes += Bytes(message.bytes);
  }
  for (const ServerMessage& message : operation.messages) counts_[message.server] = 0;
}

void FastSimulation::split(const ApplicationState& state, const OperationIndex& index, SimulatedOperation& operation) {
  const OperationIndex own =
      state.spec->file_per_process ? OperationIndex{0, 1, index.operation, index.operations} : index;
  extents_of(*state.spec, own, chance_, extents_);
  cutter_.cut(*state.spec, state.layout(index.rank), extents_, unsorted_);
  state.spec->separate_requests ? one_message_each(operation) : group_by_server(operation);
}

void FastSimulation::one_message_each(SimulatedOperation& operation) {
  operation.messages.clear();
  operation.requests.clear();
  for (const CutRequest& request : unsorted_) {
    const auto index = static_cast<std::uint32_t>(operation.messages.size());
    ServerMessage& message = operation.messages.emplace_back();
    message.server = request.server;
    message.first = index;
    message.count = message.remaining = message.unanswered = message.undispatched = 1;
    message.bytes = request.length;
    operation.requests.push_back({request.offset, static_cast<std::uint32_t>(request.length), index});
  }
}

// Sorts the requests by server. Requests to one server keep their order.
void FastSimulation::group_by_server(SimulatedOperation& operation) {
  operation.messages.clear();
  counts_.resize(scenario_.servers.count, 0);
  for (const CutRequest& request : unsorted_)
    if (counts_[request.server]++ == 0) operation.messages.emplace_back().server = request.server;
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < operation.messages.size(); ++i) {
    ServerMessage& message = operation.messages[i];
    message.count = message.remaining = message.unanswered = message.undispatched = counts_[message.server];
    message.first = first;
    first += message.count;
    counts_[message.server] = i;  // from here on: index of the server's message
  }
  operation.requests.resize(unsorted_.size());
  for (const CutRequest& request : unsorted_) {
    const std::uint32_t index = counts_[request.server];
    ServerMessage& message = operation.messages[index];
    operation.requests[message.first + message.count - message.remaining--] = {
        request.offset, static_cast<std::uint32_t>(request.length), index};
    message.bytes += request.length;
  }
  for (ServerMessage& message : operation.messages) {
    message.remaining = message.count;
    counts_[message.server] = 0;
  }
}

void FastSimulation::send(std::uint32_t slot) {
  SimulatedOperation& operation = operations_[slot];
  for (std::uint32_t i = 0; i < operation.messages.size(); ++i) {
    RankConnection* const connection = connection_of(operation, operation.messages[i]);
    if (connection != nullptr && (!connection->waiting.empty() || !begin_message(*connection, slot, i)))
      connection->waiting.push({slot, i});
    else
      send_message(slot, i);
  }
}

// nullptr: the limits of its connection cannot be reached.
FastSimulation::RankConnection* FastSimulation::connection_of(const SimulatedOperation& operation,
                                                              const ServerMessage& message) {
  ApplicationState& state = applications_[operation.application];
  if (state.connections.empty() || operation.probe) return nullptr;
  return &state.connections[std::size_t{operation.rank} * scenario_.servers.count + message.server];
}

// As NodeLink does: a write beyond the credit is sent without its payload. False: the message must wait.
bool FastSimulation::begin_message(RankConnection& connection, std::uint32_t slot, std::uint32_t number) {
  ServerMessage& message = operations_[slot].messages[number];
  const std::uint64_t credit = operations_[slot].direction == Direction::kWrite ? credit_for(message.bytes) : 0;
  const bool with_payload = connection.used_credit + credit <= credit_ || scenario_.forwarding.count > 0;
  const std::uint64_t bytes = with_payload ? message.bytes : 0;
  if (!connection.under_way.fits(scenario_.servers.limits, bytes)) return false;
  message.payload = with_payload ? ServerMessage::Payload::kSent : ServerMessage::Payload::kAbsent;
  pulls_ = pulls_ || !with_payload;
  ++connection.under_way.requests;
  connection.under_way.bytes += bytes;
  if (with_payload) connection.used_credit += credit;
  message.counted = true;
  return true;
}

void FastSimulation::send_message(std::uint32_t slot, std::uint32_t number) {
  const SimulatedOperation& operation = operations_[slot];
  const ServerMessage& message = operation.messages[number];
  const std::size_t client = client_of(applications_[operation.application], operation.rank);
  const unsigned forwarding = scenario_.forwarding.count;
  const std::size_t station = forwarding ? scenario_.servers.count + client % forwarding : message.server;
  const bool payload = operation.direction == Direction::kWrite && message.payload == ServerMessage::Payload::kSent;
  const std::uint64_t bytes = kHeaderBytes + (payload ? message.bytes : 0);
  const Nanoseconds arrival = network_.to_station(now_, client, station, bytes);
  schedule(arrival + extra_delay(operation.application, message.server), EventKind::kMessage, {slot, number});
}

// Sends waiting messages, as NodeLink does.
void FastSimulation::answered(std::uint32_t application, std::uint32_t index) {
  RankConnection& connection = applications_[application].connections[index];
  --connection.under_way.requests;
  connection.under_way.bytes -= connection.answers_coming.front().bytes;
  connection.used_credit -= connection.answers_coming.front().credit;
  connection.answers_coming.pop();
  while (!connection.waiting.empty()) {
    const Station::WaitingMessage next = connection.waiting.front();
    SimulatedOperation& operation = operations_[next.slot];
    ServerMessage& message = operation.messages[next.message];
    if (!operation.abandoned) {
      if (!begin_message(connection, next.slot, next.message)) return;
      send_message(next.slot, next.message);
    } else {
      for (std::uint32_t i = 0, count = message.count; i < count; ++i) drop_request(next.slot);
    }
    connection.waiting.pop();
  }
}

// ---- fsync ----

void FastSimulation::sync(std::uint32_t application, std::uint32_t rank) {
  ApplicationState& state = applications_[application];
  const FileId file =
      file_id(application, driver_.progress(application).iteration, state.spec->file_per_process ? rank : 0);
  state.syncing.resize(state.spec->ranks);
  state.syncing[rank] = static_cast<std::uint32_t>(state.layout(rank).targets.size());
  for (const TargetId server : state.layout(rank).targets) {
    RankSync& sync = syncs_.emplace_back();
    sync.application = application;
    sync.rank = rank;
    sync.server = server;
    sync.file = file;
    schedule(network_.to_station(now_, client_of(state, rank), server, kHeaderBytes) + extra_delay(application, server),
             EventKind::kSync, {static_cast<std::uint32_t>(syncs_.size() - 1), server});
  }
}

void FastSimulation::sync_arrives(std::uint32_t number, std::uint32_t server) {
  Station& station = stations_[server];
  station.orders[syncs_[number].file].add(syncs_[number], node::Barrier::kSync);
  start_ready(station, syncs_[number].file);
}

// Completed writes are on stable storage, so a sync takes no time.
void FastSimulation::start_ready(Station& station, FileId file) {
  while (true) {
    const auto order = station.orders.find(file);  // serving may have removed it
    if (order == station.orders.end()) return;
    const auto ready = order->second.take_ready();
    if (ready.empty() && order->second.idle()) station.orders.erase(order);
    if (ready.empty()) return;
    for (node::Ordered* next : ready) {
      const auto& sync = static_cast<const RankSync&>(*next);
      station.orders.at(file).barrier_done(*next);
      schedule(
          network_.to_client(now_, sync.server, client_of(applications_[sync.application], sync.rank), kHeaderBytes),
          EventKind::kSynced, {sync.application, sync.rank});
    }
  }
}

void FastSimulation::synced(std::uint32_t application, std::uint32_t rank) {
  if (--applications_[application].syncing[rank] == 0) driver_.synced(application, rank);
}

void FastSimulation::reply(std::uint32_t slot) {
  SimulatedOperation& operation = operations_[slot];
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
  if (options_.finishes)
    for (const ServerMessage& message : operation.messages)
      outcome_.finishes.push_back({application, message.server, Duration(message.served - operation.issued)});
  Bytes moved;
  for (const ServerMessage& message : operation.messages) moved += Bytes(message.bytes);
  free_slot(slot);
  over(application, rank, moved);
}

// An operation of the rank has ended: it was served, or has failed (empty).
void FastSimulation::over(std::uint32_t application, std::uint32_t rank, std::optional<Bytes> moved) {
  ApplicationState& state = applications_[application];
  state.phases[rank].completed(TimePoint(Duration(now_)) + state.skew);
  driver_.completed(application, rank, moved);
}

void FastSimulation::timeout(std::uint32_t slot, std::uint32_t generation) {
  SimulatedOperation& operation = operations_[slot];
  if (operation.generation != generation || operation.remaining == 0 || operation.abandoned) return;
  const std::uint32_t application = operation.application;
  const std::uint32_t rank = operation.rank;
  abandon(slot);
  over(application, rank, std::nullopt);
}

// The client no longer waits: waiting requests are cancelled, and answers to the others are ignored.
void FastSimulation::abandon(std::uint32_t slot) {
  operations_[slot].abandoned = true;
  const unsigned forwarding = scenario_.forwarding.count;
  const ApplicationState& state = applications_[operations_[slot].application];
  for (std::uint32_t i = 0; i < operations_[slot].requests.size(); ++i) {
    const ServerMessage& message = operations_[slot].messages[operations_[slot].requests[i].message];
    const std::size_t station =
        forwarding ? scenario_.servers.count + client_of(state, operations_[slot].rank) % forwarding : message.server;
    if (stations_[station].policy().cancel(request_id(slot, i))) drop_request(slot);
  }
}

void FastSimulation::drop_request(std::uint32_t slot) {
  SimulatedOperation& operation = operations_[slot];
  if (--operation.remaining > 0) return;
  for (ServerMessage& message : operation.messages) {
    if (std::exchange(message.ordered, false)) order_done(operation, message);
    release_message(operation, message, now_);
  }
  free_slot(slot);
}

// Releases the memory that the message has at its server.
void FastSimulation::release_memory(const SimulatedOperation& operation, ServerMessage& message) {
  if (!std::exchange(message.memory, false)) return;
  Station& station = stations_[message.server];
  if (std::exchange(message.behind, false)) --station.memory_behind;
  net::Budget& memory = operation.direction == Direction::kRead            ? station.read_memory
                        : message.payload == ServerMessage::Payload::kSent ? station.write_memory
                                                                           : station.pulled_memory;
  memory.give_back(memory_of(message.bytes));
  const bool wanted =
      !station.starved_writes.empty() || !station.starved_reads.empty() || !station.without_payload.empty();
  if (wanted && !std::exchange(station.retrying, true)) schedule(now_, EventKind::kWake, {message.server, 1});
}

void FastSimulation::release_message(const SimulatedOperation& operation, ServerMessage& message, Nanoseconds answer) {
  release_memory(operation, message);
  if (!std::exchange(message.counted, false)) return;
  const std::size_t connection = std::size_t{operation.rank} * scenario_.servers.count + message.server;
  const bool sent = message.payload == ServerMessage::Payload::kSent;
  const bool writes = operation.direction == Direction::kWrite;
  applications_[operation.application].connections[connection].answers_coming.push(
      {sent ? message.bytes : 0, sent && writes ? credit_for(message.bytes) : 0});
  schedule(answer, EventKind::kAnswered, {operation.application, static_cast<std::uint32_t>(connection)});
}

void FastSimulation::order_done(const SimulatedOperation& operation, ServerMessage& message) {
  Station& station = stations_[message.server];
  station.orders.at(operation.file).done(message);
  start_ready(station, operation.file);
}

std::uint32_t FastSimulation::take_slot() {
  if (free_operations_.empty()) {
    free_operations_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  const std::uint32_t slot = free_operations_.back();
  free_operations_.pop_back();
  ++operations_[slot].generation;
  return slot;
}

void FastSimulation::free_slot(std::uint32_t slot) {
  free_operations_.push_back(slot);
}

}  // namespace tutti::sim
