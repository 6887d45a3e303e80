// SPDX-License-Identifier: Apache-2.0
#include "sim/simulated_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::sim {
namespace {

constexpr std::uint64_t kDevice = 1;
constexpr int kMostLinks = 40;  // maximum number of symbolic links followed, as in Linux

Failure failure(const std::string& path, int error) {
  const auto code = error == ENOENT || error == ENODATA ? ErrorCode::kNotFound
                    : error == EACCES || error == EPERM ? ErrorCode::kDenied
                                                        : ErrorCode::kIo;
  return fail(code, fmt::format("{}: {}", path.empty() ? "the root" : path, std::strerror(error)), error);
}

timespec to_timespec(TimePoint time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch());
  return {.tv_sec = seconds.count(), .tv_nsec = (time.time_since_epoch() - seconds).count()};
}

TimePoint from_timespec(const timespec& time) {
  return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

struct stat status_of(const Inode& inode) {
  struct stat status {};
  status.st_dev = kDevice;
  status.st_ino = inode.number;
  status.st_mode = inode.mode;
  status.st_nlink = inode.links;
  status.st_uid = inode.uid;
  status.st_gid = inode.gid;
  status.st_size = static_cast<off_t>(inode.size);
  status.st_blocks = static_cast<blkcnt_t>((inode.size + 511) / 512);
  status.st_atim = to_timespec(inode.accessed);
  status.st_mtim = to_timespec(inode.modified);
  status.st_ctim = to_timespec(inode.changed);
  return status;
}

bool may(const Credentials& caller, const Inode& inode, int access) {
  if (caller.uid == 0) return true;
  const bool in_group = caller.gid == inode.gid || std::ranges::find(caller.groups, inode.gid) != caller.groups.end();
  const unsigned shift = caller.uid == inode.uid ? 6 : in_group ? 3 : 0;
  const unsigned rights = (inode.mode >> shift) & 7;
  const unsigned wanted = ((access & R_OK) ? 4U : 0U) | ((access & W_OK) ? 2U : 0U) | ((access & X_OK) ? 1U : 0U);
  return (rights & wanted) == wanted;
}

}  // namespace

class MountedVolume final : public FileSystem {
 public:
  MountedVolume(Volume& volume, Process& process) : volume_(volume), process_(process) {}

  bool local() const override { return false; }
  std::size_t open_files() const override { return 0; }

  Result<std::shared_ptr<BackingFile>> open_file(const Caller& caller, const std::string& path,
                                                 Direction direction) override {
    auto found = look(path, Links::kFollow);
    if (!found) return Failure(found.error());
    if (!S_ISREG((*found)->mode)) return failure(path, S_ISDIR((*found)->mode) ? EISDIR : EINVAL);
    return open(caller, *found, path, direction);
  }
  Result<std::shared_ptr<BackingFile>> reopen(const BackingFile& file, Direction direction) override {
    return open(file.owner(), static_cast<const OpenInode&>(file).inode, "the file", direction);
  }
  Result<void> truncate(const BackingFile& file, std::uint64_t size, TimePoint deadline) override {
    if (auto fine = in_time(deadline); !fine) return fine;
    volume_.truncate(inode_of(file), size);
    return {};
  }
  Result<struct stat> stat(const BackingFile& file) override { return status_of(inode_of(file)); }

