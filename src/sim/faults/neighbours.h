// SPDX-License-Identifier: Apache-2.0
// How much a faulty client costs its neighbours: the other clients of the same nodes.
//
// One client keeps as many large reads and writes in flight as nodes allow. The others do a little of everything. The
// same seed runs twice: once the client stays healthy (if need be also under `fifo`), once it becomes faulty. A faulty
// client needs less of the disks and of the network than a healthy one, so its neighbours must not wait longer for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace tutti::sim {

enum class ClientFault : std::uint8_t {
  kSlowReader,     // it receives slowly
  kPause,          // it stands still
  kHalfOpen,       // it loses its connections; nodes are not notified
  kLossToNodes,    // its messages are lost
  kLossFromNodes,  // messages to it are lost
  kPartition,      // messages in both directions arrive after the fault
  kKill,           // it dies; nodes are notified
};
inline constexpr std::size_t kClientFaults = 7;
const char* name_of(ClientFault fault);

// What the neighbours do, each kind one at a time per client.
enum class ProbeKind : std::uint8_t { kSmallRead, kSmallWrite, kLargeRead, kLargeWrite, kSync, kLookUp };
inline constexpr std::size_t kProbeKinds = 6;
const char* name_of(ProbeKind kind);

// Times of one kind of operation of all neighbours while the client is faulty, or would be.
struct ProbeTimes {
  std::uint64_t count = 0;
  std::uint64_t failed = 0;
  Duration sum{};
  Duration longest{};

  void add(Duration time) {
    ++count;
    sum += time;
    longest = std::max(longest, time);
  }
  Duration mean() const { return count == 0 ? Duration{} : sum / static_cast<std::int64_t>(count); }
};
using NeighbourTimes = std::array<ProbeTimes, kProbeKinds>;

// The rule of docs/reliability.md: beside a faulty client no operation fails, the mean time of a kind of operation is
// at most kMeanFactor times, its longest time at most kLongestFactor times the time beside the healthy one, plus
// kSlack: the network needs about that long for what a client may have in flight, and a client that reconnects sends it
// again.
inline constexpr int kMeanFactor = 2, kLongestFactor = 3;
inline constexpr Duration kSlack = std::chrono::milliseconds(50);
std::vector<std::string> compare(const NeighbourTimes& healthy, const NeighbourTimes& faulty);

struct NeighbourOutcome {
  ClientFault fault{};
  NeighbourTimes healthy{}, faulty{};
  std::uint64_t operations = 0;
  std::vector<std::string> violations{};
};
// Equal seeds give equal outcomes.
NeighbourOutcome run_neighbours(std::uint64_t seed);

}  // namespace tutti::sim
