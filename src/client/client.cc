// SPDX-License-Identifier: Apache-2.0
#include <tutti/client.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "client/core.h"
#include "client/file_io.h"
#include "client/status.h"

namespace tutti {
namespace {

template <typename Reply>
Result<void> plain(const Result<Reply>& reply) {
  if (!reply) return Failure(reply.error());
  return {};
}

template <typename Reply>
Result<FileStatus> status_in(const Result<Reply>& reply) {
  if (!reply) return Failure(reply.error());
  return to_status(reply->attributes);
}

// This process's umask, without changing it for a moment as umask(2) would.
std::uint32_t current_umask() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint32_t mask = 0;
    if (word == "Umask:" && status >> std::oct >> mask) return mask;
  }
  return 022;
}

class ConnectedClient final : public Client {
 public:
  explicit ConnectedClient(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~ConnectedClient() override { core_->stop(); }

  Result<std::shared_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Result<FileStatus> status(const std::string& path, bool follow) override;
  Result<void> make_directory(const std::string& path, std::uint32_t mode) override;
  Result<std::vector<DirectoryItem>> read_directory(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to, std::uint32_t flags) override;
  Result<void> unlink(const std::string& path) override;
  Result<void> remove_directory(const std::string& path) override;
  Result<FileStatus> change_status(const std::string& path, const StatusChanges& changes, bool follow) override;
  Result<void> symlink(const std::string& path, const std::string& target) override;
  Result<std::string> read_link(const std::string& path) override;
  Result<void> link(const std::string& from, const std::string& to) override;
  Result<std::string> get_attribute(const std::string& path, const std::string& name) override;
  Result<void> set_attribute(const std::string& path, const std::string& name, const std::string& value,
                             std::uint32_t flags) override;
  Result<std::vector<std::string>> list_attributes(const std::string& path) override;
  Result<void> remove_attribute(const std::string& path, const std::string& name) override;
  Result<FileSystemStatus> file_system_status() override;

  void begin_phase(const PhaseAnnouncement& announcement) override { core_->begin_phase(announcement); }
  void end_phase() override { core_->end_phase(); }
  ApplicationId application() const override { return *core_->options().application; }
  const Cluster& cluster() const override { return core_->options().cluster; }

 private:
  Result<FileStatus> create_or_look_up(const std::string& path, const OpenOptions& options);

  // Asks with a path that has been put into the form of the wire.
  template <typename Request>
  Result<typename Request::Reply> ask(const std::string& path, Request request, Retry retry) {
    auto normal = normalise(path);
    if (!normal) return Failure(normal.error());
    request.path = std::move(*normal);
    return core_->ask(request, retry);
  }
  template <typename Request>
  Result<void> ask_both(const std::string& from, const std::string& to, Request request) {
    auto normal_from = normalise(from), normal_to = normalise(to);
    if (!normal_from) return Failure(normal_from.error());
    if (!normal_to) return Failure(normal_to.error());
    request.from = std::move(*normal_from);
    request.to = std::move(*normal_to);
    return plain(core_->ask(request, Retry::kNever));
  }

  const std::shared_ptr<Core> core_;
  const std::uint32_t umask_ = current_umask();
};

Result<FileStatus> ConnectedClient::create_or_look_up(const std::string& path, const OpenOptions& options) {
  std::uint8_t access = 0;
  if (options.read) access = static_cast<std::uint8_t>(access | wire::kMayRead);
  if (options.write || options.truncate) access = static_cast<std::uint8_t>(access | wire::kMayWrite);
  if (options.create) {
    const wire::CreateRequest create{.path = path,
                                     .mode = options.mode & ~umask_,
                                     .exclusive = options.exclusive,
                                     .truncate = options.truncate,
                                     .access = access};
    const bool once = options.exclusive || options.truncate;  // twice is not the same
    return status_in(core_->ask(create, once ? Retry::kNever : Retry::kAnytime));
  }
  return status_in(core_->ask(wire::LookupRequest{.path = path, .follow = true, .access = access}, Retry::kAnytime));
}

Result<std::shared_ptr<File>> ConnectedClient::open(const std::string& path, const OpenOptions& options) {
  auto normal = normalise(path);
  if (!normal) return Failure(normal.error());
  auto found = create_or_look_up(*normal, options);
  if (!found) return Failure(found.error());
  if (found->is_directory()) return fail(ErrorCode::kInvalid, path + " is a directory", EISDIR);
  auto layout = core_->layout_of(*normal, found->inode);
  auto file = std::make_shared<OpenFile>(core_, std::move(*normal), found->inode, std::move(layout));
  if (options.truncate && !options.create) {
    if (auto cut = file->truncate(0); !cut) return Failure(cut.error());
  }
  return file;
}

Result<FileStatus> ConnectedClient::status(const std::string& path, bool follow) {
  return status_in(ask(path, wire::LookupRequest{.path = {}, .follow = follow}, Retry::kAnytime));
}

Result<void> ConnectedClient::make_directory(const std::string& path, std::uint32_t mode) {
  return plain(ask(path, wire::MakeDirectoryRequest{.path = {}, .mode = mode & ~umask_}, Retry::kNever));
}

Result<std::vector<DirectoryItem>> ConnectedClient::read_directory(const std::string& path) {
  // All of it from one node: cursors are its file system's own.
  auto normal = normalise(path);
  if (!normal) return Failure(normal.error());
  std::vector<DirectoryItem> items;
  wire::ReadDirectoryRequest request{.path = std::move(*normal)};
  const auto node = std::hash<std::string>{}(request.path) % core_->router().nodes();
  for (;;) {
    auto reply = core_->ask_node(request, Retry::kAnytime, node);
    if (!reply) return Failure(reply.error());
    for (auto& entry : reply->entries) {
      request.cursor = entry.next;
      items.push_back({std::move(entry.name), entry.inode, entry.type});
    }
    if (reply->end || reply->entries.empty()) return items;
  }
}

Result<void> ConnectedClient::rename(const std::string& from, const std::string& to, std::uint32_t flags) {
  return ask_both(from, to, wire::RenameRequest{.from = {}, .to = {}, .flags = flags});
}

Result<void> ConnectedClient::unlink(const std::string& path) {
  return plain(ask(path, wire::UnlinkRequest{}, Retry::kNever));
}

Result<void> ConnectedClient::remove_directory(const std::string& path) {
  return plain(ask(path, wire::RemoveDirectoryRequest{}, Retry::kNever));
}

Result<FileStatus> ConnectedClient::change_status(const std::string& path, const StatusChanges& changes, bool follow) {
  using Mask = wire::SetAttributesRequest::Mask;
  wire::SetAttributesRequest request{.path = {}, .follow = follow};
  unsigned mask = 0;
  if (changes.mode) mask |= Mask::kMode, request.mode = *changes.mode;
  if (changes.uid) mask |= Mask::kOwner, request.uid = *changes.uid;
  if (changes.gid) mask |= Mask::kGroup, request.gid = *changes.gid;
  if (changes.accessed) mask |= Mask::kAccessed, request.accessed = *changes.accessed;
  if (changes.modified) mask |= Mask::kModified, request.modified = *changes.modified;
  request.mask = static_cast<std::uint8_t>(mask);
  return status_in(ask(path, request, Retry::kNever));
}

Result<void> ConnectedClient::symlink(const std::string& path, const std::string& target) {
  if (target.empty() || target.size() > wire::kMaxPath || target.find('\0') != target.npos) {
    return fail(ErrorCode::kInvalid, "a symbolic link needs a target of 1 to 4096 bytes without NUL", EINVAL);
  }
  return plain(ask(path, wire::SymlinkRequest{.path = {}, .target = target}, Retry::kNever));
}

Result<std::string> ConnectedClient::read_link(const std::string& path) {
  auto reply = ask(path, wire::ReadLinkRequest{}, Retry::kAnytime);
  if (!reply) return Failure(reply.error());
  return std::move(reply->target);
}

Result<void> ConnectedClient::link(const std::string& from, const std::string& to) {
  return ask_both(from, to, wire::LinkRequest{});
}

Result<void> check_attribute(const std::string& name, const std::string& value) {
  if (name.empty() || name.size() > wire::kMaxName || name.find('\0') != name.npos) {
    return fail(ErrorCode::kInvalid, "an attribute's name has 1 to 255 bytes without NUL", EINVAL);
  }
  if (value.size() > wire::kMaxXattr) return fail(ErrorCode::kInvalid, "an attribute has at most 64 KiB", E2BIG);
  return {};
}

Result<std::string> ConnectedClient::get_attribute(const std::string& path, const std::string& name) {
  if (auto fine = check_attribute(name, {}); !fine) return Failure(fine.error());
  auto reply = ask(path, wire::GetXattrRequest{.path = {}, .attribute = name}, Retry::kAnytime);
  if (!reply) return Failure(reply.error());
  return std::move(reply->value);
}

Result<void> ConnectedClient::set_attribute(const std::string& path, const std::string& name, const std::string& value,
                                            std::uint32_t flags) {
  if (auto fine = check_attribute(name, value); !fine) return fine;
  return plain(
      ask(path, wire::SetXattrRequest{.path = {}, .attribute = name, .value = value, .flags = flags}, Retry::kNever));
}

Result<std::vector<std::string>> ConnectedClient::list_attributes(const std::string& path) {
  auto reply = ask(path, wire::ListXattrRequest{}, Retry::kAnytime);
  if (!reply) return Failure(reply.error());
  return std::move(reply->attributes);
}

Result<void> ConnectedClient::remove_attribute(const std::string& path, const std::string& name) {
  if (auto fine = check_attribute(name, {}); !fine) return fine;
  return plain(ask(path, wire::RemoveXattrRequest{.path = {}, .attribute = name}, Retry::kNever));
}

Result<FileSystemStatus> ConnectedClient::file_system_status() {
  auto reply = core_->ask(wire::StatFsRequest{}, Retry::kAnytime);
  if (!reply) return Failure(reply.error());
  return FileSystemStatus{reply->block_size,       reply->blocks, reply->free_blocks,
                          reply->available_blocks, reply->files,  reply->free_files};
}

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(ClientOptions options) {
  auto core = Core::create(std::move(options));
  if (!core) return Failure(core.error());
  return std::make_unique<ConnectedClient>(std::move(*core));
}

}  // namespace tutti
