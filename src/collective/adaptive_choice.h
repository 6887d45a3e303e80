// SPDX-License-Identifier: Apache-2.0
// Chooses how a program's collective calls are carried out, from estimates and from the measured times of earlier
// calls.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "collective/plan.h"

namespace tutti::collective {

// How a call is carried out: by a plan, or by the MPI library itself (empty).
using Method = std::optional<PlanKind>;

// What calls have in common whose times are compared with each other.
struct CallPattern {
  Direction direction = Direction::kRead;
  bool interleaved = false;   // the non-overlap condition does not hold
  std::uint64_t bytes = 0;    // of all ranks, at least 1
  std::uint64_t extents = 0;  // the same
  std::uint64_t ranks = 1;
};

// How long a call took, in seconds, of the slowest rank.
struct CallTime {
  double all = 0;
  double io = 0;  // in reads and writes
};

// Where the calls are made.
struct Machine {
  double network_bandwidth = 1e9;  // between ranks, bytes per second
  std::uint64_t agents = 1;        // ranks that do I/O with kResonant
  bool in_memory = false;          // the call needs no device, as far as it can be known before
};

// One object per open file and direction. All ranks that call it with the same values get the same choices.
//
// A method costs what it was measured to cost: a single slow call does not count, and what was measured long ago counts
// less. A method that was not tried costs what it is estimated to cost, times the factor by which the tried ones were
// slower than estimated. The cheapest is chosen; one that is up to a third above the best by estimate is tried once,
// and a second time if it was less than twice as slow. The MPI library itself is tried if all tried plans were much
// slower than estimated.
//
// If reads and writes take much less than the device needs, the data is in memory: then the estimates are those of
// system calls and copies, until reads and writes take about as long as the device needs.
//
// Calls whose sizes differ by less than a factor of four are one pattern. Memory: at most 64 patterns. Not thread-safe.
class AdaptiveChoice {
 public:
  // True: learn() was called for the pattern.
  bool knows(const CallPattern& pattern) const;
  // `estimates`: for the configured device, at least one.
  void learn(const CallPattern& pattern, const std::vector<Estimate>& estimates, const Machine& machine);
  // knows(pattern) must be true. `mpi_allowed`: the MPI library may carry out this call.
  Method choose(const CallPattern& pattern, bool mpi_allowed);
  // A call has ended. Of a pattern that is not known: only begin_at_once() changes.
  void measured(const CallPattern& pattern, const Method& method, const CallTime& time);
  // True: the next call is expected to be like the last ones, which were independent with all data in memory. Then
  // ranks may read or write before they know each other's lists, because they do not need each other.
  bool begin_at_once() const;

 private:
  static constexpr std::size_t kMethods = 4;
  using Key = std::tuple<bool, int, int>;
  struct Times {
    double device = 0, memory = 0;  // estimates, in seconds per byte; 0: cannot be chosen
    double measured = 0;            // the same; 0: not tried
    double last = 0;                // the last time
    unsigned calls = 0;
  };
  struct Known {
    std::array<Times, kMethods> methods{};
    bool in_memory = false;
    unsigned fast = 0, slow = 0;  // consecutive calls that were much faster than the device, or not
    unsigned returns = 0;         // times that the data turned out not to be in memory

    double estimate(std::size_t method) const { return in_memory ? methods[method].memory : methods[method].device; }
    double slower_than_estimated() const;
    bool suspicious() const;
    double cost(std::size_t method, bool mpi_allowed) const;
    void add(std::size_t method, double seconds_per_byte);
    std::size_t cheapest(bool mpi_allowed) const;
    void notice_device(std::size_t method, double io);
  };

  static Key key_of(const CallPattern& pattern);
  static std::size_t index_of(const Method& method);

  std::map<Key, Known> known_;
  Key last_{};
  bool mpi_allowed_ = false;  // in the last choose()
  unsigned alike_ = 0;        // last calls that were of the same pattern and independent
  unsigned needed_ = 2;       // of them, for begin_at_once()
};

}  // namespace tutti::collective
