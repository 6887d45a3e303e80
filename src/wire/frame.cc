// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

namespace tutti::wire {
namespace {

static_assert(std::endian::native == std::endian::little,
              "integers are copied as they are in memory, and the wire format is little-endian");

constexpr char kUnknown[] = "unknown";
constexpr std::uint32_t kPayloadChecksumFlag = 1;
constexpr std::size_t kChecksumAt = kHeaderSize - 4;

// magic 0, version 4, type 6, tag 8, body length 16, payload length 20, payload checksum 24, flags 32,
// body checksum 36, lead 40, header checksum 44.
template <typename Integer>
void put(HeaderBytes& bytes, std::size_t at, Integer value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <typename Integer>
Integer get(std::span<const std::byte, kHeaderSize> bytes, std::size_t at) {
  Integer value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::uint32_t short_checksum(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(XXH3_64bits(bytes.data(), bytes.size()));
}

Result<void> check_fields(const Header& header, std::uint32_t flags) {
  if (!known(header.type)) {
    return fail(ErrorCode::kProtocol, fmt::format("unknown message type {}", static_cast<unsigned>(header.type)));
  }
  if (flags > kPayloadChecksumFlag) {
    return fail(ErrorCode::kProtocol, fmt::format("unknown flags {:#x} in a message header", flags));
  }
  if (header.body_length > kMaxBody) {
    return fail(ErrorCode::kProtocol,
                fmt::format("a body of {} bytes is over the limit of {}", header.body_length, kMaxBody));
  }
  if (header.payload_length > kMaxPayload) {
    return fail(ErrorCode::kProtocol,
                fmt::format("a payload of {} bytes is over the limit of {}", header.payload_length, kMaxPayload));
  }
  if (!header.has_payload_checksum && header.payload_checksum != 0) {
    return fail(ErrorCode::kProtocol, "a message header has a payload checksum without its flag");
  }
  if (header.lead >= kPage || header.lead > header.payload_length) {
    return fail(ErrorCode::kProtocol,
                fmt::format("a message header has {} bytes before the pages of a payload of {} bytes", header.lead,
                            header.payload_length));
  }
  return {};
}

}  // namespace

HeaderBytes encode_header(const Header& header) {
  HeaderBytes bytes{};
  const auto type = static_cast<std::uint16_t>(header.type);
  put(bytes, 0, kMagic);
  put(bytes, 4, kVersion);
  put(bytes, 6, static_cast<std::uint16_t>(header.reply ? type | kReplyBit : type));
  put(bytes, 8, header.tag);
  put(bytes, 16, header.body_length);
  put(bytes, 20, header.payload_length);
  put(bytes, 24, header.payload_checksum);
  put(bytes, 32, header.has_payload_checksum ? kPayloadChecksumFlag : std::uint32_t{0});
  put(bytes, 36, header.body_checksum);
  put(bytes, 40, header.lead);
  put(bytes, kChecksumAt, short_checksum(std::span(bytes).first(kChecksumAt)));
  return bytes;
}

Result<Header> decode_header(std::span<const std::byte, kHeaderSize> bytes) {
  if (get<std::uint32_t>(bytes, 0) != kMagic) {
    return fail(ErrorCode::kProtocol, "not a Tutti message: the magic number is missing");
  }
  if (const auto version = get<std::uint16_t>(bytes, 4); version != kVersion) {
    return fail(ErrorCode::kProtocol,
                fmt::format("the peer uses version {} of the protocol, this side version {}", version, kVersion));
  }
  if (get<std::uint32_t>(bytes, kChecksumAt) != short_checksum(bytes.first(kChecksumAt))) {
    return fail(ErrorCode::kProtocol, "a message header has a wrong checksum");
  }
  const auto type = get<std::uint16_t>(bytes, 6);
  const auto flags = get<std::uint32_t>(bytes, 32);
  Header header;
  header.type = static_cast<Type>(type & ~kReplyBit);
  header.reply = (type & kReplyBit) != 0;
  header.has_payload_checksum = (flags & kPayloadChecksumFlag) != 0;
  header.tag = get<std::uint64_t>(bytes, 8);
  header.body_length = get<std::uint32_t>(bytes, 16);
  header.payload_length = get<std::uint32_t>(bytes, 20);
  header.payload_checksum = get<std::uint64_t>(bytes, 24);
  header.body_checksum = get<std::uint32_t>(bytes, 36);
  header.lead = get<std::uint32_t>(bytes, 40);
  if (auto fine = check_fields(header, flags); !fine) return Failure(fine.error());
  return header;
}

std::uint32_t body_checksum(std::span<const std::byte> body) {
  return short_checksum(body);
}

std::uint64_t payload_checksum(std::span<const std::byte> payload) {
  return XXH3_64bits(payload.data(), payload.size());
}

Result<void> check_body(const Header& header, std::span<const std::byte> body) {
  if (body.size() == header.body_length && body_checksum(body) == header.body_checksum) return {};
  return fail(ErrorCode::kProtocol, fmt::format("the body of a {} message has a wrong checksum", name(header.type)));
}

std::uint64_t payload_checksum(std::span<const std::span<const std::byte>> parts) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& part : parts) XXH3_64bits_update(&state, part.data(), part.size());
  return XXH3_64bits_digest(&state);
}

Result<void> check_payload(const Header& header, std::span<const std::byte> payload) {
  return check_payload(header, std::span(&payload, 1));
}

Result<void> check_payload(const Header& header, std::span<const std::span<const std::byte>> parts) {
  std::size_t size = 0;
  for (const auto& part : parts) size += part.size();
  if (size != header.payload_length) {
    return fail(ErrorCode::kProtocol,
                fmt::format("a payload has {} bytes, its header says {}", size, header.payload_length));
  }
  if (!header.has_payload_checksum || payload_checksum(parts) == header.payload_checksum) return {};
  return fail(ErrorCode::kProtocol, fmt::format("the payload of a {} message has a wrong checksum", name(header.type)));
}

std::uint32_t lead_of(const std::byte* memory) {
  return static_cast<std::uint32_t>(-reinterpret_cast<std::uintptr_t>(memory) % kPage);
}

std::uint64_t frame_tag(std::span<const std::byte> frame) {
  return get<std::uint64_t>(frame.first<kHeaderSize>(), 8);
}

Type frame_type(std::span<const std::byte> frame) {
  return static_cast<Type>(get<std::uint16_t>(frame.first<kHeaderSize>(), 6) & ~kReplyBit);
}

const char* name(Type type) {
  switch (type) {
#define TUTTI_WIRE_TYPE(Name, number, text) \
  case Type::k##Name:                       \
    return text;
    TUTTI_WIRE_TYPES(TUTTI_WIRE_TYPE, TUTTI_WIRE_TYPE)
#undef TUTTI_WIRE_TYPE
  }
  return kUnknown;
}

bool known(Type type) {
  return name(type) != kUnknown;
}

}  // namespace tutti::wire
