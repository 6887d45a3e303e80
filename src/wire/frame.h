// SPDX-License-Identifier: Apache-2.0
// The frame of every message: a header of fixed size, then `body_length` bytes of fields, then `payload_length` bytes
// of file data. All integers are little-endian. docs/design/wire.md explains the choices.
#pragma once

#include <tutti/base.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::wire {

inline constexpr std::uint32_t kMagic = 0x49545554;  // "TUTI"
inline constexpr std::uint16_t kVersion = 7;
inline constexpr std::size_t kHeaderSize = 48;
inline constexpr std::uint32_t kMaxBody = 256 << 10;
inline constexpr std::uint32_t kMaxPayload = 16 << 20;
inline constexpr std::uint32_t kPage = 4096;
inline constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 63;  // no extent ends past it

// All types of messages: name in code, number, name in texts. Numbers are never reused.
//   REQUEST(Name, ...): a struct NameRequest, and its reply NameRequest::Reply
//   MESSAGE(Name, ...): a struct Name that has no reply
#define TUTTI_WIRE_TYPES(REQUEST, MESSAGE)                              \
  /* Handshake, in this order. Only transports see these. */            \
  MESSAGE(Hello, 1, "hello")                                            \
  MESSAGE(Challenge, 2, "challenge")                                    \
  MESSAGE(Proof, 3, "proof")                                            \
  MESSAGE(Welcome, 4, "welcome")                                        \
  /* Data: with stamps, ordered by the node's policy. */                \
  REQUEST(Read, 16, "read")                                             \
  REQUEST(Write, 17, "write")                                           \
  REQUEST(Fsync, 18, "fsync")                                           \
  REQUEST(Truncate, 19, "truncate")                                     \
  MESSAGE(Progress, 20, "progress")                                     \
  MESSAGE(Renew, 21, "renew")                                           \
  MESSAGE(Pull, 22, "pull")                                             \
  MESSAGE(Payload, 23, "payload")                                       \
  MESSAGE(Credit, 24, "credit")                                         \
  MESSAGE(CreditAccepted, 25, "credit accepted")                        \
  REQUEST(Copy, 26, "copy")                                             \
  /* Names: served from the backing file system in order of arrival. */ \
  REQUEST(Lookup, 32, "lookup")                                         \
  REQUEST(Stat, 33, "stat")                                             \
  REQUEST(Create, 34, "create")                                         \
  REQUEST(MakeDirectory, 35, "mkdir")                                   \
  REQUEST(ReadDirectory, 36, "readdir")                                 \
  REQUEST(Rename, 37, "rename")                                         \
  REQUEST(Unlink, 38, "unlink")                                         \
  REQUEST(RemoveDirectory, 39, "rmdir")                                 \
  REQUEST(SyncDirectory, 50, "syncdir")                                 \
  REQUEST(SetAttributes, 40, "setattr")                                 \
  REQUEST(Symlink, 41, "symlink")                                       \
  REQUEST(ReadLink, 42, "readlink")                                     \
  REQUEST(Link, 43, "link")                                             \
  REQUEST(GetXattr, 44, "getxattr")                                     \
  REQUEST(SetXattr, 45, "setxattr")                                     \
  REQUEST(ListXattr, 46, "listxattr")                                   \
  REQUEST(RemoveXattr, 47, "removexattr")                               \
  REQUEST(StatFs, 48, "statfs")                                         \
  REQUEST(Close, 49, "close")                                           \
  /* Control: for administrators. */                                    \
  REQUEST(PolicyShow, 64, "policy show")                                \
  REQUEST(PolicySet, 65, "policy set")                                  \
  REQUEST(Statistics, 66, "statistics")                                 \
  REQUEST(Health, 67, "health")                                         \
  REQUEST(Stop, 68, "stop")                                             \
  REQUEST(LimitShare, 69, "limit share")                                \
  REQUEST(LimitsShow, 70, "limits show")                                \
  /* The gate (docs/design/gate-leases.md). */                          \
  REQUEST(GateOpen, 80, "gate open")                                    \
  REQUEST(GateAsk, 81, "gate ask")                                      \
  REQUEST(GateRenew, 82, "gate renew")                                  \
  MESSAGE(GateRelease, 83, "gate release")                              \
  REQUEST(GateStatus, 84, "gate status")

// A reply has the type of its request, with kReplyBit set on the wire.
#define TUTTI_WIRE_TYPE(Name, number, text) k##Name = number,
enum class Type : std::uint16_t { TUTTI_WIRE_TYPES(TUTTI_WIRE_TYPE, TUTTI_WIRE_TYPE) };
#undef TUTTI_WIRE_TYPE

inline constexpr std::uint16_t kReplyBit = 0x8000;

struct Header {
  Type type{};
  bool reply = false;
  bool has_payload_checksum = false;
  std::uint64_t tag = 0;  // chosen by the requester, unique among its requests in flight; the reply repeats it
  std::uint32_t body_length = 0;
  std::uint32_t payload_length = 0;
  std::uint32_t body_checksum = 0;
  std::uint64_t payload_checksum = 0;  // 0 unless has_payload_checksum
  std::uint32_t lead = 0;  // bytes of the payload before the first page boundary in the sender's memory (< kPage); a
                           // receiver that takes whole pages reads them separately
};

using HeaderBytes = std::array<std::byte, kHeaderSize>;

HeaderBytes encode_header(const Header& header);

// kProtocol for a wrong magic number, version, checksum, flag, type or length. The stream cannot be used after that:
// close the connection.
Result<Header> decode_header(std::span<const std::byte, kHeaderSize> bytes);

// kProtocol if length or checksum differ from the header. A payload without a checksum is only checked for its length.
Result<void> check_body(const Header& header, std::span<const std::byte> body);
Result<void> check_payload(const Header& header, std::span<const std::byte> payload);
Result<void> check_payload(const Header& header, std::span<const std::span<const std::byte>> parts);

std::uint32_t body_checksum(std::span<const std::byte> body);
std::uint64_t payload_checksum(std::span<const std::byte> payload);
// Of a payload that consists of several parts in memory.
std::uint64_t payload_checksum(std::span<const std::span<const std::byte>> parts);

// Bytes from `memory` to the next page boundary; 0 at a boundary.
std::uint32_t lead_of(const std::byte* memory);

// The tag and the type of an encoded frame.
std::uint64_t frame_tag(std::span<const std::byte> frame);
Type frame_type(std::span<const std::byte> frame);

// True for messages to a node that have no reply.
constexpr bool is_one_way(Type type) {
  return type == Type::kGateRelease || type == Type::kRenew || type == Type::kPayload || type == Type::kCreditAccepted;
}

// True for messages of a node that are not the reply to a request.
constexpr bool is_notice(Type type) {
  return type == Type::kProgress || type == Type::kPull || type == Type::kCredit;
}

// "read", "write", ...; "unknown" for other numbers.
const char* name(Type type);
bool known(Type type);

}  // namespace tutti::wire
