// SPDX-License-Identifier: Apache-2.0
// The outside of every message: a fixed header, then `body_length` bytes of fields, then `payload_length` bytes of file
// data. All integers are little-endian. docs/design/wire.md has the reasons.
#pragma once

#include <tutti/base.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::wire {

inline constexpr std::uint32_t kMagic = 0x49545554;  // "TUTI"
inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kHeaderSize = 48;
inline constexpr std::uint32_t kMaxBody = 256 << 10;
inline constexpr std::uint32_t kMaxPayload = 16 << 20;
inline constexpr std::uint32_t kPage = 4096;
inline constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 63;  // no extent ends past it

// What a message is. A reply carries its request's type with kReplyBit set.
enum class Type : std::uint16_t {
  // The handshake, in this order (net/handshake.h). A transport keeps these to itself.
  kHello = 1,
  kChallenge = 2,
  kProof = 3,
  kWelcome = 4,
  // Data: stamped, ordered by the node's policy.
  kRead = 16,
  kWrite = 17,
  kFsync = 18,
  kTruncate = 19,
  // Namespace: acts on the backing file system, in order of arrival.
  kLookup = 32,
  kStat = 33,
  kCreate = 34,
  kMakeDirectory = 35,
  kReadDirectory = 36,
  kRename = 37,
  kUnlink = 38,
  kRemoveDirectory = 39,
  kSetAttributes = 40,
  kSymlink = 41,
  kReadLink = 42,
  kLink = 43,
  kGetXattr = 44,
  kSetXattr = 45,
  kListXattr = 46,
  kRemoveXattr = 47,
  kStatFs = 48,
  kClose = 49,
  // Control: for administrators.
  kPolicyShow = 64,
  kPolicySet = 65,
  kStatistics = 66,
  kHealth = 67,
  kStop = 68,
};

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
  std::uint32_t lead = 0;              // payload before the first page of the sender's memory: who takes the pages as
                                       // they are takes this by itself; less than a page
};

using HeaderBytes = std::array<std::byte, kHeaderSize>;

HeaderBytes encode_header(const Header& header);

// kProtocol with what is wrong: magic, version, checksum, unknown flags or type, lengths past the limits.
// Nothing after a bad header can be trusted: close the connection.
Result<Header> decode_header(std::span<const std::byte, kHeaderSize> bytes);

// kProtocol if the bytes are not the ones the header speaks of. A payload without a checksum passes.
Result<void> check_body(const Header& header, std::span<const std::byte> body);
Result<void> check_payload(const Header& header, std::span<const std::byte> payload);
Result<void> check_payload(const Header& header, std::span<const std::span<const std::byte>> parts);

std::uint32_t body_checksum(std::span<const std::byte> body);
std::uint64_t payload_checksum(std::span<const std::byte> payload);
// Of a payload that lies in several places.
std::uint64_t payload_checksum(std::span<const std::span<const std::byte>> parts);

// Bytes from there up to the next page.
std::uint32_t lead_of(const std::byte* memory);

// "read", "write reply", ...; "unknown" for anything else.
const char* name(Type type);
bool known(Type type);

}  // namespace tutti::wire
