// SPDX-License-Identifier: Apache-2.0
#include "node/job.h"

#include <cerrno>
#include <cstring>

#include "wire/codec.h"

namespace tutti::node {
namespace {

// The payload of a read holds what was read of each extent one after another: what follows a short one moves up.
std::vector<std::uint32_t> close_gaps(Job& job) {
  std::vector<std::uint32_t> lengths;
  lengths.reserve(job.pieces.size());
  std::size_t end = 0;
  for (const Piece& piece : job.pieces) {
    if (piece.at != end && piece.moved > 0)
      std::memmove(job.memory.data() + end, job.memory.data() + piece.at, piece.moved);
    end += piece.moved;
    lengths.push_back(piece.moved);
  }
  job.memory.resize(end);
  return lengths;
}

net::Outgoing read_reply(Job& job) {
  wire::ReadReply message{.head = job.head, .lengths = close_gaps(job)};
  if (job.memory.empty()) return {.frame = wire::encode(message, {.tag = job.tag})};
  net::Outgoing out;
  out.frame = wire::encode(message, {.tag = job.tag, .payload = job.memory.span(), .checksum = job.checksum});
  if (job.pages.size() > 0)
    out.pages = std::move(job.pages);
  else
    out.payload = std::move(job.memory);
  return out;
}

net::Outgoing make_reply(Job& job) {
  if (job.head.status != wire::kOk) return {.frame = wire::encode_failure(job.type(), job.tag, job.head)};
  const wire::Envelope envelope{.tag = job.tag};
  switch (job.kind) {
    case Job::Kind::kRead:
      return read_reply(job);
    case Job::Kind::kWrite:
      return {.frame = wire::encode(wire::WriteReply{job.head, job.total}, envelope)};
    case Job::Kind::kSync:
      return {.frame = wire::encode(wire::FsyncRequest::Reply{job.head}, envelope)};
    case Job::Kind::kTruncate:
      return {.frame = wire::encode(wire::TruncateRequest::Reply{job.head}, envelope)};
    case Job::Kind::kStat:
      break;  // answered by the namespace
  }
  return {};
}

}  // namespace

wire::Type Job::type() const {
  switch (kind) {
    case Kind::kRead:
      return wire::Type::kRead;
    case Kind::kWrite:
      return wire::Type::kWrite;
    case Kind::kSync:
      return wire::Type::kFsync;
    case Kind::kTruncate:
      return wire::Type::kTruncate;
    case Kind::kStat:
      return wire::Type::kStat;
  }
  return wire::Type::kRead;
}

void Job::gather() {
  if (kind != Kind::kWrite || !pages.is_open()) return;
  if (!pages.read(memory.span().subspan(pages_at, pages.left()))) fail(EIO, "the payload was lost on its way");
  pages = {};
}

void reply(Job& job) {
  job.connection->send(make_reply(job));
}

}  // namespace tutti::node
