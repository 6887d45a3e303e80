// SPDX-License-Identifier: Apache-2.0
// A policy with a number of batches under way in front of a device or, on a forwarding node, of other stations.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/device.h"
#include "sched/policy.h"
#include "sim/network.h"
#include "sim/page_cache.h"

namespace tutti::sim {

// Bookkeeping of one node; the world decides when things happen.
class Station {
 public:
  struct Ticket {
    std::vector<Request> requests;  // the batch, kept until it is done
    TimePoint dispatched{};         // by the station's clock
    std::uint32_t parts = 0;        // forwarding: servers that have not answered
  };

  struct Kind {
    unsigned depth = 1;
    Bytes read_ahead{};
  };

  Station(std::unique_ptr<Policy> policy, Kind kind, const DeviceFigures& device)
      : cache(kind.read_ahead), device_(device), policy_(std::move(policy)), depth_(kind.depth) {}

  Policy& policy() { return *policy_; }
  Device& device() { return device_; }

  TimePoint clock(Nanoseconds now) const { return TimePoint(Duration(now)) + skew; }
  bool room() const { return in_flight_ < depth_ && !stopped; }

  // Notes a batch as under way and returns its ticket.
  std::uint32_t begin(const Batch& batch, Nanoseconds now);
  Ticket& ticket(std::uint32_t number) { return tickets_[number]; }
  // The batch is done: tells the policy and frees the place. The ticket's requests stay readable until begin().
  const Ticket& finish(std::uint32_t number, Nanoseconds now);

  std::size_t in_flight() const { return in_flight_; }

  PageCache cache;                                                        // of a server that has memory
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> waiting;  // tickets that wait for another's read
  Nanoseconds thread_free = 0;                                            // when a server's thread has time again
  std::vector<std::uint32_t> handled_late;                                // tickets whose handling ended while stopped
  bool stopped = false;
  bool finish_scheduled = false;
  Duration skew{};           // this station's clock minus true time
  Nanoseconds wake_at = -1;  // a scheduled kWake; -1: none

 private:
  Device device_;
  std::unique_ptr<Policy> policy_;
  unsigned depth_;
  unsigned in_flight_ = 0;
  std::vector<Ticket> tickets_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::sim
