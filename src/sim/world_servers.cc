// SPDX-License-Identifier: Apache-2.0
// The servers' side of a run: arrivals, policies, devices, answers and faults.
#include <algorithm>
#include <utility>

#include "sim/world.h"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kBlock = 4096;

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

std::uint32_t slot_of(RequestId id) {
  return static_cast<std::uint32_t>(id >> 32);
}
std::uint32_t piece_of(RequestId id) {
  return static_cast<std::uint32_t>(id);
}

}  // namespace

void World::message(std::uint32_t slot, std::uint32_t group_index) {
  Operation& operation = operations_[slot];
  const Group group = operation.groups[group_index];
  const ApplicationState& state = applications_[operation.application];
  const unsigned forwarding = scenario_.forwarding.count;
  const auto station = static_cast<std::uint32_t>(
      forwarding ? scenario_.servers.count + client_of(state, operation.rank) % forwarding : group.server);
  if (operation.abandoned) {
    for (std::uint32_t i = 0; i < group.count; ++i) drop_piece(slot);
    return;
  }
  Policy& policy = stations_[station].policy();
  const TimePoint clock = stations_[station].clock(now_);
  Request request{.id = 0,
                  .file = operation.file,
                  .offset = 0,
                  .length = Bytes{},
                  .target = group.server,
                  .direction = operation.direction,
                  .stamp = operation.stamp};
  for (std::uint32_t i = group.first; i < group.first + group.count; ++i) {
    request.id = piece_id(slot, i);
    request.offset = operation.pieces[i].offset;
    request.length = Bytes(operation.pieces[i].length);
    policy.add(request, clock);
  }
  pump(station);
}

void World::pump(std::uint32_t index) {
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
    if (is_server(index))
      handle_batch(index, ticket);
    else
      send_on(index, ticket);
  }
}

void World::wake(std::uint32_t index) {
  Station& station = stations_[index];
  if (station.wake_at != now_) return;  // an earlier one took its place
  station.wake_at = -1;
  pump(index);
}

// A batch goes through the server's one working thread, then to its memory or its device.
void World::handle_batch(std::uint32_t index, std::uint32_t ticket) {
  Nanoseconds cost = scenario_.servers.request_cost.count();
  if (stations_[index].ticket(ticket).requests.front().direction == Direction::kWrite)
    cost += scenario_.servers.write_cost.count();
  if (cost == 0) return serve(index, ticket);
  Nanoseconds& free = stations_[index].thread_free;
  free = std::max(free, now_) + cost;
  schedule(free, EventKind::kHandled, {index, ticket});
}

void World::serve(std::uint32_t index, std::uint32_t ticket) {
  if (stations_[index].stopped) return stations_[index].handled_late.push_back(ticket);
  Bytes length;
  for (const Request& request : stations_[index].ticket(ticket).requests) length += request.length;
  if (!serve_from_memory(index, ticket, length)) start_on_device(index, ticket, length);
}

// True if the device has nothing to do for the batch; else `length` is what it is to read, which may be more.
bool World::serve_from_memory(std::uint32_t index, std::uint32_t ticket, Bytes& length) {
  Station& station = stations_[index];
  const Request& first = station.ticket(ticket).requests.front();
  if (first.direction == Direction::kWrite) {
    if (scenario_.servers.write_back) batch_served(index, ticket);
    return scenario_.servers.write_back;
  }
  if (scenario_.servers.read_ahead == Bytes{}) return false;
  const Layout& layout = applications_[first.file >> 40].layout;
  const PageCache::Range range{locate(layout, first.offset).object_offset, length.count()};
  const PageCache::Found found = station.cache.read(first.file, range, ticket);
  if (found.place == PageCache::Place::kMemory) batch_served(index, ticket);
  if (found.place == PageCache::Place::kUnderWay) station.waiting[found.ticket].push_back(ticket);
  length = Bytes(found.length);
  return found.place != PageCache::Place::kDevice;
}

