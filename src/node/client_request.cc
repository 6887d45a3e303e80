// SPDX-License-Identifier: Apache-2.0
#include "node/client_request.h"

#include <cerrno>
#include <cstring>

#include "wire/codec.h"

namespace tutti::node {
namespace {

using Kind = ClientRequest::Kind;

// The payload of a read reply has no gaps: data after an extent that was read in part is moved forward.
wire::Lengths close_gaps(ClientRequest& request) {
  wire::Lengths lengths;
  lengths.reserve(request.extents.size());
  std::size_t end = 0;
  for (const RequestExtent& extent : request.extents) {
    if (extent.memory_at != end && extent.moved > 0)
      std::memmove(request.memory.data() + end, request.memory.data() + extent.memory_at, extent.moved);
    end += extent.moved;
    lengths.push_back(extent.moved);
  }
  request.memory.resize(end);
  return lengths;
}

net::Outgoing read_reply(ClientRequest& request) {
  wire::ReadReply message{.head = request.head, .lengths = close_gaps(request)};
  if (request.memory.empty()) return {.frame = wire::encode(message, {.tag = request.tag})};
  net::Outgoing out;
  out.frame =
      wire::encode(message, {.tag = request.tag, .payload = request.memory.span(), .checksum = request.checksum});
  if (request.pages.size() > 0)
    out.pages = std::move(request.pages);
  else
    out.payload = std::move(request.memory);
  return out;
}

net::Outgoing make_reply(ClientRequest& request) {
  if (request.head.status != wire::kOk)
    return {.frame = wire::encode_failure(request.type(), request.tag, request.head)};
  const wire::Envelope envelope{.tag = request.tag};
  switch (request.kind) {
    case Kind::kRead:
      return read_reply(request);
    case Kind::kWrite:
      return {.frame = wire::encode(wire::WriteReply{request.head, request.total}, envelope)};
    case Kind::kCopy:
      return {.frame = wire::encode(wire::CopyReply{request.head, request.extents.front().moved}, envelope)};
    case Kind::kSync:
      return {.frame = wire::encode(wire::FsyncRequest::Reply{request.head}, envelope)};
    case Kind::kTruncate:
      return {.frame = wire::encode(wire::TruncateRequest::Reply{request.head}, envelope)};
    case Kind::kStat:
      break;  // NodeService::answer_stat() replies
  }
  return {};
}

}  // namespace

wire::Type ClientRequest::type() const {
  switch (kind) {
    case Kind::kRead:
      return wire::Type::kRead;
    case Kind::kWrite:
      return wire::Type::kWrite;
    case Kind::kCopy:
      return wire::Type::kCopy;
    case Kind::kSync:
      return wire::Type::kFsync;
    case Kind::kTruncate:
      return wire::Type::kTruncate;
    case Kind::kStat:
      return wire::Type::kStat;
  }
  return wire::Type::kRead;
}

void ClientRequest::copy_pages() {
  if (kind != Kind::kWrite || !pages.is_open()) return;
  if (!pages.read(memory.span().subspan(pages_at, pages.left()))) fail(EIO, "cannot read the payload from its pipe");
  pages = {};
}

void reply(ClientRequest& request) {
  request.connection->send(make_reply(request));
}

}  // namespace tutti::node
