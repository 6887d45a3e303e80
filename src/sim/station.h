// SPDX-License-Identifier: Apache-2.0
// A server or forwarding node of the fast simulation: a policy and the batches in flight to the device or to servers.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/device.h"
#include "net/admission.h"
#include "node/file_order.h"
#include "sched/heaps.h"
#include "sched/policy.h"
#include "sim/network.h"
#include "sim/page_cache.h"
#include "sim/write_cache.h"

namespace tutti::sim {

// Only keeps records; FastSimulation decides when events happen. Not thread-safe.
class Station {
 public:
  struct BatchInFlight {
    std::vector<Request> requests;  // the batch
    TimePoint dispatched{};         // by the station's clock
    std::uint32_t parts = 0;        // on a forwarding node: servers that have not answered
    bool aside = false;             // as in Scheduler::set_aside()
    bool ahead = false;             // as in node::DataPath
  };

  struct Limits {
    unsigned depth = 1;
    Bytes read_ahead{};
    Bytes write_cache{};
    Bytes write_buffers{};
    Bytes read_buffers{};
  };

  Station(std::unique_ptr<Policy> policy, Limits limits, const DeviceFigures& device)
      : cache(limits.read_ahead),
        write_cache(limits.write_cache),
        write_memory(net::WriteMemory(limits.write_buffers).with_writes, {}),
        pulled_memory(net::WriteMemory(limits.write_buffers).pulled),
        read_memory(limits.read_buffers),
        device_(device),
        policy_(std::move(policy)),
        depth_(limits.depth) {
    // Allocated together, so that they are close to each other: with thousands of stations, every page counts.
    const unsigned usual = limits.depth < kUsualDepth ? limits.depth : kUsualDepth;
    device_.reserve(usual);
    free_.reserve(usual);
    batches_.reserve(usual);
    for (unsigned i = usual; i > 0; --i) {
      batches_.emplace_back().requests.reserve(1);
      free_.push_back(i - 1);
    }
  }

  Policy& policy() { return *policy_; }
  const Policy& policy() const { return *policy_; }
  Device& device() { return device_; }
  const Device& device() const { return device_; }

  TimePoint clock(Nanoseconds now) const { return TimePoint(Duration(now)) + skew; }
  bool room() const { return in_flight_ < depth_ && !stopped; }

  // Adds a batch in flight and returns its ticket.
  std::uint32_t begin(const Batch& batch, Nanoseconds now);
  BatchInFlight& batch(std::uint32_t ticket) { return batches_[ticket]; }
  const BatchInFlight& batch(std::uint32_t ticket) const { return batches_[ticket]; }
  void set_aside(std::uint32_t ticket);
  // Sets it aside because it waits for payloads, if few others are.
  void set_ahead(std::uint32_t ticket, std::size_t most);
  // The batch is complete: notifies the policy and frees the ticket. The requests stay readable until begin().
  const BatchInFlight& finish(std::uint32_t number, Nanoseconds now);

  std::size_t in_flight() const { return in_flight_; }

  // Prefetches what the next event here will need: first this object, then what it refers to.
  void expect() const;
  void expect_content() const;

  PageCache cache;         // of a server
  WriteCache write_cache;  // of a server
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>>
      waiting;                                         // tickets that wait for the read of another ticket
  std::unordered_map<FileId, node::FileOrder> orders;  // of files that are synced
  // From here on: what most events need, which expect() loads.
  // Messages, and dispatched batches, that wait for memory because of the node's limits.
  struct WaitingMessage {
    std::uint32_t slot = 0;
    std::uint32_t message = 0;
  };
  net::Budget write_memory, pulled_memory, read_memory;
  std::vector<std::uint32_t> without_payload;  // tickets that wait for payloads, in order of dispatch
  std::size_t memory_behind = 0;  // messages with memory for a pulled payload that have requests in the policy
  RunQueue<WaitingMessage> starved_writes;
  RunQueue<std::uint32_t> starved_reads;    // tickets
  std::vector<std::uint32_t> handled_late;  // tickets whose handling ended while the server was stopped
  Nanoseconds thread_free = 0;              // when the thread of the server is free
  Nanoseconds wake_at = -1;                 // a scheduled kWake; -1: none
  Duration skew{};                          // this station's clock minus true time
  bool stopped = false;
  bool finish_scheduled = false;
  bool retrying = false;  // a kWake to retry those that wait for memory is scheduled

 private:
  static constexpr unsigned kUsualDepth = 16;

  Device device_;
  std::unique_ptr<Policy> policy_;
  unsigned depth_;
  unsigned in_flight_ = 0;
  std::size_t ahead_ = 0;  // batches with BatchInFlight::ahead
  std::vector<BatchInFlight> batches_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::sim
