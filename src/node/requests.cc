// SPDX-License-Identifier: Apache-2.0
#include "node/requests.h"

#include <fmt/format.h>

namespace tutti::node {
namespace {

using Kind = ClientRequest::Kind;
using RequestPointer = std::unique_ptr<ClientRequest>;

RequestPointer with_head(Kind kind, const wire::Header& header, wire::DataHead head) {
  auto request = std::make_unique<ClientRequest>();
  request->kind = kind;
  request->tag = header.tag;
  request->target = head.target;
  request->stripe_log2 = std::min<std::uint8_t>(head.stripe_log2, Request::kMostStripeLog2 + 1);
  request->stripe_count = head.stripe_count;
  request->stamp = head.stamp;
  request->sent_deadline = head.deadline;
  request->reference = std::move(head.file);
  return request;
}

void add_extents(ClientRequest& request, const wire::Extents& extents) {
  request.extents.reserve(extents.size());
  for (const wire::Extent& extent : extents) {
    request.extents.push_back({&request, 0, extent.offset, static_cast<std::uint32_t>(extent.length), 0,
                               static_cast<std::uint32_t>(request.total)});
    request.total += extent.length;
  }
}

Result<RequestPointer> decode_read(const net::Incoming& message) {
  auto decoded = wire::decode<wire::ReadRequest>(message.header, message.body);
  if (!decoded) return Failure(decoded.error());
  auto request = with_head(Kind::kRead, message.header, std::move(decoded->data));
  request->checksum = decoded->checksum;
  add_extents(*request, decoded->extents);
  return request;
}

Result<RequestPointer> decode_write(net::Incoming& message) {
  auto decoded = wire::decode<wire::WriteRequest>(message.header, message.body);
  if (!decoded) return Failure(decoded.error());
  auto request = with_head(Kind::kWrite, message.header, std::move(decoded->data));
  add_extents(*request, decoded->extents);
  if (decoded->on_request) {
    request->payload = PayloadState::kAbsent;
    request->sent_deadline = {};  // that of the payload counts
    return request;
  }
  if (request->total != message.payload.size())
    return fail(ErrorCode::kProtocol, fmt::format("write: the extents have {} bytes, the payload has {}",
                                                  request->total, message.payload.size()));
  request->memory = std::move(message.payload);
  request->pages = std::move(message.pages);
  request->pages_at = message.pages_at;
  if (request->extents.size() > 1) request->copy_pages();  // the extents become separate engine operations
  return request;
}

Result<RequestPointer> decode_copy(const net::Incoming& message) {
  auto decoded = wire::decode<wire::CopyRequest>(message.header, message.body);
  if (!decoded) return Failure(decoded.error());
  auto request = with_head(Kind::kCopy, message.header, std::move(decoded->data));
  request->source_reference = std::move(decoded->source);
  request->source_offset = decoded->source_offset;
  add_extents(*request, {decoded->range});
  return request;
}

Result<RequestPointer> decode_sync(const net::Incoming& message) {
  auto decoded = wire::decode<wire::FsyncRequest>(message.header, message.body);
  if (!decoded) return Failure(decoded.error());
  return with_head(Kind::kSync, message.header, std::move(decoded->data));
}

Result<RequestPointer> decode_truncate(const net::Incoming& message) {
  auto decoded = wire::decode<wire::TruncateRequest>(message.header, message.body);
  if (!decoded) return Failure(decoded.error());
  auto request = with_head(Kind::kTruncate, message.header, std::move(decoded->data));
  request->size = decoded->size;
  return request;
}

Result<RequestPointer> decode_stat(const net::Incoming& message) {
  auto decoded = wire::decode<wire::StatRequest>(message.header, message.body);
  if (!decoded) return Failure(decoded.error());
  return with_head(Kind::kStat, message.header, {.file = std::move(decoded->file)});
}

}  // namespace

bool is_data(wire::Type type) {
  switch (type) {
    case wire::Type::kRead:
    case wire::Type::kWrite:
    case wire::Type::kCopy:
    case wire::Type::kFsync:
    case wire::Type::kTruncate:
    case wire::Type::kStat:
      return true;
    default:
      return false;
  }
}

Result<std::unique_ptr<ClientRequest>> decode_client_request(net::Incoming message) {
  switch (message.header.type) {
    case wire::Type::kRead:
      return decode_read(message);
    case wire::Type::kWrite:
      return decode_write(message);
    case wire::Type::kCopy:
      return decode_copy(message);
    case wire::Type::kFsync:
      return decode_sync(message);
    case wire::Type::kTruncate:
      return decode_truncate(message);
    case wire::Type::kStat:
      return decode_stat(message);
    default:
      return fail(ErrorCode::kProtocol, "not a data message");
  }
}

}  // namespace tutti::node