void World::start_on_device(std::uint32_t index, std::uint32_t ticket, Bytes length) {
  Station& station = stations_[index];
  const Request& first = station.ticket(ticket).requests.front();
  Device& device = station.device();
  device.add(
      {.position = spread_ ? position(first, index) : 0, .length = length, .direction = first.direction, .tag = ticket},
      TimePoint(Duration(now_)));
  if (station.finish_scheduled) return;
  station.finish_scheduled = true;
  schedule(device.next_finish()->time_since_epoch().count(), EventKind::kFinish, {index, 0});
}

// What the device has read is in memory: for the batch that asked, and for those that came after it.
void World::device_done(std::uint32_t index, std::uint32_t ticket) {
  Station& station = stations_[index];
  if (scenario_.servers.read_ahead == Bytes{}) return batch_served(index, ticket);
  const Request first = station.ticket(ticket).requests.front();
  if (first.direction == Direction::kRead) station.cache.arrived(first.file, ticket);
  const auto followers = station.waiting.extract(ticket);
  batch_served(index, ticket);
  if (followers.empty()) return;
  for (const std::uint32_t follower : followers.mapped()) batch_served(index, follower);
}

void World::finish(std::uint32_t index) {
  Station& station = stations_[index];
  station.finish_scheduled = false;
  if (station.stopped) return;  // looked at again when it goes on
  Device& device = station.device();
  while (const auto ticket = device.pop_finished(TimePoint(Duration(now_))))
    device_done(index, static_cast<std::uint32_t>(*ticket));
  pump(index);
  if (station.finish_scheduled || device.in_service() == 0) return;
  station.finish_scheduled = true;
  schedule(device.next_finish()->time_since_epoch().count(), EventKind::kFinish, {index, 0});
}

void World::batch_served(std::uint32_t index, std::uint32_t number) {
  Station& station = stations_[index];
  const Station::Ticket& ticket = station.finish(number, now_);
  ++outcome_.batches;
  outcome_.pieces += ticket.requests.size();
  for (const Request& request : ticket.requests) {
    if ((request.id & kForwarded) == 0) {
      piece_served(request.id, now_);
      piece_answered(request.id, index);
      continue;
    }
    const auto node = static_cast<std::uint32_t>((request.id & ~kForwarded) >> 32);
    const auto its_ticket = static_cast<std::uint32_t>(request.id);
    for (const Request& piece : stations_[node].ticket(its_ticket).requests)
      if (piece.target == index) piece_served(piece.id, now_);
    const bool carries = request.direction == Direction::kRead;
    const std::uint64_t bytes = kHeaderBytes + (carries ? request.length.count() : 0);
    schedule(network_.between(now_, index, node, bytes), EventKind::kReturn, {way_between(node, index), its_ticket});
  }
}

// A forwarding node's batch goes on as one request to each server that has some of it.
void World::send_on(std::uint32_t index, std::uint32_t number) {
  Station::Ticket& ticket = stations_[index].ticket(number);
  const bool carries = ticket.requests.front().direction == Direction::kWrite;
  ticket.parts = 0;
  for (auto first = ticket.requests.begin(); first != ticket.requests.end(); ++first) {
    const auto same = [&](const Request& other) { return other.target == first->target; };
    if (std::any_of(ticket.requests.begin(), first, same)) continue;
    std::uint64_t bytes = kHeaderBytes;
    if (carries)
      for (const Request& request : ticket.requests) bytes += same(request) ? request.length.count() : 0;
    ++ticket.parts;
    schedule(network_.between(now_, index, first->target, bytes), EventKind::kForward,
             {way_between(index, first->target), number});
  }
}

