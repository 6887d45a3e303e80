// SPDX-License-Identifier: Apache-2.0
#include "wire/codec.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "wire/archive.h"

namespace tutti::wire {
namespace {

template <typename Message>
concept IsReply = requires(Message m) {
  m.head;
};

Failure malformed(Type type, std::string_view what) {
  return fail(ErrorCode::kProtocol, fmt::format("malformed {} message: {}", name(type), what));
}

std::uint64_t expected_payload(const WriteRequest& m) {
  return m.on_request ? 0 : total(m.extents).count();
}
std::uint64_t expected_payload(const ReadReply& m) {
  std::uint64_t sum = 0;
  for (auto length : m.lengths) sum += length;
  return sum;
}
template <typename Message>
std::uint64_t expected_payload(const Message&) {
  return 0;
}

// Space for the header, then the body. The writer's good() is false if a field is over its limit.
template <typename Message>
Writer encode_body(const Message& message) {
  Writer writer(kHeaderSize);
  auto& fields_of = const_cast<Message&>(message);  // a Writer only reads
  if constexpr (IsReply<Message>) {
    fields_of.head.fields(writer);
    if (message.head.status == kOk) fields_of.fields(writer);
  } else {
    fields_of.fields(writer);
  }
  if (writer.size() > kHeaderSize + kMaxBody) writer.overflow();
  return writer;
}

ReplyHead too_large(Type type, const Writer& writer) {
  return {.status = EMSGSIZE, .message = fmt::format("the {} message is too large: {}", name(type), writer.error())};
}

// Writes the header in front of a body that is complete.
void put_header(Header& header, std::vector<std::byte>& frame) {
  const auto body = std::span(frame).subspan(kHeaderSize);
  assert(header.payload_length <= kMaxPayload);
  header.body_length = static_cast<std::uint32_t>(body.size());
  header.body_checksum = body_checksum(body);
  const auto bytes = encode_header(header);
  std::memcpy(frame.data(), bytes.data(), bytes.size());
}

}  // namespace

template <typename Message>
std::vector<std::byte> encode(const Message& message, const Envelope& envelope) {
  auto writer = encode_body(message);
  if constexpr (IsReply<Message>) {
    if (!writer.good()) return encode_failure(Message::kType, envelope.tag, too_large(Message::kType, writer));
  }
  assert(writer.good());
  auto frame = writer.take();
  Header header{.type = Message::kType, .reply = IsReply<Message>, .tag = envelope.tag};
  header.payload_length = static_cast<std::uint32_t>(envelope.payload.size());
  if (envelope.checksum && !envelope.payload.empty()) {
    header.has_payload_checksum = true;
    header.payload_checksum = payload_checksum(envelope.payload);
  }
  put_header(header, frame);
  return frame;
}

template <typename Message>
Result<void> check_limits(const Message& message) {
  const auto writer = encode_body(message);
  if (writer.good()) return {};
  const auto head = too_large(Message::kType, writer);
  return fail(ErrorCode::kInvalid, head.message, head.status);
}

template <typename Message>
std::vector<std::byte> encode_scattered(const Message& message, std::uint64_t tag,
                                        std::span<const std::span<const std::byte>> parts, bool checksum) {
  auto writer = encode_body(message);
  assert(writer.good());
  auto frame = writer.take();
  Header header{.type = Message::kType, .tag = tag};
  for (const auto& part : parts) header.payload_length += static_cast<std::uint32_t>(part.size());
  if (parts.size() == 1) header.lead = std::min(lead_of(parts.front().data()), header.payload_length);
  header.has_payload_checksum = checksum && header.payload_length > 0;
  if (header.has_payload_checksum) header.payload_checksum = payload_checksum(parts);
  put_header(header, frame);
  return frame;
}
template std::vector<std::byte> encode_scattered(const WriteRequest&, std::uint64_t,
                                                 std::span<const std::span<const std::byte>>, bool);
template std::vector<std::byte> encode_scattered(const Payload&, std::uint64_t,
                                                 std::span<const std::span<const std::byte>>, bool);

template <typename Message>
Result<Message> decode(const Header& header, std::span<const std::byte> body) {
  if (header.type != Message::kType || header.reply != IsReply<Message>) {
    return fail(ErrorCode::kProtocol, fmt::format("a {} message arrived where a {} message was expected",
                                                  name(header.type), name(Message::kType)));
  }
  Message message;
  Reader reader(body);
  if constexpr (IsReply<Message>) {
    message.head.fields(reader);
    if (message.head.status == kOk) message.fields(reader);
  } else {
    message.fields(reader);
  }
  if (!reader.good()) return malformed(header.type, reader.error());
  if (!reader.finished()) return malformed(header.type, "bytes are left over");
  if (!std::is_same_v<Message, Payload> && expected_payload(message) != header.payload_length) {
    return malformed(header.type, fmt::format("the payload has {} bytes where {} were expected", header.payload_length,
                                              expected_payload(message)));
  }
  return message;
}

std::vector<std::byte> encode_failure(Type type, std::uint64_t tag, const ReplyHead& head) {
  assert(head.status != kOk);
  PlainReply<Type::kFsync> reply{head};
  if (reply.head.message.size() > kMaxMessage) reply.head.message.resize(kMaxMessage);
  auto frame = encode_body(reply).take();
  Header header{.type = type, .reply = true, .tag = tag};
  put_header(header, frame);
  return frame;
}

Result<ReplyHead> decode_head(std::span<const std::byte> body) {
  ReplyHead head;
  Reader reader(body);
  head.fields(reader);
  if (!reader.good()) return fail(ErrorCode::kProtocol, "malformed reply: " + reader.error());
  return head;
}

Bytes reply_payload(const Header& header, std::span<const std::byte> body) {
  static const std::size_t smallest = encode_body(ReadRequest{}).size() - kHeaderSize;  // no path, no extents
  if (header.type != Type::kRead || header.reply || body.size() < smallest) return Bytes(0);
  const auto at = [&](std::size_t offset, auto value) {
    std::memcpy(&value, body.data() + offset, sizeof value);
    return value;
  };
  const std::size_t path = at(sizeof FileReference::key, std::uint32_t{0});
  std::uint64_t sum = 0;
  for (std::size_t extent = smallest + path; extent + sizeof(Extent) <= body.size(); extent += sizeof(Extent))
    sum += std::min<std::uint64_t>(at(extent + offsetof(Extent, length), std::uint64_t{0}), kMaxPayload);
  return Bytes(std::min<std::uint64_t>(sum, kMaxPayload));
}

Bytes total(std::span<const Extent> extents) {
  Bytes sum;
  for (const auto& extent : extents) sum += Bytes(extent.length);
  return sum;
}

Result<void> check_name(std::string_view name) {
  if (name.empty()) return fail(ErrorCode::kInvalid, "has an empty name");
  if (name.size() > kMaxName) return fail(ErrorCode::kInvalid, "has a name of more than 255 bytes");
  if (name == "." || name == "..") return fail(ErrorCode::kInvalid, fmt::format("has the name \"{}\"", name));
  if (name.find('/') != name.npos) return fail(ErrorCode::kInvalid, "has a '/' in a name");
  if (name.find('\0') != name.npos) return fail(ErrorCode::kInvalid, "contains a NUL byte");
  return {};
}

Result<void> check_path(std::string_view path) {
  if (path.empty()) return {};
  if (path.size() > kMaxPath) return fail(ErrorCode::kInvalid, "has more than 4096 bytes");
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find('/', at), path.size());
    if (auto fine = check_name(path.substr(at, end - at)); !fine) return fine;
    at = end + 1;
  }
  return {};
}

