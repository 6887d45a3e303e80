// SPDX-License-Identifier: Apache-2.0
// A model of when messages arrive: latency, random jitter, and links that messages share.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "sim/scenario.h"
#include "sim/simulator.h"

namespace tutti::sim {

inline constexpr std::uint64_t kHeaderBytes = 256;  // size of a message without data

// Links that carry one message after the other. A message occupies a link for its bytes / bandwidth.
class SharedLinks {
 public:
  // Bandwidth in bytes per second; 0: no limit.
  struct Link {
    std::size_t number = 0;
    double bandwidth = 0;
  };

  explicit SharedLinks(std::size_t count) : free_(count, 0) {}

  // Occupies the link as soon as it is free, from `now` on. Returns when the last byte has passed, without latency.
  Nanoseconds pass(Nanoseconds now, Link link, std::uint64_t bytes);

 private:
  std::vector<Nanoseconds> free_;
};

// The network of a scenario: clients, stations (servers, then forwarding nodes), and a core.
class NetworkModel {
 public:
  struct Size {
    std::size_t clients = 0;
    std::size_t stations = 0;
  };

  NetworkModel(const Network& network, Size size, std::uint64_t seed);

  // Arrival times. Jitter is drawn from the network's own generator, so it does not depend on other random decisions.
  Nanoseconds to_station(Nanoseconds now, std::size_t client, std::size_t station, std::uint64_t bytes);
  Nanoseconds to_client(Nanoseconds now, std::size_t station, std::size_t client, std::uint64_t bytes);
  Nanoseconds between(Nanoseconds now, std::size_t from_station, std::size_t to_station, std::uint64_t bytes);

  Prng& chance() { return chance_; }
  const Network& figures() const { return network_; }
  void set_figures(const Network& network) { network_ = network; }

 private:
  Nanoseconds transfer(Nanoseconds now, SharedLinks::Link from, SharedLinks::Link to, std::uint64_t bytes);

  Network network_;
  Size size_;
  SharedLinks links_;  // clients out, clients in, stations in, stations out, core
  Prng chance_;
};

}  // namespace tutti::sim
