// SPDX-License-Identifier: Apache-2.0
// Limits on what a client may have in flight on one connection. Live and simulated connections use this code.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "wire/codec.h"

namespace tutti::net {

// Limit for the memory of all requests of a listener and the bodies of their replies, without payloads. In bytes.
inline constexpr std::int64_t kMaxRequestMemory = 24 << 20;

// Memory that a request occupies at the node until its reply is sent.
struct Charge {
  std::uint64_t bytes = 0;   // payload of the request plus payload of its reply
  std::int64_t memory = 0;   // bytes of everything else
  std::uint64_t credit = 0;  // of the payload, as in wire::Limits
  bool before_owed = false;  // as in RequestMemory
};
Charge charge_of(const wire::Header& header, std::span<const std::byte> body);

// Requests in flight on one connection. Client, node and simulator use it to decide whether to send or accept another.
struct InFlight {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;  // as in Charge

  // At least one request always fits.
  bool fits(const wire::Limits& limits, std::uint64_t more) const {
    return requests == 0 || (requests < limits.requests && bytes + more <= limits.bytes);
  }
};

// Counts how much of a node's memory for payloads is in use. Allocations are powers of two. Payloads of up to kSmall
// bytes may use a reserve beside `most`, so that clients with large payloads cannot stop them. Not thread-safe.
class Budget {
 public:
  static constexpr std::size_t kSmallest = 4096;
  static constexpr std::size_t kSmall = 64 << 10;
  static constexpr std::size_t kReserve = 2 << 20;

  // At least `least` bytes: one payload of wire::kMaxPayload always fits, so that no request waits forever.
  explicit Budget(Bytes most, Bytes least = Bytes(wire::kMaxPayload)) : most_(std::max(most, least).count()) {}

  // Bytes that a payload of this size occupies.
  static std::size_t capacity(std::size_t size) { return std::bit_ceil(std::max(size, kSmallest)); }
  bool fits(std::size_t capacity) const { return in_use_ + capacity <= most_ + (capacity <= kSmall ? kReserve : 0); }
  bool take(std::size_t capacity) {
    if (!fits(capacity)) return false;
    in_use_ += capacity;
    return true;
  }
  void take_regardless(std::size_t capacity) { in_use_ += capacity; }  // also beyond the limit
  void give_back(std::size_t capacity) { in_use_ -= capacity; }
  std::size_t most() const { return most_; }
  std::size_t in_use() const { return in_use_; }

 private:
  std::size_t most_;
  std::size_t in_use_ = 0;
};

// The memory of a node for the payloads of writes has two parts.
// - Payloads that are sent with their writes. Every connection has a credit in it, and all credits together are at most
//   this part. So a payload within its credit never waits for memory, and a client that announces payloads and does not
//   send them stops no other client. The credits are equal shares per user, and per connection of a user.
//   Payloads of up to Budget::kSmall need no credit: they use what is free, and Budget::kReserve.
// - Payloads that a node pulls when it has dispatched their writes (wire::Pull).
struct WriteMemory {
  Bytes with_writes{};  // may be 0: all larger payloads are pulled then
  Bytes pulled{};       // at least one payload of wire::kMaxPayload

  explicit WriteMemory(Bytes all) : with_writes(all), pulled(std::max(all / 2, Bytes(wire::kMaxPayload))) {
    with_writes = all > pulled ? all - pulled : Bytes{};
  }
  // The credit that a payload needs. `small`: as in wire::Limits.
  static std::uint64_t credit_for(std::uint64_t payload, std::uint64_t small = Budget::kSmall) {
    return payload <= small ? 0 : Budget::capacity(payload);
  }
  // The credit of a connection. `users` have connections, and its own user has `connections`; both are rounded up to a
  // power of two, so that credits seldom change.
  struct Sharers {
    std::size_t users = 1, connections = 1;
  };
  std::uint64_t share(const Sharers& sharers) const {
    const std::uint64_t share = with_writes.count() / std::bit_ceil(sharers.users) / std::bit_ceil(sharers.connections);
    return share > Budget::kSmall ? share : 0;
  }
};

// The requests of one connection with their charges, from arrival until the reply has been sent. Not thread-safe.
class Admission {
 public:
  enum class Verdict {
    kFits,
    kOver,      // over a limit: wait until a reply has been sent
    kRepeated,  // a request with this tag is in flight: a protocol error
  };
  // A request counts until its reply has been sent. At least one request always fits.
  Verdict check(const wire::Limits& limits, std::uint64_t tag, const Charge& charge) const;
  void add(std::uint64_t tag, const Charge& charge);
  // True: the payload alone exceeds the credit.
  bool too_large(std::uint64_t payload) const { return WriteMemory::credit_for(payload) > most_credit_; }
  // Sets what payloads may use (wire::Limits). False: they use more now.
  bool set_credit(std::uint64_t bytes) {
    most_credit_ = bytes;
    return credit_ <= bytes;
  }
  // Call when the reply is queued. Returns the charge, for release() after the reply is sent; nothing: unknown tag. The
  // credit is free at once: the client may count on that as soon as it has the reply.
  std::optional<Charge> answered(std::uint64_t tag);
  void release(const Charge& charge) {
    bytes_ -= charge.bytes;
    --unsent_;
  }
  // Removes and returns all requests without a reply, as answered().
  std::deque<std::pair<std::uint64_t, Charge>> take_all() {
    unsent_ += open_.size();
    return std::exchange(open_, {});
  }

 private:
  std::deque<std::pair<std::uint64_t, Charge>> open_;  // by tag, ascending; most replies are those of the first
  std::size_t unsent_ = 0;                             // replies
  std::uint64_t bytes_ = 0;
  std::uint64_t credit_ = 0;                       // in use
  std::uint64_t most_credit_ = ~std::uint64_t{0};  // of the connection
};

}  // namespace tutti::net