  Result<FileStat> look_up(const Caller& caller, const std::string& path, Links links, int access) override {
    auto found = look(path, links);
    if (!found) return Failure(found.error());
    if (!may(*caller, **found, access)) return failure(path, EACCES);
    return FileStat{status_of(**found), (*found)->generation};
  }
  Result<FileStat> create(const Access& by, const std::string& path, const CreateOptions& options) override;
  Result<struct stat> make_directory(const Access& by, const std::string& path, mode_t mode) override {
    return make(by, path, S_IFDIR | (mode & 07777));
  }
  Result<Listing> list(const Caller& caller, const std::string& path, const ListOptions& options) override;
  Result<void> rename(const Access& by, const Move& move) override;
  Result<struct stat> link(const Access& by, const Move& move) override;
  Result<void> unlink(const Access& by, const std::string& path) override { return remove(by, path, false); }
  // Names are on stable storage at once.
  Result<void> sync_directory(const Caller&, const std::string& path) override {
    const auto found = look(path, Links::kFollow);
    if (!found) return Failure(found.error());
    return S_ISDIR((*found)->mode) ? Result<void>() : failure(path, ENOTDIR);
  }
  Result<void> remove_directory(const Access& by, const std::string& path) override { return remove(by, path, true); }
  Result<struct stat> change(const Access& by, const std::string& path, Links links, const Changes& changes) override;
  Result<struct stat> symlink(const Access& by, const std::string& path, const std::string& target) override {
    auto made = make(by, path, S_IFLNK | 0777);
    if (made) volume_.names_[path]->target = target;
    return made;
  }
  Result<std::string> read_link(const Caller&, const std::string& path) override {
    auto found = look(path, Links::kStop);
    if (!found) return Failure(found.error());
    if (!S_ISLNK((*found)->mode)) return failure(path, EINVAL);
    return (*found)->target;
  }
  Result<std::string> get_attribute(const Caller&, const std::string& path, const std::string& name) override {
    auto found = look(path, Links::kFollow);
    if (!found) return Failure(found.error());
    const auto value = (*found)->attributes.find(name);
    if (value == (*found)->attributes.end()) return failure(path, ENODATA);
    return value->second;
  }
  Result<void> set_attribute(const Access& by, const std::string& path, const Attribute& attribute) override {
    auto found = look(path, Links::kFollow);
    if (!found) return Failure(found.error());
    if (auto fine = in_time(by.deadline); !fine) return fine;
    (*found)->attributes[attribute.name] = attribute.value;
    return {};
  }
  Result<std::vector<std::string>> list_attributes(const Caller&, const std::string& path) override {
    auto found = look(path, Links::kFollow);
    if (!found) return Failure(found.error());
    std::vector<std::string> names;
    for (const auto& [name, value] : (*found)->attributes) names.push_back(name);
    return names;
  }
  Result<void> remove_attribute(const Access& by, const std::string& path, const std::string& name) override {
    auto found = look(path, Links::kFollow);
    if (!found) return Failure(found.error());
    if (auto fine = in_time(by.deadline); !fine) return fine;
    if ((*found)->attributes.erase(name) == 0) return failure(path, ENODATA);
    return {};
  }
  Result<struct statvfs> usage() override {
    struct statvfs usage {};
    usage.f_frsize = Inode::kBlock;
    usage.f_blocks = usage.f_bfree = usage.f_bavail = std::uint64_t{1} << 40;
    usage.f_files = usage.f_ffree = std::uint64_t{1} << 40;
    return usage;
  }

 private:
  // A worker reads the clock when it begins. A stall may be between that time and the change.
  Result<void> in_time(TimePoint deadline) const {
    if (deadline == TimePoint{} || process_.task_began() <= deadline) return {};
    return fail(ErrorCode::kTimeout, "the deadline passed before the change was applied");
  }

  Result<InodePointer> look(std::string path, Links links) const {
    const std::string asked = path;
    for (int followed = 0; followed < kMostLinks; ++followed) {
      const auto found = volume_.names_.find(path);
      if (found == volume_.names_.end()) return failure(asked, ENOENT);
      if (!S_ISLNK(found->second->mode) || links == Links::kStop) return found->second;
      const std::string& target = found->second->target;
      const std::string parent = parent_of(path);
      if (target.starts_with('/') || target.find("..") != target.npos) return failure(asked, EACCES);
      path = parent.empty() ? target : parent + "/" + target;
    }
    return failure(asked, ELOOP);
  }

