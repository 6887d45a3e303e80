// SPDX-License-Identifier: Apache-2.0
// Messages to bytes and back.
//
//   std::vector<std::byte> frame = wire::encode(wire::LookupRequest{.path = "a/b"}, {.tag = 7});
//   ...
//   Result<wire::LookupRequest> request = wire::decode<wire::LookupRequest>(header, body);
//
// Decoders are strict: every length and range is checked, every byte must be used. What they accept, encoders
// reproduce byte for byte.
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
  std::span<const std::byte> payload{};  // sent after the frame; only its length and checksum go into the header
  bool checksum = false;                 // of the payload
};

// The header and the body, to be sent together, followed by the payload if there is one.
// The message must respect the limits of messages.h (asserted).
template <typename Message>
std::vector<std::byte> encode(const Message& message, const Envelope& envelope);

// The same for a payload that lies in several places.
std::vector<std::byte> encode_scattered(const WriteRequest& message, std::uint64_t tag,
                                        std::span<const std::span<const std::byte>> parts, bool checksum);

// kProtocol, with the field at fault, unless `body` is exactly one such message. `header` is the frame's own.
template <typename Message>
Result<Message> decode(const Header& header, std::span<const std::byte> body);

// A reply that only says that the request failed, for any type of request.
std::vector<std::byte> encode_failure(Type type, std::uint64_t tag, const ReplyHead& head);
// The head of any reply, whatever follows it.
Result<ReplyHead> decode_head(std::span<const std::byte> body);

// Bytes of payload that the reply to this request can bring; 0 for all but reads. kProtocol as decode.
Result<Bytes> reply_payload(const Header& header, std::span<const std::byte> body);

Bytes total(std::span<const Extent> extents);

// kInvalid with the reason, unless it is a path as messages.h describes. The same check as the decoders'.
Result<void> check_path(std::string_view path);
// One component: not empty, not "." or "..", at most 255 bytes, neither '/' nor NUL.
Result<void> check_name(std::string_view name);

// An Error for a failed reply, and a ReplyHead for an Error.
Error to_error(const ReplyHead& head);
ReplyHead to_head(const Error& error);

}  // namespace tutti::wire
