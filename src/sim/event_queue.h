// SPDX-License-Identifier: Apache-2.0
// The future: events in order of time, and of being scheduled among equals, so that a run repeats bit for bit.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

namespace tutti::sim {

enum class EventKind : std::uint8_t {
  kStep,     // a = application: its computation or pause is over
  kMessage,  // a = operation slot, b = group: the pieces for one station arrive
  kForward,  // a = way, b = ticket: a part of a forwarding node's batch arrives at its server
  kHandled,  // a = station, b = ticket: the server's thread has done its part of a batch
  kFinish,   // a = station: its device has finished something
  kWake,     // a = station: its policy asked to be asked again
  kReply,    // a = operation slot: the last byte is with the client
  kReturn,   // a = way, b = ticket: a server's answer is back at the forwarding node
  kTimeout,  // a = operation slot, b = its generation
  kFault,    // a = index of the fault, b = 0: begins, 1: ends
  kGate,     // a = application, b = what for (World::GateStep)
};

struct Event {
  std::int64_t time = 0;       // nanoseconds since the start
  std::uint64_t sequence = 0;  // order of scheduling, with the kind in the lowest byte
  std::uint32_t a = 0;
  std::uint32_t b = 0;

  EventKind kind() const { return static_cast<EventKind>(sequence & 0xff); }
};

// A heap of four children per node: half the levels of a binary one, and one node's children share a cache line or two.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }

  struct Operands {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };

  void push(std::int64_t time, EventKind kind, Operands operands) {
    const Event event{time, (next_sequence_++ << 8) | static_cast<std::uint64_t>(kind), operands.a, operands.b};
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kChildren;
      if (!before(event, heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  Event pop() {
    assert(!heap_.empty());
    const Event top = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
    return top;
  }

 private:
  static constexpr std::size_t kChildren = 4;

  static bool before(const Event& x, const Event& y) {
    return x.time != y.time ? x.time < y.time : x.sequence < y.sequence;
  }

  void sift_down(const Event& event) {
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    while (true) {
      const std::size_t first = hole * kChildren + 1;
      if (first >= size) break;
      std::size_t best = first;
      const std::size_t end = first + kChildren < size ? first + kChildren : size;
      for (std::size_t child = first + 1; child < end; ++child)
        if (before(heap_[child], heap_[best])) best = child;
      if (!before(heap_[best], event)) break;
      heap_[hole] = heap_[best];
      hole = best;
    }
    heap_[hole] = event;
  }

  std::vector<Event> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace tutti::sim
