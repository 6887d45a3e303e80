// SPDX-License-Identifier: Apache-2.0
#include "node/namespace_service.h"

#include <unistd.h>

#include <algorithm>

namespace tutti::node {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

// Times outside the years 1678 to 2262 do not fit into a TimePoint; they are clamped.
TimePoint to_time(const timespec& time) {
  constexpr auto kMost = std::chrono::floor<seconds>(Duration::max()) - seconds(1);
  return TimePoint(std::clamp(seconds(time.tv_sec), -kMost, kMost) + nanoseconds(time.tv_nsec));
}

timespec to_timespec(TimePoint time) {
  const auto whole = std::chrono::floor<seconds>(time.time_since_epoch());
  return {whole.count(), (time.time_since_epoch() - whole).count()};
}

int to_access(std::uint8_t rights) {
  return (rights & wire::kMayRead ? R_OK : 0) | (rights & wire::kMayWrite ? W_OK : 0) |
         (rights & wire::kMayExecute ? X_OK : 0);
}

FileSystem::Links to_links(bool follow) {
  return follow ? FileSystem::Links::kFollow : FileSystem::Links::kStop;
}

// One overload of `perform` per request. It returns the fields of the reply after its head.
using Context = NamespaceContext;

template <typename Reply>
Result<Reply> attributes_reply(const Result<struct stat>& status) {
  if (!status) return Failure(status.error());
  return Reply{{}, to_attributes(*status)};
}
template <typename Reply>
Result<Reply> attributes_reply(const Result<FileStat>& status) {
  if (!status) return Failure(status.error());
  return Reply{{}, to_attributes(*status, status->generation)};
}

template <typename Reply>
Result<Reply> plain_reply(const Result<void>& done) {
  if (!done) return Failure(done.error());
  return Reply{};
}

auto perform(const Context& on, const wire::LookupRequest& request) {
  return attributes_reply<wire::LookupRequest::Reply>(
      on.root.look_up(on.caller, request.path, to_links(request.follow), to_access(request.access)));
}

auto perform(const Context& on, const wire::CreateRequest& request) {
  return attributes_reply<wire::CreateRequest::Reply>(on.root.create(on.change(request.deadline), request.path,
                                                                     {.mode = request.mode,
                                                                      .exclusive = request.exclusive,
                                                                      .truncate = request.truncate,
                                                                      .access = to_access(request.access)}));
}

auto perform(const Context& on, const wire::MakeDirectoryRequest& request) {
  return attributes_reply<wire::MakeDirectoryRequest::Reply>(
      on.root.make_directory(on.change(request.deadline), request.path, request.mode));
}

// The reply must fit into a body, even if the client asks for more entries.
Result<wire::ReadDirectoryReply> perform(const Context& on, const wire::ReadDirectoryRequest& request) {
  const auto fitting = request.attributes ? wire::kMaxEntriesWithAttributes : wire::kMaxEntries;
  const auto most = std::clamp<std::size_t>(request.most, 1, fitting);
  auto listing = on.root.list(on.caller, request.path, {.cursor = request.cursor, .most = most});
  if (!listing) return Failure(listing.error());
  wire::ReadDirectoryReply reply{.end = listing->end, .attributes = request.attributes};
  for (FileSystem::Entry& entry : listing->entries) {
    wire::DirectoryEntry to_send{std::move(entry.name), entry.inode, entry.type, entry.cursor};
    if (request.attributes) {
      const std::string path = request.path.empty() ? to_send.name : request.path + "/" + to_send.name;
      const auto found = on.root.look_up(on.caller, path, FileSystem::Links::kStop, 0);
      if (found) to_send.attributes = to_attributes(*found, found->generation);
    }
    reply.entries.push_back(std::move(to_send));
  }
  return reply;
}

auto perform(const Context& on, const wire::RenameRequest& request) {
  return plain_reply<wire::RenameRequest::Reply>(
      on.root.rename(on.change(request.deadline), {request.from, request.to, request.flags}));
}

auto perform(const Context& on, const wire::UnlinkRequest& request) {
  return plain_reply<wire::UnlinkRequest::Reply>(on.root.unlink(on.change(request.deadline), request.path));
}

auto perform(const Context& on, const wire::SyncDirectoryRequest& request) {
  return plain_reply<wire::SyncDirectoryRequest::Reply>(on.root.sync_directory(on.caller, request.path));
}

auto perform(const Context& on, const wire::RemoveDirectoryRequest& request) {
  return plain_reply<wire::RemoveDirectoryRequest::Reply>(
      on.root.remove_directory(on.change(request.deadline), request.path));
}

auto perform(const Context& on, const wire::SetAttributesRequest& request) {
  using Mask = wire::SetAttributesRequest::Mask;
  FileSystem::Changes changes;
  if (request.mask & Mask::kMode) changes.mode = request.mode;
  if (request.mask & Mask::kOwner) changes.uid = request.uid;
  if (request.mask & Mask::kGroup) changes.gid = request.gid;
  if (request.mask & Mask::kAccessed) changes.accessed = to_timespec(request.accessed);
  if (request.mask & Mask::kModified) changes.modified = to_timespec(request.modified);
  return attributes_reply<wire::SetAttributesRequest::Reply>(
      on.root.change(on.change(request.deadline), request.path, to_links(request.follow), changes));
}

auto perform(const Context& on, const wire::SymlinkRequest& request) {
  return attributes_reply<wire::SymlinkRequest::Reply>(
      on.root.symlink(on.change(request.deadline), request.path, request.target));
}

Result<wire::ReadLinkReply> perform(const Context& on, const wire::ReadLinkRequest& request) {
  auto target = on.root.read_link(on.caller, request.path);
  if (!target) return Failure(target.error());
  return wire::ReadLinkReply{{}, std::move(*target)};
}

auto perform(const Context& on, const wire::LinkRequest& request) {
  return attributes_reply<wire::LinkRequest::Reply>(
      on.root.link(on.change(request.deadline), {request.from, request.to, 0}));
}

Result<wire::GetXattrReply> perform(const Context& on, const wire::GetXattrRequest& request) {
  auto value = on.root.get_attribute(on.caller, request.path, request.attribute);
  if (!value) return Failure(value.error());
  return wire::GetXattrReply{{}, std::move(*value)};
}

auto perform(const Context& on, const wire::SetXattrRequest& request) {
  return plain_reply<wire::SetXattrRequest::Reply>(on.root.set_attribute(
      on.change(request.deadline), request.path, {request.attribute, request.value, static_cast<int>(request.flags)}));
}

Result<wire::ListXattrReply> perform(const Context& on, const wire::ListXattrRequest& request) {
  auto names = on.root.list_attributes(on.caller, request.path);
  if (!names) return Failure(names.error());
  return wire::ListXattrReply{{}, std::move(*names)};
}

auto perform(const Context& on, const wire::RemoveXattrRequest& request) {
  return plain_reply<wire::RemoveXattrRequest::Reply>(
      on.root.remove_attribute(on.change(request.deadline), request.path, request.attribute));
}

Result<wire::StatFsReply> perform(const Context& on, const wire::StatFsRequest&) {
  auto usage = on.root.usage();
  if (!usage) return Failure(usage.error());
  return wire::StatFsReply{
      {}, usage->f_frsize, usage->f_blocks, usage->f_bfree, usage->f_bavail, usage->f_files, usage->f_ffree};
}

template <typename Message>
std::vector<std::byte> answer(const Context& on, const wire::Header& header, std::span<const std::byte> body) {
  const auto request = wire::decode<Message>(header, body);
  if (!request) return wire::encode_failure(header.type, header.tag, wire::to_head(request.error()));
  const TimePoint begin = on.clock.steady();
  auto reply = perform(on, *request);
  const TimePoint end = on.clock.steady();
  wire::ReplyHead head;
  if (!reply) head = wire::to_head(reply.error());
  head.timing.engine = end - begin;
  head.now = end;
  if (!reply) return wire::encode_failure(header.type, header.tag, head);
  reply->head = std::move(head);
  return wire::encode(*reply, {.tag = header.tag});
}

}  // namespace

