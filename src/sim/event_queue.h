// SPDX-License-Identifier: Apache-2.0
// Future events in order of time. Events of equal time are in the order of scheduling, so runs are reproducible.
#pragma once

#include <cstdint>

#include "base/heap.h"

namespace tutti::sim {

enum class EventKind : std::uint8_t {
  kStep,      // a = application: its computation or pause has ended; in a Simulator: a = slot of its task
  kMessage,   // a = operation slot, b = message: the requests for one station arrive
  kPayload,   // a = operation slot, b = message: a payload arrives that the node has pulled
  kForward,   // a = route, b = ticket: a part of a forwarding node's batch arrives at its server
  kHandled,   // a = station, b = ticket: the server's thread has handled a batch
  kFinish,    // a = station: its device has finished a batch
  kWake,      // a = station: call its policy again; b = 1: retry those that wait for memory
  kReply,     // a = operation slot: the client has received the last byte
  kReturn,    // a = route, b = ticket: a server's answer arrives at the forwarding node
  kAnswered,  // a = application, b = connection: a message was answered, more may be sent
  kSync,      // a = sync, b = server: an fsync arrives
  kSynced,    // a = application, b = rank: one server has answered its fsync
  kTimeout,   // a = operation slot, b = its generation
  kFault,     // a = index of the fault, b = 0: begins, 1: ends
  kGate,      // a = application, b = FastSimulation::GateStep
};

struct Event {
  std::int64_t time = 0;       // nanoseconds since the start
  std::uint64_t sequence = 0;  // order of scheduling, with the kind in the lowest byte
  std::uint32_t a = 0;
  std::uint32_t b = 0;

  bool operator<(const Event& other) const {
    return time != other.time ? time < other.time : sequence < other.sequence;
  }
  EventKind kind() const { return static_cast<EventKind>(sequence & 0xff); }
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }

  struct Operands {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };

  void push(std::int64_t time, EventKind kind, Operands operands) {
    heap_.push({time, (next_sequence_++ << 8) | static_cast<std::uint64_t>(kind), operands.a, operands.b});
  }
  Event pop() { return heap_.pop(); }

 private:
  Heap<Event> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace tutti::sim
