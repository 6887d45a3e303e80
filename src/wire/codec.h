// SPDX-License-Identifier: Apache-2.0
// Encodes messages to bytes and decodes them.
//
//   std::vector<std::byte> frame = wire::encode(wire::LookupRequest{.path = "a/b"}, {.tag = 7});
//   ...
//   Result<wire::LookupRequest> request = wire::decode<wire::LookupRequest>(header, body);
//
// Decoders are strict: they check every length and range, and every byte must belong to a field. Encoding a decoded
// message gives the same bytes. All functions are thread-safe.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "wire/frame.h"
#include "wire/messages.h"

namespace tutti::wire {

struct Envelope {
  std::uint64_t tag = 0;
  std::span<const std::byte> payload{};  // sent after the frame, not part of it: the header has its length and checksum
  bool checksum = false;                 // of the payload
};

// Returns header and body. The sender sends them together, then the payload if there is one.
// A reply over a limit of message.h is replaced by a failure (EMSGSIZE) that names the field. A request must be within
// the limits (asserted): call check_limits() first if its content comes from a user.
template <typename Message>
std::vector<std::byte> encode(const Message& message, const Envelope& envelope);

// kInvalid with EMSGSIZE if a field is over its limit; the message names the field.
template <typename Message>
Result<void> check_limits(const Message& message);

// As encode(), for a WriteRequest or Payload whose payload consists of several parts in memory.
template <typename Message>
std::vector<std::byte> encode_scattered(const Message& message, std::uint64_t tag,
                                        std::span<const std::span<const std::byte>> parts, bool checksum);

// kProtocol unless `body` is exactly one valid Message; the text names the wrong field. `header` is the frame's header.
template <typename Message>
Result<Message> decode(const Header& header, std::span<const std::byte> body);

// A reply that reports a failure of any type of request. Texts are truncated to kMaxMessage bytes.
std::vector<std::byte> encode_failure(Type type, std::uint64_t tag, const ReplyHead& head);
// The head of a reply of any type.
Result<ReplyHead> decode_head(std::span<const std::byte> body);

// The largest payload, in bytes, that the reply to this request can have; 0 for all but reads. Reads the extents
// without checking the request: for a malformed one the result is arbitrary, but at most kMaxPayload.
Bytes reply_payload(const Header& header, std::span<const std::byte> body);

Bytes total(std::span<const Extent> extents);

// kInvalid with the reason if it is not a path as described in message.h. Decoders use the same check.
Result<void> check_path(std::string_view path);
// One component: not empty, not "." or "..", at most 255 bytes, neither '/' nor NUL.
Result<void> check_name(std::string_view name);

// Converts between the head of a failed reply and an Error.
Error to_error(const ReplyHead& head);
ReplyHead to_head(const Error& error);

}  // namespace tutti::wire