wire::Attributes to_attributes(const struct stat& status, std::uint64_t generation) {
  return {.inode = status.st_ino,
          .generation = generation,
          .mode = status.st_mode,
          .links = static_cast<std::uint32_t>(status.st_nlink),
          .uid = status.st_uid,
          .gid = status.st_gid,
          .size = static_cast<std::uint64_t>(status.st_size),
          .blocks = static_cast<std::uint64_t>(status.st_blocks),
          .device = status.st_rdev,
          .accessed = to_time(status.st_atim),
          .modified = to_time(status.st_mtim),
          .changed = to_time(status.st_ctim)};
}

std::vector<std::byte> answer_namespace(const NamespaceContext& on, const wire::Header& header,
                                        std::span<const std::byte> body) {
  switch (header.type) {
    case wire::Type::kLookup:
      return answer<wire::LookupRequest>(on, header, body);
    case wire::Type::kCreate:
      return answer<wire::CreateRequest>(on, header, body);
    case wire::Type::kMakeDirectory:
      return answer<wire::MakeDirectoryRequest>(on, header, body);
    case wire::Type::kReadDirectory:
      return answer<wire::ReadDirectoryRequest>(on, header, body);
    case wire::Type::kRename:
      return answer<wire::RenameRequest>(on, header, body);
    case wire::Type::kUnlink:
      return answer<wire::UnlinkRequest>(on, header, body);
    case wire::Type::kSyncDirectory:
      return answer<wire::SyncDirectoryRequest>(on, header, body);
    case wire::Type::kRemoveDirectory:
      return answer<wire::RemoveDirectoryRequest>(on, header, body);
    case wire::Type::kSetAttributes:
      return answer<wire::SetAttributesRequest>(on, header, body);
    case wire::Type::kSymlink:
      return answer<wire::SymlinkRequest>(on, header, body);
    case wire::Type::kReadLink:
      return answer<wire::ReadLinkRequest>(on, header, body);
    case wire::Type::kLink:
      return answer<wire::LinkRequest>(on, header, body);
    case wire::Type::kGetXattr:
      return answer<wire::GetXattrRequest>(on, header, body);
    case wire::Type::kSetXattr:
      return answer<wire::SetXattrRequest>(on, header, body);
    case wire::Type::kListXattr:
      return answer<wire::ListXattrRequest>(on, header, body);
    case wire::Type::kRemoveXattr:
      return answer<wire::RemoveXattrRequest>(on, header, body);
    case wire::Type::kStatFs:
      return answer<wire::StatFsRequest>(on, header, body);
    default:
      return wire::encode_failure(header.type, header.tag,
                                  {wire::kMalformed, "a node does not serve this type of message", {}});
  }
}

}  // namespace tutti::node
