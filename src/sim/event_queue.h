// SPDX-License-Identifier: Apache-2.0
// Future events in order of time. Events of equal time are in the order of scheduling, so runs are reproducible.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

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

// Most events are in one heap. Events that are scheduled together, such as the messages of one operation, are sorted
// once and wait in a list of their own, of which only the first is in a heap, so that heaps stay small. The next few
// events are in an array, so that what they need can be loaded into the cache in time.
class EventQueue {
 public:
  static constexpr std::size_t kAhead = 16;  // events that peek() can see, a power of two

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_ + heap_.size() + in_runs_; }

  struct Operands {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };

  void push(std::int64_t time, EventKind kind, Operands operands) {
    const Event event{time, (next_sequence_++ << 8) | static_cast<std::uint64_t>(kind), operands.a, operands.b};
    if (collecting_)
      collected_.push_back(event);
    else
      add(event);
  }
  // There is one.
  Event pop() {
    const Event event = at(0);
    ++first_;
    --count_;
    if (!heap_.empty() || !heads_.empty()) at(count_++) = take();
    return event;
  }
  // The event that pop() returns after `ahead` others, unless earlier ones are scheduled; nullptr if not known.
  const Event* peek(std::size_t ahead) const { return ahead < count_ ? &near_[(first_ + ahead) % kAhead] : nullptr; }

  // Between these two calls, many events are scheduled and none is taken.
  void begin_many() { collecting_ = true; }
  void end_many();

 private:
  struct Run {
    std::vector<Event> events;  // ascending
    std::size_t next = 0;
  };
  struct Head {  // the first event of a run
    Event event;
    std::uint32_t run = 0;
    bool operator<(const Head& other) const { return event < other.event; }
  };

  Event& at(std::size_t place) { return near_[(first_ + place) % kAhead]; }
  void add(const Event& event);
  void add_run();
  Event take();

  std::array<Event, kAhead> near_{};  // a ring with the first `count_` events; full if there are more
  std::size_t first_ = 0, count_ = 0;
  Heap<Event> heap_;  // of the others, those that are in no run
  Heap<Head> heads_;  // of the runs that have events
  std::vector<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
  std::size_t in_runs_ = 0;  // events
  std::vector<Event> collected_;
  bool collecting_ = false;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace tutti::sim
