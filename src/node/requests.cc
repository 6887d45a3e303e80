// SPDX-License-Identifier: Apache-2.0
#include "node/requests.h"

#include <fmt/format.h>

namespace tutti::node {
namespace {

DataRequest with_head(Job::Kind kind, const wire::Header& header, wire::DataHead head) {
  auto job = std::make_unique<Job>();
  job->kind = kind;
  job->tag = header.tag;
  job->target = head.target;
  job->stamp = head.stamp;
  job->deadline = head.deadline;
  return {std::move(job), std::move(head.file)};
}

void add_pieces(Job& job, const std::vector<wire::Extent>& extents) {
  job.pieces.reserve(extents.size());
  for (const wire::Extent& extent : extents) {
    job.pieces.push_back(
        {&job, extent.offset, static_cast<std::uint32_t>(extent.length), 0, static_cast<std::uint32_t>(job.total)});
    job.total += extent.length;
  }
}

Result<DataRequest> read_job(const net::Incoming& message) {
  auto request = wire::decode<wire::ReadRequest>(message.header, message.body);
  if (!request) return Failure(request.error());
  DataRequest made = with_head(Job::Kind::kRead, message.header, std::move(request->data));
  made.job->checksum = request->checksum;
  add_pieces(*made.job, request->extents);
  return made;
}

Result<DataRequest> write_job(net::Incoming& message) {
  auto request = wire::decode<wire::WriteRequest>(message.header, message.body);
  if (!request) return Failure(request.error());
  DataRequest made = with_head(Job::Kind::kWrite, message.header, std::move(request->data));
  add_pieces(*made.job, request->extents);
  if (made.job->total != message.payload.size())
    return fail(ErrorCode::kProtocol, fmt::format("write: the extents hold {} bytes, the payload {}", made.job->total,
                                                  message.payload.size()));
  made.job->memory = std::move(message.payload);
  made.job->pages = std::move(message.pages);
  made.job->pages_at = message.pages_at;
  if (made.job->pieces.size() > 1) made.job->gather();  // they go their ways one by one
  return made;
}

Result<DataRequest> sync_job(const net::Incoming& message) {
  auto request = wire::decode<wire::FsyncRequest>(message.header, message.body);
  if (!request) return Failure(request.error());
  return with_head(Job::Kind::kSync, message.header, std::move(request->data));
}

Result<DataRequest> truncate_job(const net::Incoming& message) {
  auto request = wire::decode<wire::TruncateRequest>(message.header, message.body);
  if (!request) return Failure(request.error());
  DataRequest made = with_head(Job::Kind::kTruncate, message.header, std::move(request->data));
  made.job->size = request->size;
  return made;
}

Result<DataRequest> stat_job(const net::Incoming& message) {
  auto request = wire::decode<wire::StatRequest>(message.header, message.body);
  if (!request) return Failure(request.error());
  wire::DataHead head;
  head.file = std::move(request->file);
  DataRequest made = with_head(Job::Kind::kStat, message.header, std::move(head));
  made.job->path = made.file.path;
  return made;
}

}  // namespace

bool is_data(wire::Type type) {
  switch (type) {
    case wire::Type::kRead:
    case wire::Type::kWrite:
    case wire::Type::kFsync:
    case wire::Type::kTruncate:
    case wire::Type::kStat:
      return true;
    default:
      return false;
  }
}

Result<DataRequest> to_job(net::Incoming message) {
  switch (message.header.type) {
    case wire::Type::kRead:
      return read_job(message);
    case wire::Type::kWrite:
      return write_job(message);
    case wire::Type::kFsync:
      return sync_job(message);
    case wire::Type::kTruncate:
      return truncate_job(message);
    case wire::Type::kStat:
      return stat_job(message);
    default:
      return fail(ErrorCode::kProtocol, "not a request for data");
  }
}

}  // namespace tutti::node
