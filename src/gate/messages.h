// SPDX-License-Identifier: Apache-2.0
// What clients and the gate say to each other over a stream socket: REQ, ACK and REL of the thesis (section 3.2.1), and
// what leases and restarts need. All integers are little-endian.
//
//   frame   = magic 'T' 'G' | version u8 | type u8 | payload length u32 | payload
//   text    = length u8 | bytes, none of them control characters
//   targets = count u16 | (first u32 | last u32) * count; count 65535 and no ranges: all targets
//
// The decoder is strict: what encode() would not have written is refused, so decoding and encoding again gives the same
// bytes. A connection begins with Hello, answered by Welcome.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "gate/lock_table.h"
#include "gate/targets.h"

namespace tutti::gate {

inline constexpr std::uint8_t kProtocolVersion = 1;
inline constexpr std::size_t kHeaderSize = 8;
inline constexpr std::size_t kMaxPayload = 65535;
inline constexpr std::size_t kMaxText = 255;
inline constexpr std::size_t kMaxRanges = 4096;

// Client to gate, first message. The session number is random and survives reconnects: a later connection with the same
// number takes over from the earlier one.
struct Hello {
  SessionId session = 0;
  std::uint32_t process = 0;
  std::string job;
  friend bool operator==(const Hello&, const Hello&) = default;
};

// REQ.
struct RequestMessage {
  Ticket ticket = 0;
  Bytes bytes{};
  TargetList targets;
  friend bool operator==(const RequestMessage&, const RequestMessage&) = default;
};

// After a reconnect: what the session had.
struct ReassertMessage {
  RequestMessage request;
  bool holding = false;
  TimePoint arrived{};      // waiting: the stamp of kQueued; the epoch if there was none yet
  std::uint32_t group = 0;  // holding: the group of kGranted
  friend bool operator==(const ReassertMessage&, const ReassertMessage&) = default;
};

// REL. No answer unless something is wrong.
struct ReleaseMessage {
  Ticket ticket = 0;
  friend bool operator==(const ReleaseMessage&, const ReleaseMessage&) = default;
};

struct RenewMessage {
  Ticket ticket = 0;
  friend bool operator==(const RenewMessage&, const RenewMessage&) = default;
};

// Allowed without Hello, too.
struct StatusQuery {
  friend bool operator==(const StatusQuery&, const StatusQuery&) = default;
};

// Gate to client.
struct Welcome {
  std::uint64_t incarnation = 0;  // another one after every restart of the gate
  Duration lease{};
  std::uint32_t targets = 0;
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

// ACK and everything else the lock table answers; kind and fields as in Answer.
struct AnswerMessage {
  Ticket ticket = 0;
  Answer::Kind kind = Answer::Kind::kRefused;
  TimePoint arrived{};
  std::uint32_t group = 0;
  Refusal refusal = Refusal::kNone;
  std::string text;  // kRefused: for people
  friend bool operator==(const AnswerMessage&, const AnswerMessage&) = default;
};

// A piece of the status document (JSON); the document ends with the piece marked `last`.
struct StatusPiece {
  bool last = false;
  std::string text;  // up to kMaxPayload - 1 bytes
  friend bool operator==(const StatusPiece&, const StatusPiece&) = default;
};

// The order is the type number on the wire, from 1.
using Message = std::variant<Hello, RequestMessage, ReassertMessage, ReleaseMessage, RenewMessage, StatusQuery, Welcome,
                             AnswerMessage, StatusPiece>;

// Appends one frame. Texts that are too long are cut, control characters in them become '?'.
void encode(const Message& message, std::vector<std::byte>& out);

struct Decoded {
  Message message;
  std::size_t consumed = 0;  // bytes of the frame
};

// The first frame of `bytes`; nothing if it is not complete yet. kProtocol: never going to be a frame.
Result<std::optional<Decoded>> decode(std::span<const std::byte> bytes);

}  // namespace tutti::gate
