// SPDX-License-Identifier: Apache-2.0
#include "client/async_client.h"

#include <cerrno>
#include <functional>
#include <utility>

#include "client/status.h"

namespace tutti {
namespace {

// Converts a reply to the result of a call with `part`.
template <typename Reply, typename T>
Done<Reply> take(Done<T> done, T (*part)(Reply&)) {
  return [done = std::move(done), part](Result<Reply> reply) {
    if (!reply) return done(Failure(reply.error()));
    done(part(*reply));
  };
}

template <typename Reply>
Done<Reply> plain(Done<void> done) {
  return [done = std::move(done)](const Result<Reply>& reply) {
    if (!reply) return done(Failure(reply.error()));
    done({});
  };
}

template <typename Reply>
Done<Reply> attributes(Done<FileStatus> done) {
  return take<Reply, FileStatus>(std::move(done), [](Reply& reply) { return to_status(reply.attributes); });
}

Result<void> check_attribute(const std::string& name, const std::string& value) {
  if (name.empty() || name.size() > wire::kMaxName || name.find('\0') != name.npos) {
    return fail(ErrorCode::kInvalid, "the name of an attribute must have 1 to 255 bytes without NUL", EINVAL);
  }
  if (value.size() > wire::kMaxXattr) return fail(ErrorCode::kInvalid, "the value is larger than 64 KiB", E2BIG);
  return {};
}

}  // namespace

template <typename Request>
CallPointer AsyncClient::ask_both(const std::string& from, const std::string& to, Request request, Done<void> done) {
  auto normal_from = normalise(from), normal_to = normalise(to);
  if (!normal_from) return done(Failure(normal_from.error())), nullptr;
  if (!normal_to) return done(Failure(normal_to.error())), nullptr;
  request.from = std::move(*normal_from);
  request.to = std::move(*normal_to);
  return core_->ask(request, Retry::kNever, plain<typename Request::Reply>(std::move(done)));
}

CallPointer AsyncClient::create_or_look_up(const std::string& path, const OpenOptions& options, Done<FileStatus> done) {
  std::uint8_t access = 0;
  if (options.read) access = static_cast<std::uint8_t>(access | wire::kMayRead);
  if (options.write || options.truncate) access = static_cast<std::uint8_t>(access | wire::kMayWrite);
  if (options.create) {
    const wire::CreateRequest create{.path = path,
                                     .mode = options.mode & ~umask_,
                                     .exclusive = options.exclusive,
                                     .truncate = options.truncate,
                                     .access = access};
    const bool once = options.exclusive || options.truncate;  // a repetition would have another effect
    return core_->ask(create, once ? Retry::kNever : Retry::kAnytime,
                      attributes<wire::CreateRequest::Reply>(std::move(done)));
  }
  return core_->ask(wire::LookupRequest{.path = path, .follow = true, .access = access}, Retry::kAnytime,
                    attributes<wire::LookupRequest::Reply>(std::move(done)));
}

CallPointer AsyncClient::open(const std::string& path, const OpenOptions& options,
                              Done<std::shared_ptr<OpenFile>> done) {
  auto normal = normalise(path);
  if (!normal) return done(Failure(normal.error())), nullptr;
  return create_or_look_up(*normal, options, [this, path = *normal, options, done](const Result<FileStatus>& found) {
    if (!found) return done(Failure(found.error()));
    if (found->is_directory()) return done(fail(ErrorCode::kInvalid, path + " is a directory", EISDIR));
    make_file(path, *found, options, done);
  });
}

void AsyncClient::make_file(const std::string& path, const FileStatus& opened, const OpenOptions& options,
                            Done<std::shared_ptr<OpenFile>> done) {
  core_->find_layout(path, opened.inode, [=, core = core_](Layout layout) {
    auto file = std::make_shared<OpenFile>(core, path, opened, std::move(layout));
    if (!options.truncate || options.create) return done(std::move(file));
    file->truncate(0, [file, done](const Result<void>& cut) {
      if (!cut) return done(Failure(cut.error()));
      done(file);
    });
  });
}

CallPointer AsyncClient::status(const std::string& path, bool follow, Done<FileStatus> done) {
  return ask(path, wire::LookupRequest{.path = {}, .follow = follow}, Retry::kAnytime,
             attributes<wire::LookupRequest::Reply>(std::move(done)));
}

std::shared_ptr<OpenFile> AsyncClient::on_target(const std::string& path, const FileStatus& opened,
                                                 TargetId target) const {
  constexpr Bytes kStripe{1 << 30};
  return std::make_shared<OpenFile>(
      core_, path, opened, Layout{.stripe_size = kStripe, .stripe_count = 1, .object_size = {}, .targets = {target}});
}

CallPointer AsyncClient::make_directory(const std::string& path, std::uint32_t mode, Done<void> done) {
  return ask(path, wire::MakeDirectoryRequest{.path = {}, .mode = mode & ~umask_}, Retry::kNever,
             plain<wire::MakeDirectoryRequest::Reply>(std::move(done)));
}

// All entries are read from one node, because cursors are valid only there.
template <typename Item>
struct AsyncClient::Listing {
  wire::ReadDirectoryRequest request;
  std::size_t node;
  std::vector<Item> items;
  Done<std::vector<Item>> done;

