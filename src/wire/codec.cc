// SPDX-License-Identifier: Apache-2.0
#include "wire/codec.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "wire/all_messages.h"
#include "wire/fields.h"

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
  return total(m.extents).count();
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

// Room for the header, then the body.
template <typename Message>
std::vector<std::byte> encode_body(const Message& message) {
  Writer writer;
  writer.out_.reserve(kHeaderSize + 192);
  writer.out_.resize(kHeaderSize);
  auto& fields_of = const_cast<Message&>(message);  // a Writer only reads
  if constexpr (IsReply<Message>) {
    fields(writer, fields_of.head);
    if (message.head.status == kOk) fields(writer, fields_of);
  } else {
    fields(writer, fields_of);
  }
  return std::move(writer.out_);
}

// Completes a frame whose body is there.
void put_header(Header& header, std::vector<std::byte>& frame) {
  const auto body = std::span(frame).subspan(kHeaderSize);
  assert(body.size() <= kMaxBody && header.payload_length <= kMaxPayload);
  header.body_length = static_cast<std::uint32_t>(body.size());
  header.body_checksum = body_checksum(body);
  const auto bytes = encode_header(header);
  std::memcpy(frame.data(), bytes.data(), bytes.size());
}

}  // namespace

template <typename Message>
std::vector<std::byte> encode(const Message& message, const Envelope& envelope) {
  auto frame = encode_body(message);
  Header header{.type = Message::kType, .reply = IsReply<Message>, .tag = envelope.tag};
  header.payload_length = static_cast<std::uint32_t>(envelope.payload.size());
  if (envelope.checksum && !envelope.payload.empty()) {
    header.has_payload_checksum = true;
    header.payload_checksum = payload_checksum(envelope.payload);
  }
  put_header(header, frame);
  return frame;
}

std::vector<std::byte> encode_scattered(const WriteRequest& message, std::uint64_t tag,
                                        std::span<const std::span<const std::byte>> parts, bool checksum) {
  auto frame = encode_body(message);
  Header header{.type = WriteRequest::kType, .tag = tag};
  for (const auto& part : parts) header.payload_length += static_cast<std::uint32_t>(part.size());
  if (parts.size() == 1) header.lead = std::min(lead_of(parts.front().data()), header.payload_length);
  header.has_payload_checksum = checksum && header.payload_length > 0;
  if (header.has_payload_checksum) header.payload_checksum = payload_checksum(parts);
  put_header(header, frame);
  return frame;
}

template <typename Message>
Result<Message> decode(const Header& header, std::span<const std::byte> body) {
  if (header.type != Message::kType || header.reply != IsReply<Message>) {
    return fail(ErrorCode::kProtocol,
                fmt::format("a {} message where a {} was expected", name(header.type), name(Message::kType)));
  }
  Message message;
  Reader reader(body);
  if constexpr (IsReply<Message>) {
    fields(reader, message.head);
    if (message.head.status == kOk) fields(reader, message);
  } else {
    fields(reader, message);
  }
  if (!reader.good()) return malformed(header.type, reader.error());
  if (!reader.finished()) return malformed(header.type, "bytes are left over");
  if (expected_payload(message) != header.payload_length) {
    return malformed(header.type, fmt::format("the payload has {} bytes where {} were expected", header.payload_length,
                                              expected_payload(message)));
  }
  return message;
}

std::vector<std::byte> encode_failure(Type type, std::uint64_t tag, const ReplyHead& head) {
  assert(head.status != kOk);
  auto frame = encode_body(PlainReply<Type::kFsync>{head});
  Header header{.type = type, .reply = true, .tag = tag};
  put_header(header, frame);
  return frame;
}

Result<ReplyHead> decode_head(std::span<const std::byte> body) {
  ReplyHead head;
  Reader reader(body);
  fields(reader, head);
  if (!reader.good()) return fail(ErrorCode::kProtocol, "malformed reply: " + reader.error());
  return head;
}

Result<Bytes> reply_payload(const Header& header, std::span<const std::byte> body) {
  if (header.type != Type::kRead || header.reply) return Bytes(0);
  auto request = decode<ReadRequest>(header, body);
  if (!request) return Failure(request.error());
  return total(request->extents);
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

// Both ways: the first line that fits.
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
  ReplyHead head{.status = error.system, .message = error.message.substr(0, kMaxMessage)};
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

#define TUTTI_WIRE_MESSAGE(Message)                                                 \
  template std::vector<std::byte> encode<Message>(const Message&, const Envelope&); \
  template Result<Message> decode<Message>(const Header&, std::span<const std::byte>);
TUTTI_WIRE_ALL_MESSAGES
#undef TUTTI_WIRE_MESSAGE

}  // namespace tutti::wire
