// SPDX-License-Identifier: Apache-2.0
// What all messages have in common: limits, status, the head of a reply.
//
// A message is a struct with a type, fields, and `fields(a)`, which passes the fields to an archive in wire order
// (archive.h). A request declares its reply type as `Reply`. A reply starts with a ReplyHead; its other fields are sent
// only if the status is 0.
//
// Paths are relative to the root the node serves, without a leading or trailing '/', without ".", ".." or empty
// components; the root itself is "". Decoders refuse all other paths. Symbolic links may still lead outside: the node
// must resolve paths beneath its root.
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <string>
#include <vector>

#include "wire/frame.h"

namespace tutti::wire {

inline constexpr std::size_t kMaxPath = 4096;
inline constexpr std::size_t kMaxName = 255;
inline constexpr std::size_t kMaxMessage = 1024;
inline constexpr std::size_t kMaxCredential = 16 << 10;
inline constexpr std::size_t kMaxXattr = 64 << 10;
inline constexpr std::size_t kMaxExtents = 8192;
inline constexpr std::size_t kMaxEntries = 800;      // of a directory, in one reply
inline constexpr std::size_t kMaxUsage = 512;        // rows in one reply
inline constexpr std::size_t kMaxOption = 64 << 10;  // value of one option of a policy
// Full replies fit into a body, with the longest names and 4 KiB for everything else.
inline constexpr std::size_t kMaxEntriesWithAttributes = 600;
static_assert(kMaxEntriesWithAttributes * (kMaxName + 21 + 88) + 4096 <= kMaxBody);
static_assert(kMaxEntries * (kMaxName + 21) + 4096 <= kMaxBody && kMaxUsage * (kMaxName + 80) + 4096 <= kMaxBody);

// Status of a reply: 0, an errno of Linux (ENOENT, ...), or one of these.
enum Status : std::int32_t {
  kOk = 0,
  kUnknownFile = 4096,  // the node does not know this file key: send the request again with the path
  kExpired = 4097,      // the deadline passed; the request was not applied and will not be
  kStopping = 4098,     // the node is shutting down; the request was not applied and will not be
  kMalformed = 4099,    // the request cannot be decoded or is not valid
};

// How long a request spent in the parts of the node.
struct Timing {
  Duration queued{};   // from arrival to dispatch, without `waiting`
  Duration waiting{};  // time until dispatch in which the policy kept the device idle
  Duration engine{};   // in the engine
};

struct ReplyHead {
  std::int32_t status = kOk;
  std::string message{};  // error text; empty if the status is kOk
  Timing timing{};
  TimePoint now{};  // the node's steady clock when it replied, as in Welcome; zero: unknown

  void fields(auto& a) {
    a(status, "status");
    a.text(message, "message", kMaxMessage);
    a(timing.queued, "queued");
    a(timing.waiting, "waiting");
    a(timing.engine, "engine");
    a(now, "now");
  }
};

// A reply without further fields.
template <Type type>
struct PlainReply {
  static constexpr Type kType = type;
  ReplyHead head{};
  void fields(auto&) {}
};

}  // namespace tutti::wire