namespace {

struct CodePair {
  ErrorCode code;
  std::int32_t status;
};

// Used in both directions; the first matching entry counts.
constexpr CodePair kCodes[] = {
    {ErrorCode::kInvalid, EINVAL},    {ErrorCode::kNotFound, ENOENT},      {ErrorCode::kDuplicate, EEXIST},
    {ErrorCode::kFull, EAGAIN},       {ErrorCode::kStopped, kStopping},    {ErrorCode::kDenied, EACCES},
    {ErrorCode::kDenied, EPERM},      {ErrorCode::kUnreachable, ENOTCONN}, {ErrorCode::kTimeout, kExpired},
    {ErrorCode::kTimeout, ETIMEDOUT}, {ErrorCode::kProtocol, kMalformed},  {ErrorCode::kIo, EIO},
};

}  // namespace

Error to_error(const ReplyHead& head) {
  Error error{ErrorCode::kIo, head.message, head.status < kUnknownFile ? head.status : 0};
  for (const auto& [code, status] : kCodes) {
    if (status == head.status) {
      error.code = code;
      break;
    }
  }
  if (error.message.empty()) {
    error.message = error.system != 0 ? std::strerror(error.system) : fmt::format("status {}", head.status);
  }
  return error;
}

ReplyHead to_head(const Error& error) {
  ReplyHead head{.status = error.system, .message = error.message};
  if (head.status > 0) return head;
  head.status = EIO;
  for (const auto& [code, status] : kCodes) {
    if (code == error.code) {
      head.status = status;
      break;
    }
  }
  return head;
}

#define TUTTI_WIRE_INSTANTIATE(Message)                                             \
  template std::vector<std::byte> encode<Message>(const Message&, const Envelope&); \
  template Result<void> check_limits<Message>(const Message&);                      \
  template Result<Message> decode<Message>(const Header&, std::span<const std::byte>);
#define TUTTI_WIRE_REQUEST(Name, number, text) \
  TUTTI_WIRE_INSTANTIATE(Name##Request)        \
  TUTTI_WIRE_INSTANTIATE(Name##Request::Reply)
#define TUTTI_WIRE_MESSAGE(Name, number, text) TUTTI_WIRE_INSTANTIATE(Name)
TUTTI_WIRE_TYPES(TUTTI_WIRE_REQUEST, TUTTI_WIRE_MESSAGE)

}  // namespace tutti::wire
