// SPDX-License-Identifier: Apache-2.0
// When a message arrives: latency, chance, and the links it shares with others.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "sim/scenario.h"

namespace tutti::sim {

using Nanoseconds = std::int64_t;  // since the start of the run

inline constexpr std::uint64_t kHeaderBytes = 256;  // of a message besides the data it carries

// A link carries one message after the other, each for its bytes over the bandwidth.
class Links {
 public:
  // One end of a way: a link by number, and how fast it is. Bandwidth 0: no limit, nothing to wait for.
  struct End {
    std::size_t link = 0;
    double bandwidth = 0;
  };

  explicit Links(std::size_t count) : free_(count, 0) {}

  // Occupies the links from `now` on, in parallel with each other as far as they are free; returns when the last byte
  // has arrived, without latency.
  Nanoseconds pass(Nanoseconds now, End end, std::uint64_t bytes);

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

  // When the message is there. Draws from the network's own chance, so jitter does not depend on anything else.
  Nanoseconds to_station(Nanoseconds now, std::size_t client, std::size_t station, std::uint64_t bytes);
  Nanoseconds to_client(Nanoseconds now, std::size_t station, std::size_t client, std::uint64_t bytes);
  Nanoseconds between(Nanoseconds now, std::size_t from_station, std::size_t to_station, std::uint64_t bytes);

  Prng& chance() { return chance_; }

 private:
  Nanoseconds way(Nanoseconds now, Links::End from, Links::End to, std::uint64_t bytes);

  Network network_;
  Size size_;
  Links links_;  // clients out, clients in, stations in, stations out, core
  bool limited_;
  Prng chance_;
};

}  // namespace tutti::sim
