// SPDX-License-Identifier: Apache-2.0
#include "sim/network.h"

#include <algorithm>

namespace tutti::sim {

Nanoseconds Links::pass(Nanoseconds now, End end, std::uint64_t bytes) {
  if (end.bandwidth <= 0) return now;
  Nanoseconds& free = free_[end.link];
  free = std::max(free, now) + static_cast<Nanoseconds>(static_cast<double>(bytes) / end.bandwidth * 1e9);
  return free;
}

NetworkModel::NetworkModel(const Network& network, Size size, std::uint64_t seed)
    : network_(network),
      size_(size),
      links_(2 * size.clients + 2 * size.stations + 1),
      limited_(network.client_bandwidth > 0 || network.server_bandwidth > 0 || network.core_bandwidth > 0),
      chance_(seed ^ 0x6e6574) {}

Nanoseconds NetworkModel::way(Nanoseconds now, Links::End from, Links::End to, std::uint64_t bytes) {
  Nanoseconds arrival = now;
  if (limited_) {
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
  return way(now, {client, network_.client_bandwidth}, {2 * size_.clients + station, network_.server_bandwidth}, bytes);
}

Nanoseconds NetworkModel::to_client(Nanoseconds now, std::size_t station, std::size_t client, std::uint64_t bytes) {
  return way(now, {2 * size_.clients + size_.stations + station, network_.server_bandwidth},
             {size_.clients + client, network_.client_bandwidth}, bytes);
}

Nanoseconds NetworkModel::between(Nanoseconds now, std::size_t from_station, std::size_t to_station,
                                  std::uint64_t bytes) {
  return way(now, {2 * size_.clients + size_.stations + from_station, network_.server_bandwidth},
             {2 * size_.clients + to_station, network_.server_bandwidth}, bytes);
}

}  // namespace tutti::sim
