// SPDX-License-Identifier: Apache-2.0
#include "sim/network.h"

#include <algorithm>

namespace tutti::sim {

Nanoseconds SharedLinks::pass(Nanoseconds now, Link link, std::uint64_t bytes) {
  if (link.bandwidth <= 0) return now;
  Nanoseconds& free = free_[link.number];
  free = std::max(free, now) + static_cast<Nanoseconds>(static_cast<double>(bytes) / link.bandwidth * 1e9);
  return free;
}

NetworkModel::NetworkModel(const Network& network, Size size, std::uint64_t seed)
    : network_(network), size_(size), links_(2 * size.clients + 2 * size.stations + 1), chance_(seed ^ 0x6e6574) {}

Nanoseconds NetworkModel::transfer(Nanoseconds now, SharedLinks::Link from, SharedLinks::Link to, std::uint64_t bytes) {
  Nanoseconds arrival = now;
  if (network_.client_bandwidth > 0 || network_.server_bandwidth > 0 || network_.core_bandwidth > 0) {
    arrival = links_.pass(now, from, bytes);
    arrival =
        std::max(arrival, links_.pass(now, {2 * (size_.clients + size_.stations), network_.core_bandwidth}, bytes));
    arrival = std::max(arrival, links_.pass(now, to, bytes));
  }
  const Nanoseconds jitter = network_.jitter.count();
  if (jitter > 0) arrival += static_cast<Nanoseconds>(chance_.below(static_cast<std::uint64_t>(jitter)));
  return arrival + network_.latency.count();
}

Nanoseconds NetworkModel::to_station(Nanoseconds now, std::size_t client, std::size_t station, std::uint64_t bytes) {
  return transfer(now, {client, network_.client_bandwidth}, {2 * size_.clients + station, network_.server_bandwidth},
                  bytes);
}

Nanoseconds NetworkModel::to_client(Nanoseconds now, std::size_t station, std::size_t client, std::uint64_t bytes) {
  return transfer(now, {2 * size_.clients + size_.stations + station, network_.server_bandwidth},
                  {size_.clients + client, network_.client_bandwidth}, bytes);
}

Nanoseconds NetworkModel::between(Nanoseconds now, std::size_t from_station, std::size_t to_station,
                                  std::uint64_t bytes) {
  return transfer(now, {2 * size_.clients + size_.stations + from_station, network_.server_bandwidth},
                  {2 * size_.clients + to_station, network_.server_bandwidth}, bytes);
}

}  // namespace tutti::sim