  // The directory of the name, if this caller may change it.
  Result<void> may_change_parent(const Access& by, const std::string& path) const {
    if (path.empty()) return failure(path, EBUSY);
    auto parent = look(parent_of(path), Links::kFollow);
    if (!parent) return Failure(parent.error());
    if (!S_ISDIR((*parent)->mode)) return failure(path, ENOTDIR);
    if (!may(*by.caller, **parent, W_OK | X_OK)) return failure(path, EACCES);
    return {};
  }

  Result<std::shared_ptr<BackingFile>> open(const Caller& caller, const InodePointer& inode, const std::string& path,
                                            Direction direction) {
    const bool owner = caller->uid == inode->uid;
    BackingFileKey key{.device = kDevice, .inode = inode->number, .owner = caller, .generation = inode->generation};
    key.readable = may(*caller, *inode, R_OK);
    key.writable = may(*caller, *inode, W_OK) || (owner && direction == Direction::kWrite);
    if (!(direction == Direction::kRead ? key.readable : key.writable)) return failure(path, EACCES);
    // As the live table of open files: equal keys share an open file, so that the node merges their requests.
    std::weak_ptr<OpenInode>& known = open_[key];
    auto file = known.lock();
    if (!file) known = file = std::make_shared<OpenInode>(key, inode);
    if (open_.size() > 64) std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
    return file;
  }

  Result<struct stat> make(const Access& by, const std::string& path, mode_t mode) {
    if (auto fine = may_change_parent(by, path); !fine) return Failure(fine.error());
    if (volume_.names_.contains(path)) return failure(path, EEXIST);
    if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
    auto inode = volume_.new_inode(mode);
    inode->uid = by.caller->uid;
    inode->gid = by.caller->gid;
    volume_.names_[path] = inode;
    return status_of(*inode);
  }

  bool has_entries(const std::string& path) const {
    const auto next = volume_.names_.upper_bound(path + "/");
    return next != volume_.names_.end() && next->first.starts_with(path + "/");
  }

  Result<void> remove(const Access& by, const std::string& path, bool directory) {
    if (auto fine = may_change_parent(by, path); !fine) return fine;
    auto found = look(path, Links::kStop);
    if (!found) return Failure(found.error());
    const bool is_directory = S_ISDIR((*found)->mode);
    if (is_directory != directory) return failure(path, directory ? ENOTDIR : EISDIR);
    if (directory && has_entries(path)) return failure(path, ENOTEMPTY);
    if (auto fine = in_time(by.deadline); !fine) return fine;
    --(*found)->links;
    volume_.names_.erase(path);
    return {};
  }

  std::map<BackingFileKey, std::weak_ptr<OpenInode>> open_;
  Volume& volume_;
  Process& process_;
};

Result<FileStat> MountedVolume::create(const Access& by, const std::string& path, const CreateOptions& options) {
  auto found = look(path, Links::kFollow);
  if (!found && found.error().system == ENOENT) {
    const auto made = make(by, path, S_IFREG | (options.mode & 07777));
    if (!made) return Failure(made.error());
    return FileStat{*made, volume_.names_[path]->generation};
  }
  if (!found) return Failure(found.error());
  if (options.exclusive) return failure(path, EEXIST);
  Inode& inode = **found;
  if (!S_ISREG(inode.mode)) return failure(path, S_ISDIR(inode.mode) ? EISDIR : EINVAL);
  if (!may(*by.caller, inode, options.access)) return failure(path, EACCES);
  if (options.truncate) {
    if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
    volume_.truncate(inode, 0);
  }
  return FileStat{status_of(inode), inode.generation};
}

Result<FileSystem::Listing> MountedVolume::list(const Caller&, const std::string& path, const ListOptions& options) {
  auto found = look(path, Links::kFollow);
  if (!found) return Failure(found.error());
  if (!S_ISDIR((*found)->mode)) return failure(path, ENOTDIR);
  Listing listing;
  const std::string prefix = path.empty() ? "" : path + "/";
  std::uint64_t position = 0;
  for (auto next = volume_.names_.upper_bound(prefix); next != volume_.names_.end(); ++next) {
    if (!next->first.starts_with(prefix)) break;
    const std::string name = next->first.substr(prefix.size());
    if (name.empty() || name.find('/') != name.npos || ++position <= options.cursor) continue;
    if (listing.entries.size() == options.most) return listing;
    const auto type = static_cast<std::uint8_t>((next->second->mode & S_IFMT) >> 12);
    listing.entries.push_back({name, next->second->number, type, position});
  }
  listing.end = true;
  return listing;
}

