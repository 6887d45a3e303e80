// SPDX-License-Identifier: Apache-2.0
// The servers of a fast simulation: arrivals, policies, devices, answers and faults.
#include <algorithm>
#include <cassert>
#include <utility>

#include "node/data_path.h"
#include "sched/inbox.h"
#include "sim/fast_simulation.h"

namespace tutti::sim {
namespace {

void set_striping(Request& request, const Layout& layout) {
  const Striping striping = striping_of(layout);
  request.stripe_log2 = striping.log2 & 0x7f;
  request.stripe_count = striping.count;
}

}  // namespace

void FastSimulation::message_arrives(std::uint32_t slot, std::uint32_t index) {
  SimulatedOperation& operation = operations_[slot];
  const ServerMessage message = operation.messages[index];
  const ApplicationState& state = applications_[operation.application];
  const unsigned forwarding = scenario_.forwarding.count;
  const auto station = static_cast<std::uint32_t>(
      forwarding ? scenario_.servers.count + client_of(state, operation.rank) % forwarding : message.server);
  if (operation.abandoned) {
    for (std::uint32_t i = 0; i < message.count; ++i) drop_request(slot);
    return;
  }
  if (!operation.probe) applications_[operation.application].announced[message.server] = operation.stamp.phase_total;
  if (is_server(station) && !admit(slot, index)) return;
  const bool changes = operation.direction == Direction::kWrite;  // syncs do not wait for reads
  if (!state.spec->sync || !changes || !is_server(station)) return enqueue(slot, index);
  operation.messages[index].ordered = true;
  [[maybe_unused]] const bool starts = stations_[station].orders[operation.file].add(operation.messages[index]);
  assert(starts && "only a truncation delays a write");
  enqueue(slot, index);
}

// Checks the limits of the node. False: the message waits for memory, or was refused and will be sent again.
bool FastSimulation::admit(std::uint32_t slot, std::uint32_t number) {
  constexpr Nanoseconds kBusy = 20'000'000;  // retry delay of the client's router
  SimulatedOperation& operation = operations_[slot];
  ServerMessage& message = operation.messages[number];
  Station& station = stations_[message.server];
  const bool write = operation.direction == Direction::kWrite;
  const bool payload = write && message.payload == ServerMessage::Payload::kSent;
  if (payload && !message.memory && !station.write_memory.take(memory_of(message.bytes))) {
    station.starved_writes.push({slot, number});
    return false;
  }
  message.memory = payload;
  const Load most{scenario_.servers.max_waiting, Bytes(~std::uint64_t{0})};
  if (most.admits({station.policy().waiting() + message.count - 1, {}}, {})) return true;
  ++outcome_.refused;
  const std::size_t client = client_of(applications_[operation.application], operation.rank);
  release_memory(operation, message);
  const Nanoseconds again = network_.to_client(now_, message.server, client, kHeaderBytes) + kBusy;
  schedule(network_.to_station(again, client, message.server, kHeaderBytes + (payload ? message.bytes : 0)),
           EventKind::kMessage, {slot, number});
  return false;
}

void FastSimulation::enqueue(std::uint32_t slot, std::uint32_t number) {
  SimulatedOperation& operation = operations_[slot];
  const ServerMessage& message = operation.messages[number];
  const ApplicationState& state = applications_[operation.application];
  const unsigned forwarding = scenario_.forwarding.count;
  const auto station = static_cast<std::uint32_t>(
      forwarding ? scenario_.servers.count + client_of(state, operation.rank) % forwarding : message.server);
  Policy& policy = stations_[station].policy();
  const TimePoint clock = stations_[station].clock(now_);
  Request request{.id = 0,
                  .file = operation.file,
                  .offset = 0,
                  .length = Bytes{},
                  .target = message.server,
                  .direction = operation.direction,
                  .stamp = operation.stamp};
  request.job_proven = state.spec->job_proven;
  set_striping(request, state.layout(operation.rank));
  policy.name_file(operation.file, state.pattern);
  for (std::uint32_t i = message.first; i < message.first + message.count; ++i) {
    request.id = request_id(slot, i);
    request.offset = operation.requests[i].offset;
    request.length = Bytes(operation.requests[i].length);
    policy.add(request, clock);
    if (recorder_ && is_server(station)) recorder_->arrived(request, state.pattern, clock);
  }
  pump(station);
}

void FastSimulation::pump(std::uint32_t index) {
  Station& station = stations_[index];
  while (station.room()) {
    const Decision decision = station.policy().next(station.clock(now_));
    if (std::holds_alternative<Idle>(decision)) return;
    if (const auto* wait = std::get_if<WaitUntil>(&decision)) {
      const Nanoseconds at = std::max(now_ + 1, (wait->at - station.skew).time_since_epoch().count());
      if (station.wake_at > now_ && station.wake_at <= at) return;
      station.wake_at = at;
      return schedule(at, EventKind::kWake, {index, 0});
    }
    const std::uint32_t ticket = station.begin(std::get<Dispatch>(decision).batch, now_);
    if (pulls_ && is_server(index)) note_dispatched(index, ticket);
    if (!is_server(index))
      forward_batch(index, ticket);
    else if (pulls_ && lacks_payload(index, ticket)) {
      station.without_payload.push_back(ticket);
      pull_payloads(index);
    } else if (find_memory(index, ticket))
      handle_batch(index, ticket);
    else {
      station.starved_reads.push(ticket);
      station.set_aside(ticket);
    }
  }
}

// Allocates memory for the messages whose read requests are in the batch: all of it or none, so that a batch that waits
// holds none. Waiting would not help a batch that needs more than there is, and must not hold memory of an earlier
// batch: a node refuses its reads and clients repeat them; here it gets memory beyond the limit.
bool FastSimulation::find_memory(std::uint32_t index, std::uint32_t ticket) {
  Station& station = stations_[index];
  const std::vector<Request>& requests = station.batch(ticket).requests;
  if (requests.front().direction == Direction::kWrite) return true;
  bool holds = false;
  std::size_t needed = 0;
  starved_.clear();
  for (const Request& request : requests) {
    if ((request.id & kForwarded) != 0) continue;
    ServerMessage& message = message_of(request.id);
    holds = holds || message.memory;
    if (message.memory || std::ranges::find(starved_, &message) != starved_.end()) continue;
    starved_.push_back(&message);
    needed += memory_of(message.bytes);
  }
  if (starved_.empty()) return true;
  if (!station.read_memory.fits(needed) && !holds && station.read_memory.in_use() > 0) return false;
  station.read_memory.take_regardless(needed);
  for (ServerMessage* message : starved_) message->memory = true;
  return true;
}

// ---- payloads that are pulled, as in DataPath ----

void FastSimulation::note_dispatched(std::uint32_t index, std::uint32_t ticket) {
  for (const Request& request : stations_[index].batch(ticket).requests) {
    if ((request.id & kForwarded) != 0) continue;
    ServerMessage& message = message_of(request.id);
    if (--message.undispatched == 0 && std::exchange(message.behind, false)) --stations_[index].memory_behind;
  }
}

bool FastSimulation::lacks_payload(std::uint32_t index, std::uint32_t ticket) {
  for (const Request& request : stations_[index].batch(ticket).requests) {
    if (request.direction == Direction::kRead || (request.id & kForwarded) != 0) continue;
    const auto payload = message_of(request.id).payload;
    if (payload == ServerMessage::Payload::kAbsent || payload == ServerMessage::Payload::kPulled) return true;
  }
  return false;
}

void FastSimulation::pull_payloads(std::uint32_t index) {
  Station& station = stations_[index];
  bool memory_left = true;
  for (const std::uint32_t ticket : station.without_payload) {
    const auto requests = station.batch(ticket).requests;
    const auto own = [](const Request& request) { return (request.id & kForwarded) == 0; };
    // Memory: the batch must not wait for more.
    bool holds =
        std::ranges::any_of(requests, [&](const Request& each) { return own(each) && message_of(each.id).memory; });
    for (const Request& request : requests) {
      if (!own(request) || message_of(request.id).payload != ServerMessage::Payload::kAbsent) continue;
      holds = pull(slot_of(request.id), message_of(request.id), holds, memory_left) || holds;
    }
    if (memory_left)
      station.set_ahead(ticket, node::DataPath::kPulledAhead);
    else if (station.memory_behind > 0)
      station.set_aside(ticket);  // requests of messages with memory may be behind it in the policy
  }
}

// A node passes the requests of a batch whose payloads have arrived to the engine if there is no memory for the others.
// Here a batch that `holds` memory gets what it lacks beyond the limit.
bool FastSimulation::pull(std::uint32_t slot, ServerMessage& message, bool holds, bool& memory_left) {
  const SimulatedOperation& operation = operations_[slot];
  Station& station = stations_[message.server];
  RankConnection* const connection = connection_of(operation, message);
  const std::uint64_t most = station.pulled_memory.most() / 4;
  if (connection != nullptr && connection->pulled > 0 && connection->pulled + message.bytes > most) return false;
  const std::size_t memory = memory_of(message.bytes);
  if (!holds && (!memory_left || !station.pulled_memory.fits(memory))) return memory_left = false;
  station.pulled_memory.take_regardless(memory);
  if (connection != nullptr) connection->pulled += message.bytes;
  message.memory = true;
  if (message.undispatched > 0 && !std::exchange(message.behind, true)) ++station.memory_behind;
  message.payload = ServerMessage::Payload::kPulled;
  const std::size_t client = client_of(applications_[operation.application], operation.rank);
  const Nanoseconds asked = network_.to_client(now_, message.server, client, kHeaderBytes);
  schedule(network_.to_station(asked, client, message.server, kHeaderBytes + message.bytes), EventKind::kPayload,
           {slot, static_cast<std::uint32_t>(&message - operation.messages.data())});
  return true;
}

void FastSimulation::payload_arrives(std::uint32_t slot, std::uint32_t number) {
  ServerMessage& message = operations_[slot].messages[number];
  const std::uint32_t index = message.server;
  message.payload = ServerMessage::Payload::kArrived;
  if (RankConnection* const connection = connection_of(operations_[slot], message)) connection->pulled -= message.bytes;
  auto& waiting = stations_[index].without_payload;
  std::vector<std::uint32_t> complete;
  std::erase_if(waiting, [&](std::uint32_t ticket) {
    if (lacks_payload(index, ticket)) return false;
    complete.push_back(ticket);
    return true;
  });
  for (const std::uint32_t ticket : complete) handle_batch(index, ticket);
  pull_payloads(index);
  pump(index);
}

void FastSimulation::retry_starved(std::uint32_t index) {
  Station& station = stations_[index];
  station.retrying = false;
  pull_payloads(index);
  for (std::size_t count = station.starved_reads.size(); count > 0; --count) {
    const std::uint32_t ticket = station.starved_reads.front();
    station.starved_reads.pop();
    if (find_memory(index, ticket))
      handle_batch(index, ticket);
    else
      station.starved_reads.push(ticket);
  }
  for (std::size_t count = station.starved_writes.size(); count > 0; --count) {
    const Station::WaitingMessage next = station.starved_writes.front();
    station.starved_writes.pop();
    message_arrives(next.slot, next.message);
  }
}

void FastSimulation::wake(std::uint32_t index) {
  Station& station = stations_[index];
  if (station.wake_at != now_) return;  // replaced by an earlier one
  station.wake_at = -1;
  pump(index);
}

// The only worker thread of the server handles the batch; then its memory or its device serves it.
void FastSimulation::handle_batch(std::uint32_t index, std::uint32_t ticket) {
  Nanoseconds cost = scenario_.servers.request_cost.count();
  if (stations_[index].batch(ticket).requests.front().direction == Direction::kWrite)
    cost += scenario_.servers.write_cost.count();
  if (scenario_.servers.thread_bandwidth > 0) {
    Bytes length;
    for (const Request& request : stations_[index].batch(ticket).requests) length += request.length;
    cost += static_cast<Nanoseconds>(static_cast<double>(length.count()) / scenario_.servers.thread_bandwidth * 1e9);
  }
  if (cost == 0) return serve(index, ticket);
  Nanoseconds& free = stations_[index].thread_free;
  free = std::max(free, now_) + cost;
  schedule(free, EventKind::kHandled, {index, ticket});
}

void FastSimulation::serve(std::uint32_t index, std::uint32_t ticket) {
  if (stations_[index].stopped) return stations_[index].handled_late.push_back(ticket);
  Bytes length;
  for (const Request& request : stations_[index].batch(ticket).requests) length += request.length;
  if (!serve_from_memory(index, ticket, length)) start_on_device(index, ticket, length);
}

// True if the batch does not need the device. Else sets `length` to the bytes to read, which may be more.
bool FastSimulation::serve_from_memory(std::uint32_t index, std::uint32_t ticket, Bytes& length) {
  Station& station = stations_[index];
  const Request& first = station.batch(ticket).requests.front();
  if (first.direction == Direction::kWrite) {
    if (scenario_.servers.write_back) batch_served(index, ticket);
    if (scenario_.servers.write_back || scenario_.servers.write_cache == Bytes{}) return scenario_.servers.write_back;
    station.write_cache.add({ticket, spread_ ? position(first, index) : 0, length});
    use_write_cache(index);
    return true;
  }
  if (scenario_.servers.read_ahead == Bytes{}) return false;
  const Layout& layout = applications_[first.file >> 40].layout(0);
  const PageCache::ByteRange range{locate(layout, first.offset).object_offset, length.count()};
  const PageCache::Found found = station.cache.read(first.file, range, ticket);
  if (found.location == PageCache::Location::kMemory) batch_served(index, ticket);
  if (found.location == PageCache::Location::kUnderWay) station.waiting[found.ticket].push_back(ticket);
  length = Bytes(found.length);
  return found.location != PageCache::Location::kDevice;
}

// Batches of writes complete when they have room in the cache, which passes them on to the device.
void FastSimulation::use_write_cache(std::uint32_t index) {
  WriteCache& cache = stations_[index].write_cache;
  while (const auto ticket = cache.admit()) batch_served(index, *ticket);
  while (const auto next = cache.next_for_device(scenario_.servers.depth))
    add_to_device(index, {.position = next->position,
                          .length = next->length,
                          .direction = Direction::kWrite,
                          .tag = kFromCache | next->length.count()});
}

void FastSimulation::start_on_device(std::uint32_t index, std::uint32_t ticket, Bytes length) {
  const Request& first = stations_[index].batch(ticket).requests.front();
  add_to_device(index, {.position = spread_ ? position(first, index) : 0,
                        .length = length,
                        .direction = first.direction,
                        .tag = ticket});
}

void FastSimulation::add_to_device(std::uint32_t index, const DeviceRequest& request) {
  Station& station = stations_[index];
  station.device().add(request, TimePoint(Duration(now_)));
  if (station.finish_scheduled) return;
  station.finish_scheduled = true;
  schedule(station.device().next_finish()->time_since_epoch().count(), EventKind::kFinish, {index, 0});
}

// The data is in memory now: for the batch that started the read, and for batches that wait for it.
void FastSimulation::device_done(std::uint32_t index, std::uint32_t ticket) {
  Station& station = stations_[index];
  if (scenario_.servers.read_ahead == Bytes{}) return batch_served(index, ticket);
  const Request first = station.batch(ticket).requests.front();
  if (first.direction == Direction::kRead) station.cache.arrived(first.file, ticket);
  const auto followers = station.waiting.extract(ticket);
  batch_served(index, ticket);
  if (followers.empty()) return;
  for (const std::uint32_t follower : followers.mapped()) batch_served(index, follower);
}

void FastSimulation::finish(std::uint32_t index) {
  Station& station = stations_[index];
  station.finish_scheduled = false;
  if (station.stopped) return;  // called again when the server continues
  Device& device = station.device();
  while (const auto tag = device.pop_finished(TimePoint(Duration(now_)))) {
    if ((*tag & kFromCache) == 0) device_done(index, static_cast<std::uint32_t>(*tag));
    if ((*tag & kFromCache) != 0) station.write_cache.on_device(Bytes(*tag & ~kFromCache));
  }
  if (scenario_.servers.write_cache > Bytes{}) use_write_cache(index);
  pump(index);
  if (station.finish_scheduled || device.in_service() == 0) return;
  station.finish_scheduled = true;
  schedule(device.next_finish()->time_since_epoch().count(), EventKind::kFinish, {index, 0});
}

void FastSimulation::batch_served(std::uint32_t index, std::uint32_t number) {
  Station& station = stations_[index];
  const Station::BatchInFlight& batch = station.finish(number, now_);
  if (recorder_)
    for (const Request& request : batch.requests) recorder_->completed(request, station.clock(now_));
  ++outcome_.batches;
  outcome_.batched_requests += batch.requests.size();
  for (const Request& request : batch.requests) {
    if ((request.id & kForwarded) == 0) {
      request_served(request.id, now_);
      request_answered(request.id, index);
      continue;
    }
    const auto node = static_cast<std::uint32_t>((request.id & ~kForwarded) >> 32);
    const auto its_ticket = static_cast<std::uint32_t>(request.id);
    for (const Request& part : stations_[node].batch(its_ticket).requests)
      if (part.target == index) request_served(part.id, now_);
    const bool carries = request.direction == Direction::kRead;
    const std::uint64_t bytes = kHeaderBytes + (carries ? request.length.count() : 0);
    schedule(network_.between(now_, index, node, bytes), EventKind::kReturn, {route_between(node, index), its_ticket});
  }
}

// Sends the batch of a forwarding node as one request to each server that has a part of it.
void FastSimulation::forward_batch(std::uint32_t index, std::uint32_t number) {
  Station::BatchInFlight& batch = stations_[index].batch(number);
  const bool carries = batch.requests.front().direction == Direction::kWrite;
  batch.parts = 0;
  for (auto first = batch.requests.begin(); first != batch.requests.end(); ++first) {
    const auto same = [&](const Request& other) { return other.target == first->target; };
    if (std::any_of(batch.requests.begin(), first, same)) continue;
    std::uint64_t bytes = kHeaderBytes;
    if (carries)
      for (const Request& request : batch.requests) bytes += same(request) ? request.length.count() : 0;
    ++batch.parts;
    schedule(network_.between(now_, index, first->target, bytes), EventKind::kForward,
             {route_between(index, first->target), number});
  }
}

void FastSimulation::forwarded_batch_arrives(std::uint32_t route, std::uint32_t ticket) {
  const std::uint32_t index = node_of(route), target = target_of(route);
  Request joined{};
  for (const Request& request : stations_[index].batch(ticket).requests) {
    if (request.target != target) continue;
    const Bytes before = joined.length;
    if (before == Bytes{}) joined = request;
    joined.length = before + request.length;
  }
  joined.id = kForwarded | (RequestId{index} << 32) | ticket;
  Station& server = stations_[target];
  server.policy().add(joined, server.clock(now_));
  pump(target);
}

void FastSimulation::answer_forwarded(std::uint32_t route, std::uint32_t number) {
  const std::uint32_t index = node_of(route), target = target_of(route);
  Station::BatchInFlight& batch = stations_[index].batch(number);
  for (const Request& request : batch.requests)
    if (request.target == target) request_answered(request.id, index);
  if (--batch.parts > 0) return;
  stations_[index].finish(number, now_);
  pump(index);
}

void FastSimulation::request_served(RequestId id, Nanoseconds at) {
  SimulatedOperation& operation = operations_[slot_of(id)];
  ServerMessage& message = message_of(id);
  if (--message.remaining > 0) return;
  if (std::exchange(message.ordered, false)) order_done(operation, message);
  message.served = at;
  if (operation.first_server < 0) operation.first_server = at;
  operation.last_server = at;
}

void FastSimulation::request_answered(RequestId id, std::uint32_t station) {
  const std::uint32_t slot = slot_of(id);
  SimulatedOperation& operation = operations_[slot];
  if (operation.abandoned) return drop_request(slot);
  ServerMessage& message = message_of(id);
  if (--message.unanswered == 0) {
    const bool carries = operation.direction == Direction::kRead;
    const std::uint64_t bytes = kHeaderBytes + (carries ? message.bytes : 0);
    const ApplicationState& state = applications_[operation.application];
    const Nanoseconds there = network_.to_client(now_, station, client_of(state, operation.rank), bytes);
    operation.arrival = std::max(operation.arrival, there);
    release_message(operation, message, there);
  }
  if (--operation.remaining == 0) schedule(operation.arrival, EventKind::kReply, {slot, 0});
}

// The position of a request on the device of its server. Each file has another position on each server.
std::uint64_t FastSimulation::position(const Request& request, std::uint32_t server) const {
  const ApplicationState& state = applications_[request.file >> 40];
  return device_position(scenario_.seed, request.file, server, spread_) +
         locate(state.layout(0), request.offset).object_offset;
}

Nanoseconds FastSimulation::extra_delay(std::uint32_t application, std::uint32_t server) {
  Nanoseconds extra = 0;
  active_faults_.each(ScenarioFault::Kind::kDelay, [&](const ScenarioFault& fault) {
    if (fault.server && *fault.server != server) return;
    if (fault.application && *fault.application != application) return;
    if (fault.probability >= 1 || network_.chance().chance(fault.probability)) extra += fault.delay.count();
  });
  return extra;
}

void FastSimulation::set_stopped(std::uint32_t server, bool stopped) {
  Station& station = stations_[server];
  if (std::exchange(station.stopped, stopped) == stopped || stopped) return;
  for (const std::uint32_t ticket : std::exchange(station.handled_late, {})) serve(server, ticket);
  if (!station.finish_scheduled) finish(server);
}

void FastSimulation::fault(std::uint32_t index, bool ends) {
  const ScenarioFault& fault = scenario_.faults[index];
  active_faults_.set(index, !ends);
  const std::uint32_t first = fault.server.value_or(0);
  const std::uint32_t last = fault.server.value_or(scenario_.servers.count - 1);
  switch (fault.kind) {
    case ScenarioFault::Kind::kDelay:
      return;
    case ScenarioFault::Kind::kCoordinator:
      return set_gate_stopped(active_faults_.gate_stopped());
    case ScenarioFault::Kind::kSlow:
      for (std::uint32_t i = first; i <= last; ++i) stations_[i].device().set_slowdown(active_faults_.slowdown(i));
      return;
    case ScenarioFault::Kind::kStop:
      for (std::uint32_t i = first; i <= last; ++i) set_stopped(i, active_faults_.stopped(i));
      return;
    case ScenarioFault::Kind::kSkew:
      if (fault.application) {
        applications_[*fault.application].skew = active_faults_.application_skew(*fault.application);
        return;
      }
      for (std::uint32_t i = first; i <= last; ++i) stations_[i].skew = active_faults_.server_skew(i);
      return;
    case ScenarioFault::Kind::kKill: {
      if (driver_.progress(*fault.application).done) return;
      if (gate_) send_to_gate(*fault.application, kClosed, 0);
      for (std::uint32_t slot = 0; slot < operations_.size(); ++slot)
        if (operations_[slot].remaining > 0 && operations_[slot].application == *fault.application) abandon(slot);
      return driver_.kill(*fault.application);
    }
  }
}

}  // namespace tutti::sim
