// SPDX-License-Identifier: Apache-2.0
// Future events in order of time. Events of equal time are in the order of scheduling, so runs are reproducible.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

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

  // One comparison of 128 bits, without a branch that would be mispredicted often. Times are not negative.
  bool operator<(const Event& other) const { return key() < other.key(); }
  EventKind kind() const { return static_cast<EventKind>(sequence & 0xff); }

 private:
  __extension__ using Key = unsigned __int128;
  Key key() const { return Key{static_cast<std::uint64_t>(time)} << 64 | sequence; }
};

// The next events are in a sorted array, so that what they need can be loaded into the cache in time. Later ones are in
// buckets, which are sorted only when their turn comes: all events up to `horizon_` are in the array, and the bucket of
// a later one is the highest digit in which its time differs from the horizon, and the value of that digit. When the
// array runs low, the first bucket is appended to it, or, if it is large, is distributed over buckets of lower digits.
// Each event is moved a few times, in sequence; a heap of a million events would be searched in no order.
//
// Not thread-safe.
class EventQueue {
 public:
  static constexpr std::size_t kAhead = 18;  // events that peek() can see

  bool empty() const { return first_ == near_.size(); }
  std::size_t size() const { return near_.size() - first_ + in_buckets_; }

  struct Operands {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };

  // The time is not negative.
  void push(std::int64_t time, EventKind kind, Operands operands) {
    const Event event{time, (next_sequence_++ << 8) | static_cast<std::uint64_t>(kind), operands.a, operands.b};
    if (time <= horizon_) return insert(event);
    add_to_bucket(event);
    ++in_buckets_;
    if (near_.size() - first_ < kAhead) extend();
  }
  // There is one.
  Event pop() {
    const Event event = near_[first_++];
    if (near_.size() - first_ < kAhead) extend();
    return event;
  }
  // The event that pop() returns after `ahead` others, unless earlier ones are scheduled; nullptr if not known.
  const Event* peek(std::size_t ahead) const {
    return first_ + ahead < near_.size() ? &near_[first_ + ahead] : nullptr;
  }

 private:
  static constexpr unsigned kDigit = 3;  // bits of a digit
  static constexpr unsigned kValues = 1 << kDigit;
  static constexpr unsigned kLevels = 64 / kDigit + 1;

  void insert(const Event& event);
  struct Place {
    unsigned level = 0, value = 0;
  };
  Place place_of(std::int64_t time) const;
  std::vector<Event>& bucket_at(Place place);
  void add_to_bucket(const Event& event) { bucket_at(place_of(event.time)).push_back(event); }
  void extend();
  void append(Place place);
  void distribute(Place place);
  void shorten();

  std::vector<Event> near_;  // ascending; those before first_ were taken
  std::size_t first_ = 0;
  std::int64_t horizon_ = 0;
  std::array<std::array<std::vector<Event>, kValues>, kLevels> buckets_;
  std::array<std::uint8_t, kLevels> used_{};  // by level: a bit for each value whose bucket has events
  std::uint32_t used_levels_ = 0;             // a bit for each level with events
  std::size_t in_buckets_ = 0;
  std::vector<Event> moving_;  // temporary data of distribute()
  std::uint64_t next_sequence_ = 0;
};

}  // namespace tutti::sim