Result<void> MountedVolume::rename(const Access& by, const Move& move) {
  auto& names = volume_.names_;
  if (auto fine = may_change_parent(by, move.from); !fine) return fine;
  if (auto fine = may_change_parent(by, move.to); !fine) return fine;
  auto from = look(move.from, Links::kStop);
  if (!from) return Failure(from.error());
  const auto to = names.find(move.to);
  if ((move.flags & RENAME_EXCHANGE) != 0) {
    if (to == names.end()) return failure(move.to, ENOENT);
    if (S_ISDIR((*from)->mode) || S_ISDIR(to->second->mode)) return failure(move.from, ENOTSUP);
    if (auto fine = in_time(by.deadline); !fine) return fine;
    std::swap(names[move.from], to->second);
    return {};
  }
  if (to != names.end()) {
    if ((move.flags & RENAME_NOREPLACE) != 0) return failure(move.to, EEXIST);
    if (to->second == *from) return {};
    if (S_ISDIR(to->second->mode) != S_ISDIR((*from)->mode))
      return failure(move.to, S_ISDIR(to->second->mode) ? EISDIR : ENOTDIR);
    if (has_entries(move.to)) return failure(move.to, ENOTEMPTY);
  }
  if (move.to.starts_with(move.from + "/")) return failure(move.from, EINVAL);
  if (auto fine = in_time(by.deadline); !fine) return fine;
  if (to != names.end()) --to->second->links;
  std::vector<std::pair<std::string, InodePointer>> moved{{move.to, *from}};
  const std::string prefix = move.from + "/";
  for (auto next = names.upper_bound(prefix); next != names.end() && next->first.starts_with(prefix); ++next)
    moved.emplace_back(move.to + next->first.substr(move.from.size()), next->second);
  names.erase(move.from);
  names.erase(names.lower_bound(prefix), names.lower_bound(move.from + "0"));  // '0' follows '/'
  for (auto& [name, inode] : moved) names[name] = inode;
  return {};
}

Result<struct stat> MountedVolume::link(const Access& by, const Move& move) {
  if (auto fine = may_change_parent(by, move.to); !fine) return Failure(fine.error());
  auto from = look(move.from, Links::kStop);
  if (!from) return Failure(from.error());
  if (S_ISDIR((*from)->mode)) return failure(move.from, EPERM);
  if (volume_.names_.contains(move.to)) return failure(move.to, EEXIST);
  if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
  ++(*from)->links;
  volume_.names_[move.to] = *from;
  return status_of(**from);
}

Result<struct stat> MountedVolume::change(const Access& by, const std::string& path, Links links,
                                          const Changes& changes) {
  auto found = look(path, links);
  if (!found) return Failure(found.error());
  Inode& inode = **found;
  const bool owner = by.caller->uid == 0 || by.caller->uid == inode.uid;
  if (!owner || (changes.uid && by.caller->uid != 0)) return failure(path, EPERM);
  if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
  if (changes.uid) inode.uid = *changes.uid;
  if (changes.gid) inode.gid = *changes.gid;
  if (changes.mode) inode.mode = (inode.mode & S_IFMT) | (*changes.mode & 07777);
  if (changes.accessed) inode.accessed = from_timespec(*changes.accessed);
  if (changes.modified) inode.modified = from_timespec(*changes.modified);
  inode.changed = volume_.now();
  return status_of(inode);
}

std::unique_ptr<FileSystem> Volume::mount(Process& process) {
  return std::make_unique<MountedVolume>(*this, process);
}

}  // namespace tutti::sim
