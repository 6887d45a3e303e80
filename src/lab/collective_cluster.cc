// SPDX-License-Identifier: Apache-2.0
#include "lab/collective_cluster.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "sim/placement.h"

namespace tutti::lab {
namespace {

constexpr std::uint64_t kExtentBytes = 16;  // of a list request, per extent

}  // namespace

CollectiveCluster::CollectiveCluster(sim::Simulator& simulator, const ClusterFigures& figures, std::size_t ranks,
                                     std::uint64_t seed)
    : simulator_(simulator),
      figures_(figures),
      ranks_(ranks),
      seed_(seed),
      network_(figures.network, {.clients = 0, .stations = ranks + figures.targets}, seed) {
  for (unsigned i = 0; i < figures.targets; ++i)
    targets_.push_back({Device(figures.device), sim::PageCache(figures.read_ahead), 0, false, {}, {}, {}, 0});
}

void CollectiveCluster::message(std::size_t from, std::size_t to, std::uint64_t bytes, Task arrived) {
  const sim::Nanoseconds now = simulator_.now();
  // A copy in memory costs no network time.
  simulator_.at(from == to ? now : network_.between(now, from, to, sim::kHeaderBytes + bytes), std::move(arrived));
}

std::vector<std::shared_ptr<CollectiveCluster::TargetRequest>> CollectiveCluster::requests_of(const Call& call) const {
  std::map<TargetId, std::shared_ptr<TargetRequest>> requests;
  std::map<TargetId, std::vector<Range>> ranges;
  for (const collective::Extent& extent : call.extents)
    for (const Piece& piece : split(call.file->layout, extent.offset, Bytes(extent.length))) {
      auto& list = ranges[piece.target];
      std::shared_ptr<TargetRequest>& request = requests[piece.target];
      if (!request) request = std::make_shared<TargetRequest>();
      ++request->extents;
      request->bytes += piece.length.count();
      if (!list.empty() && list.back().offset + list.back().length == piece.object_offset)
        list.back().length += piece.length.count();
      else
        list.push_back({piece.object_offset, piece.length.count()});
    }
  std::vector<std::shared_ptr<TargetRequest>> result;
  for (auto& [target, request] : requests) {
    request->rank = call.rank;
    request->file = call.file->id;
    request->direction = call.direction;
    request->target = target;
    for (const Range& range : ranges[target])
      for (std::uint64_t at = 0; at < range.length; at += figures_.chunk.count())
        request->chunks.push_back({range.offset + at, std::min(figures_.chunk.count(), range.length - at)});
    request->remaining = request->chunks.size();
    result.push_back(request);
  }
  return result;
}

void CollectiveCluster::io(Call call, Task done) {
  const auto requests = requests_of(call);
  if (requests.empty()) return simulator_.at(simulator_.now(), std::move(done));
  auto messages = std::make_shared<std::size_t>(0);
  auto owner = std::make_shared<Task>(std::move(done));
  for (const auto& request : requests) {
    *messages += request->direction == Direction::kRead ? request->remaining : 1;
    request->messages = messages;
    request->owner = owner;
  }
  for (const auto& request : requests) {
    const std::uint64_t bytes = sim::kHeaderBytes + request->extents * kExtentBytes;
    simulator_.at(network_.between(simulator_.now(), request->rank, ranks_ + request->target, bytes),
                  [this, request] { arrives(request); });
  }
  // Payloads follow chunk by chunk, those of different targets in turn.
  std::size_t most = 0;
  for (const auto& request : requests) most = std::max(most, request->chunks.size());
  for (std::size_t i = 0; i < most && call.direction == Direction::kWrite; ++i)
    for (const auto& request : requests)
      if (i < request->chunks.size())
        request->payload.push_back(
            network_.between(simulator_.now(), request->rank, ranks_ + request->target, request->chunks[i].length));
}

void CollectiveCluster::arrives(const std::shared_ptr<TargetRequest>& request) {
  Target& target = targets_[request->target];
  target.thread_free = std::max(target.thread_free, simulator_.now()) + figures_.request_cost.count() +
                       static_cast<sim::Nanoseconds>(request->extents) * figures_.extent_cost.count();
  simulator_.at(target.thread_free, [this, request] { start_chunks(request); });
}

void CollectiveCluster::start_chunks(const std::shared_ptr<TargetRequest>& request) {
  Target& target = targets_[request->target];
  while (!request->chunks.empty() && request->remaining - request->chunks.size() < figures_.chunks) {
    const std::uint32_t ticket = target.next_ticket++;
    target.chunks.emplace(ticket, Chunk{request, request->chunks.front()});
    request->chunks.pop_front();
    sim::Nanoseconds here = simulator_.now();
    if (!request->payload.empty()) {
      here = std::max(here, request->payload.front());
      request->payload.pop_front();
    }
    if (here == simulator_.now()) {
      enqueue(request->target, ticket);
    } else {
      simulator_.at(here, [this, number = request->target, ticket] { enqueue(number, ticket); });
    }
  }
}

void CollectiveCluster::enqueue(std::size_t number, std::uint32_t ticket) {
  if (!figures_.serial_files) return start(number, ticket);
  auto& queue = targets_[number].queues[targets_[number].chunks.at(ticket).request->file];
  queue.push_back(ticket);
  if (queue.size() == 1) start(number, ticket);
}

void CollectiveCluster::dequeue(std::size_t number, FileId file) {
  if (!figures_.serial_files) return;
  auto& queue = targets_[number].queues[file];
  queue.pop_front();
  if (!queue.empty()) start(number, queue.front());
}

void CollectiveCluster::start(std::size_t number, std::uint32_t ticket) {
  Target& target = targets_[number];
  const Chunk& chunk = target.chunks.at(ticket);
  if (chunk.request->direction == Direction::kWrite) return to_device(number, ticket, chunk.range.length);
  const auto found = target.cache.read(chunk.request->file, {chunk.range.offset, chunk.range.length}, ticket);
  switch (found.location) {
    case sim::PageCache::Location::kMemory:
      return simulator_.at(simulator_.now(), [this, number, ticket] { served(number, ticket); });
    case sim::PageCache::Location::kUnderWay:
      target.waiting[found.ticket].push_back(ticket);
      return;
    case sim::PageCache::Location::kDevice:
      return to_device(number, ticket, found.length);
  }
}

void CollectiveCluster::to_device(std::size_t number, std::uint32_t ticket, std::uint64_t length) {
  Target& target = targets_[number];
  const Chunk& chunk = target.chunks.at(ticket);
  const std::uint64_t begin =
      sim::device_position(seed_, chunk.request->file, static_cast<std::uint32_t>(number), figures_.spread.count());
  target.device.add({.position = begin + chunk.range.offset,
                     .length = Bytes(length),
                     .direction = chunk.request->direction,
                     .tag = ticket},
                    TimePoint(Duration(simulator_.now())));
  if (std::exchange(target.scheduled, true)) return;
  simulator_.at(target.device.next_finish()->time_since_epoch().count(), [this, number] { finish(number); });
}

void CollectiveCluster::finish(std::size_t number) {
  Target& target = targets_[number];
  target.scheduled = false;
  while (const auto tag = target.device.pop_finished(TimePoint(Duration(simulator_.now())))) {
    const auto ticket = static_cast<std::uint32_t>(*tag);
    if (target.chunks.at(ticket).request->direction == Direction::kRead)
      target.cache.arrived(target.chunks.at(ticket).request->file, ticket);
    const auto followers = target.waiting.extract(ticket);
    served(number, ticket);
    if (followers.empty()) continue;
    for (const std::uint32_t follower : followers.mapped()) served(number, follower);
  }
  if (target.scheduled || !target.device.next_finish()) return;
  target.scheduled = true;
  simulator_.at(target.device.next_finish()->time_since_epoch().count(), [this, number] { finish(number); });
}

void CollectiveCluster::served(std::size_t number, std::uint32_t ticket) {
  const Chunk chunk = std::move(targets_[number].chunks.extract(ticket).mapped());
  const std::shared_ptr<TargetRequest>& request = chunk.request;
  --request->remaining;
  dequeue(number, request->file);
  if (request->direction == Direction::kRead)
    answer(request, chunk.range.length);
  else if (request->remaining == 0)
    answer(request, 0);
  start_chunks(request);
}

void CollectiveCluster::answer(const std::shared_ptr<TargetRequest>& request, std::uint64_t bytes) {
  const sim::Nanoseconds there =
      network_.between(simulator_.now(), ranks_ + request->target, request->rank, sim::kHeaderBytes + bytes);
  simulator_.at(there, [request] {
    if (--*request->messages == 0) (*request->owner)();
  });
}

}  // namespace tutti::lab