  void add(wire::DirectoryEntry& entry);
};

template <>
void AsyncClient::Listing<DirectoryItem>::add(wire::DirectoryEntry& entry) {
  items.push_back({std::move(entry.name), entry.inode, entry.type});
}

template <>
void AsyncClient::Listing<DirectoryItemStatus>::add(wire::DirectoryEntry& entry) {
  if (entry.attributes.mode != 0) items.push_back({std::move(entry.name), to_status(entry.attributes)});
}

CallPointer AsyncClient::read_directory(const std::string& path, Done<std::vector<DirectoryItem>> done) {
  return list(path, std::move(done));
}

CallPointer AsyncClient::read_directory_status(const std::string& path, Done<std::vector<DirectoryItemStatus>> done) {
  return list(path, std::move(done));
}

template <typename Item>
CallPointer AsyncClient::list(const std::string& path, Done<std::vector<Item>> done) {
  auto normal = normalise(path);
  if (!normal) return done(Failure(normal.error())), nullptr;
  auto listing = std::make_shared<Listing<Item>>();
  listing->node = std::hash<std::string>{}(*normal) % core_->router().nodes();
  listing->request.path = std::move(*normal);
  listing->request.attributes = std::is_same_v<Item, DirectoryItemStatus>;
  listing->done = std::move(done);
  list_more(listing);
  return nullptr;
}

template <typename Item>
CallPointer AsyncClient::list_more(const std::shared_ptr<Listing<Item>>& listing) {
  return core_->ask_node(listing->request, Retry::kAnytime, listing->node,
                         [this, listing](Result<wire::ReadDirectoryReply> reply) {
                           if (!reply) return listing->done(Failure(reply.error()));
                           for (auto& entry : reply->entries) {
                             listing->request.cursor = entry.next;
                             listing->add(entry);
                           }
                           if (reply->end || reply->entries.empty()) return listing->done(std::move(listing->items));
                           list_more(listing);
                         });
}

CallPointer AsyncClient::rename(const std::string& from, const std::string& to, std::uint32_t flags, Done<void> done) {
  return ask_both(from, to, wire::RenameRequest{.from = {}, .to = {}, .flags = flags}, std::move(done));
}

CallPointer AsyncClient::unlink(const std::string& path, Done<void> done) {
  return ask(path, wire::UnlinkRequest{}, Retry::kNever, plain<wire::UnlinkRequest::Reply>(std::move(done)));
}

// At every node, because any of them may have made the changes.
void AsyncClient::sync_directory(const std::string& path, Done<void> done) {
  const auto normal = normalise(path);
  if (!normal) return done(Failure(normal.error()));
  struct Pending {
    explicit Pending(std::size_t nodes) : left(nodes) {}
    Mutex mutex;
    std::size_t left TUTTI_GUARDED_BY(mutex);
    Result<void> result TUTTI_GUARDED_BY(mutex);
  };
  const std::size_t nodes = core_->router().nodes();
  const auto pending = std::make_shared<Pending>(nodes);
  for (std::size_t node = 0; node < nodes; ++node)
    core_->ask_node(wire::SyncDirectoryRequest{*normal}, Retry::kAnytime, node,
                    plain<wire::SyncDirectoryRequest::Reply>([pending, done](const Result<void>& synced) {
                      Lock lock(pending->mutex);
                      if (!synced) pending->result = synced;
                      if (--pending->left > 0) return;
                      const Result<void> all = pending->result;
                      lock.unlock();
                      done(all);
                    }));
}

CallPointer AsyncClient::remove_directory(const std::string& path, Done<void> done) {
  return ask(path, wire::RemoveDirectoryRequest{}, Retry::kNever,
             plain<wire::RemoveDirectoryRequest::Reply>(std::move(done)));
}

CallPointer AsyncClient::change_status(const std::string& path, const StatusChanges& changes, bool follow,
                                       Done<FileStatus> done) {
  using Mask = wire::SetAttributesRequest::Mask;
  wire::SetAttributesRequest request{.path = {}, .follow = follow};
  unsigned mask = 0;
  if (changes.mode) mask |= Mask::kMode, request.mode = *changes.mode;
  if (changes.uid) mask |= Mask::kOwner, request.uid = *changes.uid;
  if (changes.gid) mask |= Mask::kGroup, request.gid = *changes.gid;
  if (changes.accessed) mask |= Mask::kAccessed, request.accessed = *changes.accessed;
  if (changes.modified) mask |= Mask::kModified, request.modified = *changes.modified;
  request.mask = static_cast<std::uint8_t>(mask);
  return ask(path, request, Retry::kNever, attributes<wire::SetAttributesRequest::Reply>(std::move(done)));
}

CallPointer AsyncClient::symlink(const std::string& path, const std::string& target, Done<void> done) {
  if (target.empty() || target.size() > wire::kMaxPath || target.find('\0') != target.npos) {
    done(fail(ErrorCode::kInvalid, "the target of a symbolic link must have 1 to 4096 bytes without NUL", EINVAL));
    return nullptr;
  }
  return ask(path, wire::SymlinkRequest{.path = {}, .target = target}, Retry::kNever,
             plain<wire::SymlinkRequest::Reply>(std::move(done)));
}

CallPointer AsyncClient::read_link(const std::string& path, Done<std::string> done) {
  return ask(
      path, wire::ReadLinkRequest{}, Retry::kAnytime,
      take<wire::ReadLinkReply, std::string>(std::move(done), [](wire::ReadLinkReply& reply) { return reply.target; }));
}

CallPointer AsyncClient::link(const std::string& from, const std::string& to, Done<void> done) {
  return ask_both(from, to, wire::LinkRequest{}, std::move(done));
}

CallPointer AsyncClient::get_attribute(const std::string& path, const std::string& name, Done<std::string> done) {
  if (auto fine = check_attribute(name, {}); !fine) return done(Failure(fine.error())), nullptr;
  return ask(
      path, wire::GetXattrRequest{.path = {}, .attribute = name}, Retry::kAnytime,
      take<wire::GetXattrReply, std::string>(std::move(done), [](wire::GetXattrReply& reply) { return reply.value; }));
}

CallPointer AsyncClient::set_attribute(const std::string& path, const std::string& name, const std::string& value,
                                       std::uint32_t flags, Done<void> done) {
  if (auto fine = check_attribute(name, value); !fine) return done(fine), nullptr;
  return ask(path, wire::SetXattrRequest{.path = {}, .attribute = name, .value = value, .flags = flags}, Retry::kNever,
             plain<wire::SetXattrRequest::Reply>(std::move(done)));
}

CallPointer AsyncClient::list_attributes(const std::string& path, Done<std::vector<std::string>> done) {
  return ask(path, wire::ListXattrRequest{}, Retry::kAnytime,
             take<wire::ListXattrReply, std::vector<std::string>>(
                 std::move(done), [](wire::ListXattrReply& reply) { return std::move(reply.attributes); }));
}

CallPointer AsyncClient::remove_attribute(const std::string& path, const std::string& name, Done<void> done) {
  if (auto fine = check_attribute(name, {}); !fine) return done(fine), nullptr;
  return ask(path, wire::RemoveXattrRequest{.path = {}, .attribute = name}, Retry::kNever,
             plain<wire::RemoveXattrRequest::Reply>(std::move(done)));
}

CallPointer AsyncClient::file_system_status(Done<FileSystemStatus> done) {
  return core_->ask(wire::StatFsRequest{}, Retry::kAnytime,
                    take<wire::StatFsReply, FileSystemStatus>(std::move(done), [](wire::StatFsReply& reply) {
                      return FileSystemStatus{reply.block_size,       reply.blocks, reply.free_blocks,
                                              reply.available_blocks, reply.files,  reply.free_files};
                    }));
}

}  // namespace tutti