void World::forward(std::uint32_t way, std::uint32_t ticket) {
  const std::uint32_t index = node_of(way), target = target_of(way);
  Request joined{};
  for (const Request& request : stations_[index].ticket(ticket).requests) {
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

void World::come_back(std::uint32_t way, std::uint32_t number) {
  const std::uint32_t index = node_of(way), target = target_of(way);
  Station::Ticket& ticket = stations_[index].ticket(number);
  for (const Request& request : ticket.requests)
    if (request.target == target) piece_answered(request.id, index);
  if (--ticket.parts > 0) return;
  stations_[index].finish(number, now_);
  pump(index);
}

void World::piece_served(RequestId id, Nanoseconds at) {
  Operation& operation = operations_[slot_of(id)];
  Group& group = operation.groups[operation.pieces[piece_of(id)].group];
  if (--group.remaining > 0) return;
  if (operation.first_server < 0) operation.first_server = at;
  operation.last_server = at;
}

void World::piece_answered(RequestId id, std::uint32_t station) {
  const std::uint32_t slot = slot_of(id);
  Operation& operation = operations_[slot];
  if (operation.abandoned) return drop_piece(slot);
  const ApplicationState& state = applications_[operation.application];
  const bool carries = operation.direction == Direction::kRead;
  const std::uint64_t bytes = kHeaderBytes + (carries ? operation.pieces[piece_of(id)].length : 0);
  const Nanoseconds there = network_.to_client(now_, station, client_of(state, operation.rank), bytes);
  operation.arrival = std::max(operation.arrival, there);
  if (--operation.remaining == 0) schedule(operation.arrival, EventKind::kReply, {slot, 0});
}

// Where a piece lies on its server's device: each file has a place of its own on each server.
std::uint64_t World::position(const Request& request, std::uint32_t server) const {
  const ApplicationState& state = applications_[request.file >> 40];
  const std::uint64_t base = mix(mix(request.file + 1) ^ mix(scenario_.seed * 0x9e3779b97f4a7c15 + server)) % spread_;
  return base / kBlock * kBlock + locate(state.layout, request.offset).object_offset;
}

Nanoseconds World::extra_delay(std::uint32_t application, std::uint32_t server) {
  Nanoseconds extra = 0;
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    if (fault.kind != Fault::Kind::kDelay || !active_faults_[i]) continue;
    if (fault.server && *fault.server != server) continue;
    if (fault.application && *fault.application != application) continue;
    if (fault.probability >= 1 || network_.chance().chance(fault.probability)) extra += fault.delay.count();
  }
  return extra;
}

void World::fault(std::uint32_t index, bool ends) {
  const Fault& fault = scenario_.faults[index];
  active_faults_[index] = !ends;
  const std::uint32_t first = fault.server.value_or(0);
  const std::uint32_t last = fault.server.value_or(scenario_.servers.count - 1);
  switch (fault.kind) {
    case Fault::Kind::kDelay:
      return;
    case Fault::Kind::kCoordinator:
      gate_dead_ = !ends;
      return;
    case Fault::Kind::kSlow:
      for (std::uint32_t i = first; i <= last; ++i) stations_[i].device().set_slowdown(ends ? 1 : fault.factor);
      return;
    case Fault::Kind::kStop:
      for (std::uint32_t i = first; i <= last; ++i) {
        stations_[i].stopped = !ends;
        if (ends)
          for (const std::uint32_t ticket : std::exchange(stations_[i].handled_late, {})) serve(i, ticket);
        if (ends && !stations_[i].finish_scheduled) finish(i);
      }
      return;
    case Fault::Kind::kSkew:
      if (fault.application) {
        applications_[*fault.application].skew = ends ? Duration{} : fault.skew;
        return;
      }
      for (std::uint32_t i = first; i <= last; ++i) stations_[i].skew = ends ? Duration{} : fault.skew;
      return;
    case Fault::Kind::kKill: {
      ApplicationState& state = applications_[fault.application.value_or(0)];
      if (state.done) return;
      state.dead = true;
      if (gate_ && !gate_dead_) {
        gate_->disconnect(*fault.application, TimePoint(Duration(now_)));
        deliver_answers();
      }
      for (std::uint32_t slot = 0; slot < operations_.size(); ++slot)
        if (operations_[slot].remaining > 0 && operations_[slot].application == *fault.application) abandon(slot);
      return finish_application(*fault.application);
    }
  }
}

}  // namespace tutti::sim
