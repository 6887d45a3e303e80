// SPDX-License-Identifier: Apache-2.0
// Messages between a job and the gate (docs/design/gate-leases.md).
#pragma once

#include <boost/container/small_vector.hpp>

#include "wire/message.h"

namespace tutti::wire {

inline constexpr std::size_t kMaxTargetRanges = 4096;
inline constexpr std::size_t kMaxStatusPiece = 16 << 10;
inline constexpr Duration kMaxLease = std::chrono::hours(24 * 365);

struct GateOpenReply {
  static constexpr Type kType = Type::kGateOpen;
  ReplyHead head{};
  Duration lease{};           // a holder must renew within this time
  std::uint32_t targets = 0;  // number of targets of the gate

  void fields(auto& a) {
    a(lease, "lease");
    a.require(lease > Duration::zero() && lease <= kMaxLease, "lease", "is out of range");
    a(targets, "targets");
  }
};

// The first request on a connection. The client chooses a random session number and uses it again after a reconnect: a
// later connection of the same user with the same number replaces the earlier one.
struct GateOpenRequest {
  static constexpr Type kType = Type::kGateOpen;
  using Reply = GateOpenReply;
  std::uint64_t session = 0;
  std::uint64_t number = 0;   // number of the batch job plus 1; 0: none, the process is its own job
  std::uint32_t process = 0;  // process id, for display
  std::uint64_t ticket = 0;   // the ticket it will ask for again; 0: none. All others of the session are released

  void fields(auto& a) {
    a(session, "session");
    a(number, "number");
    a(process, "process");
    a(ticket, "ticket");
  }
};

enum class GateState : std::uint8_t {
  kQueued = 0,
  kHolding = 1,  // has its turn, for one lease from now
  kLost = 2,     // had its turn, but did not renew within the lease
};

// Reply to ask and renew. A queued ask gets a second reply with the same tag when its turn begins, and a third one if
// the lease expires after that. A refusal has a status other than kOk.
template <Type kTypeOfRequest>
struct GateReply {
  static constexpr Type kType = kTypeOfRequest;
  ReplyHead head{};
  GateState state{};
  TimePoint arrived{};      // on the gate's clock; the client repeats it when it asks again after a restart
  std::uint32_t group = 0;  // repeated, too

  void fields(auto& a) {
    a.choice(state, "state", GateState::kLost);
    a(arrived, "arrived");
    a.require(arrived >= TimePoint{}, "arrived", "is negative");
    a(group, "group");
  }
};

struct TargetRange {
  TargetId first = 0;
  TargetId last = 0;  // inclusive
  friend bool operator==(const TargetRange&, const TargetRange&) = default;
};

using TargetRanges = boost::container::small_vector<TargetRange, 2>;  // mostly one

struct GateAskRequest {
  static constexpr Type kType = Type::kGateAsk;
  using Reply = GateReply<kType>;
  enum class Claim : std::uint8_t {
    kNew = 0,
    kWaited = 1,  // was queued when the connection was lost
    kHeld = 2,    // had its turn when the connection was lost
  };
  std::uint64_t ticket = 0;  // chosen by the client, different for each turn
  std::uint64_t bytes = 0;   // announced size of the phase; 0: unknown
  bool all = false;          // all targets; `targets` must be empty then
  TargetRanges targets{};
  Claim claim = Claim::kNew;
  TimePoint arrived{};      // from the reply to the first ask; 0 if there was none
  std::uint32_t group = 0;  // from that reply, too

  void fields(auto& a) {
    a(ticket, "ticket");
    a(bytes, "bytes");
    a(all, "all");
    a.list(targets, "targets", kMaxTargetRanges, 8, [&](TargetRange& range) {
      a(range.first, "first");
      a(range.last, "last");
    });
    a.require(targets.empty() || !all, "targets", "must be empty if all targets are asked for");
    a.choice(claim, "claim", Claim::kHeld);
    a(arrived, "arrived");
    a.require(arrived >= TimePoint{}, "arrived", "is negative");
    a(group, "group");
  }
};

// A holder extends its lease by it; a queued client checks that the gate is alive. Answered at once.
struct GateRenewRequest {
  static constexpr Type kType = Type::kGateRenew;
  using Reply = GateReply<kType>;
  std::uint64_t ticket = 0;

  void fields(auto& a) { a(ticket, "ticket"); }
};

// Ends a turn, or leaves the queue. It has no reply, to save a round trip.
struct GateRelease {
  static constexpr Type kType = Type::kGateRelease;
  std::uint64_t ticket = 0;

  void fields(auto& a) { a(ticket, "ticket"); }
};

struct GateStatusReply {
  static constexpr Type kType = Type::kGateStatus;
  ReplyHead head{};
  std::uint64_t document =
      0;                     // number of the document; if it differs from the requested one, start again with this part
  std::uint64_t offset = 0;  // of this part
  bool last = false;
  std::string text{};  // a part of the JSON document, at most kMaxStatusPiece bytes

  void fields(auto& a) {
    a(document, "document");
    a(offset, "offset");
    a(last, "last");
    a.text(text, "text", kMaxStatusPiece);
  }
};

// Asks for a part of the status document. Allowed without kGateOpen.
struct GateStatusRequest {
  static constexpr Type kType = Type::kGateStatus;
  using Reply = GateStatusReply;
  std::uint64_t document = 0;  // 0: the newest
  std::uint64_t offset = 0;

  void fields(auto& a) {
    a(document, "document");
    a(offset, "offset");
  }
};

}  // namespace tutti::wire
