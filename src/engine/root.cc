// SPDX-License-Identifier: Apache-2.0
#include "engine/root.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "engine/generation.h"

namespace tutti {
namespace {

// A path of an open file that stays valid if the file is renamed or removed.
std::string path_of(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENODATA:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
      return ErrorCode::kDenied;
    case EMFILE:
    case ENFILE:
      return ErrorCode::kFull;
    default:
      return ErrorCode::kIo;
  }
}

Failure failure(const std::string& path, int error = errno) {
  return fail(code_of(error), fmt::format("{}: {}", path.empty() ? "the root directory" : path, std::strerror(error)),
              error);
}

struct How {
  int flags = 0;
  mode_t mode = 0;
};

// Resolves `path`; never leads outside the directory `root`.
Result<Descriptor> open_beneath(int root, const std::string& path, How wanted) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(wanted.flags | O_CLOEXEC);
  how.mode = wanted.mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const char* name = path.empty() ? "." : path.c_str();
  for (int attempt = 0;; ++attempt) {
    const auto opened = static_cast<int>(syscall(SYS_openat2, root, name, &how, sizeof how));
    if (opened >= 0) return Descriptor(opened);
    // EAGAIN: a concurrent rename; the kernel could not verify that ".." stays beneath the root.
    if (errno != EAGAIN || attempt == 100) break;
  }
  if (errno != EXDEV) return failure(path);
  return fail(ErrorCode::kDenied, path + ": leads outside the served directory", EACCES);
}

// A directory and a name in it, for calls that act on the name itself.
struct NameInDirectory {
  Descriptor parent;
  std::string name;
};

Result<NameInDirectory> find_parent(int root, const std::string& path) {
  if (path.empty()) return failure(path, EBUSY);
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash);
  auto parent = open_beneath(root, directory, {O_PATH | O_DIRECTORY});
  if (!parent) return Failure(parent.error());
  return NameInDirectory{std::move(*parent), slash == std::string::npos ? path : path.substr(slash + 1)};
}

Result<Descriptor> locate(int root, const std::string& path, Root::Links links) {
  return open_beneath(root, path, {O_PATH | (links == Root::Links::kStop ? O_NOFOLLOW : 0)});
}

Result<struct stat> status_of(const Descriptor& descriptor, const std::string& path) {
  struct stat status {};
  if (fstatat(descriptor.get(), "", &status, AT_EMPTY_PATH) != 0) return failure(path);
  return status;
}

Result<FileStat> identified(const Result<struct stat>& status, int descriptor) {
  if (!status) return Failure(status.error());
  return FileStat{*status, S_ISREG(status->st_mode) ? generation_of(descriptor, status->st_dev) : 0};
}

Result<struct stat> status_at(const NameInDirectory& entry, const std::string& path) {
  struct stat status {};
  if (fstatat(entry.parent.get(), entry.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return failure(path);
  return status;
}

Result<void> check_access(const Descriptor& descriptor, const std::string& path, int access) {
  // With AT_EACCESS the kernel asks with the file system user id, which is the caller's.
  if (access == 0 || syscall(SYS_faccessat2, descriptor.get(), "", access, AT_EMPTY_PATH | AT_EACCESS) == 0) return {};
  return failure(path);
}

// Call directly before a change.
Result<void> in_time(TimePoint deadline) {
  if (deadline == TimePoint{} || real_clock().steady() <= deadline) return {};
  return fail(ErrorCode::kTimeout, "the deadline passed before the change was applied");
}

// Runs `action` with the caller's rights.
template <typename Action>
auto as(const Root::Caller& caller, Action action) -> decltype(action()) {
  if (auto allowed = may_act_for(*caller); !allowed) return Failure(allowed.error());
  const ActingAs acting(*caller);
  if (!acting.ok()) return fail(ErrorCode::kDenied, fmt::format("cannot act for user {}", caller->uid), EACCES);
  return action();
}

Result<void> regular(const Descriptor& located, const std::string& path, struct stat& status) {
  auto found = status_of(located, path);
  if (!found) return Failure(found.error());
  status = *found;
  if (S_ISREG(status.st_mode)) return {};
  return failure(path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
}

int flags_of(bool read, bool write) {
  return (read && write ? O_RDWR : write ? O_WRONLY : O_RDONLY) | O_CLOEXEC | O_NOCTTY;
}

// As open(2) of an O_PATH descriptor's file. EAGAIN while another process must give up a fcntl lease on the file: to
// wait for that would block a worker thread.
int open_at_once(int located, int flags) {
  const int opened = ::open(path_of(located).c_str(), flags | O_NONBLOCK);
  if (opened >= 0) fcntl(opened, F_SETFL, flags & O_DIRECT);  // io_uring would not wait for the device either
  return opened;
}

}  // namespace

Root::Root(std::string directory, int descriptor, const Options& options)
    : directory_(std::move(directory)),
      descriptor_(descriptor),
      options_(options),
      files_(options.max_open_files, options.workers) {}

Root::~Root() {
  close(descriptor_);
}

Result<std::unique_ptr<Root>> Root::open(const std::string& directory, const Options& options) {
  const int descriptor = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failure(directory);
  return std::unique_ptr<Root>(new Root(directory, descriptor, options));
}

Result<std::shared_ptr<BackingFile>> Root::open_file(const Caller& caller, const std::string& path,
                                                     Direction direction) {
  Descriptor found;
  struct stat status {};
  auto opened = as(caller, [&]() -> Result<std::shared_ptr<BackingFile>> {
    auto located = locate(descriptor_, path, Links::kFollow);
    if (!located) return Failure(located.error());
    if (auto fit = regular(*located, path, status); !fit) return Failure(fit.error());
    found = std::move(*located);
    return open_descriptor(caller, {found.get(), path}, direction);
  });
  // A process that creates a file may write to it regardless of its mode, but a node opens the file later. So the
  // owner, who could change the mode anyway, may always write, as with NFS servers. Clients check the mode in open().
  // Reading against the mode is never allowed.
  const bool refused = !opened && opened.error().system == EACCES && found.get() >= 0;
  if (refused && direction == Direction::kWrite && status.st_uid == caller->uid)
    return open_as_owner(caller, {found.get(), path});
  return opened;
}

Result<std::shared_ptr<BackingFile>> Root::reopen(const BackingFile& file, Direction direction) {
  return as(file.owner(), [&] { return open_descriptor(file.owner(), {file.descriptor(), "the file"}, direction); });
}

// Opens the file of `located`, an O_PATH descriptor, for I/O. Must run with the caller's rights.
Result<std::shared_ptr<BackingFile>> Root::open_descriptor(const Caller& caller, const Located& located,
                                                           Direction direction) {
  BackingFileKey key{.readable = true, .writable = direction == Direction::kWrite, .owner = caller};
  int opened = open_at_once(located.descriptor, flags_of(key.readable, key.writable));
  if (opened < 0 && key.writable && errno == EACCES) {
    key.readable = false;
    opened = open_at_once(located.descriptor, flags_of(false, true));
  }
  return adopt(std::move(key), located, opened);
}

// Opens with the node's own rights, only for writing.
Result<std::shared_ptr<BackingFile>> Root::open_as_owner(const Caller& caller, const Located& located) {
  const int opened = open_at_once(located.descriptor, flags_of(false, true));
  return adopt({.readable = false, .writable = true, .owner = caller}, located, opened);
}

// `descriptor` is the result of open(2): -1 with errno on failure.
Result<std::shared_ptr<BackingFile>> Root::adopt(BackingFileKey key, const Located& located, int descriptor) {
  Descriptor opened(descriptor);
  if (opened.get() < 0) return failure(located.name, errno);
  auto status = status_of(opened, located.name);
  if (!status) return Failure(status.error());
  key.device = status->st_dev;
  key.inode = status->st_ino;
  key.generation = generation_of(opened.get(), key.device);
  const int flags = flags_of(key.readable, key.writable) | O_DIRECT;
  const int direct = options_.direct ? open_at_once(located.descriptor, flags) : -1;
  return files_.adopt(key, {opened.release(), direct});
}

Result<void> Root::truncate(const BackingFile& file, std::uint64_t size, TimePoint deadline) {
  return as(file.owner(), [&]() -> Result<void> {
    if (auto fine = in_time(deadline); !fine) return fine;
    if (ftruncate(file.descriptor(), static_cast<off_t>(size)) != 0) return failure("the file");
    return {};
  });
}

Result<struct stat> Root::stat(const BackingFile& file) {
  struct stat status {};
  if (fstat(file.descriptor(), &status) != 0) return failure("the file");
  return status;
}

Result<FileStat> Root::look_up(const Caller& caller, const std::string& path, Links links, int access) {
  return as(caller, [&]() -> Result<FileStat> {
    auto located = locate(descriptor_, path, links);
    if (!located) return Failure(located.error());
    if (auto allowed = check_access(*located, path, access); !allowed) return Failure(allowed.error());
    return identified(status_of(*located, path), located->get());
  });
}

Result<FileStat> Root::create(const Access& by, const std::string& path, const CreateOptions& options) {
  return as(by.caller, [&]() -> Result<FileStat> {
    auto located =
        options.exclusive ? Result<Descriptor>(failure(path, ENOENT)) : locate(descriptor_, path, Links::kFollow);
    if (!located && located.error().system == ENOENT) {
      const int exclusive = options.exclusive ? O_EXCL : 0;
      if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
      auto made = open_beneath(descriptor_, path,
                               {O_CREAT | O_WRONLY | O_NONBLOCK | O_NOCTTY | exclusive, options.mode & 07777});
      if (!made) return Failure(made.error());
      return identified(status_of(*made, path), made->get());
    }
    if (!located) return Failure(located.error());
    struct stat status {};
    if (auto fit = regular(*located, path, status); !fit) return Failure(fit.error());
    if (auto allowed = check_access(*located, path, options.access); !allowed) return Failure(allowed.error());
    if (options.truncate) {
      // O_NONBLOCK: a process with a fcntl lease on the file must not delay us between the check and the change.
      const Descriptor opened(::open(path_of(located->get()).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
      if (opened.get() < 0) return failure(path);
      if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
      if (ftruncate(opened.get(), 0) != 0) return failure(path);
    }
    return identified(status_of(*located, path), located->get());
  });
}

Result<struct stat> Root::make_directory(const Access& by, const std::string& path, mode_t mode) {
  return as(
      by.caller, [&]() -> Result<struct stat> {
        auto entry = find_parent(descriptor_, path);
        if (!entry) return Failure(entry.error());
        if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
        if (mkdirat(entry->parent.get(), entry->name.c_str(), mode & 07777) != 0) return failure(path);
        return status_at(*entry, path);
      });
}

Result<Root::Listing> Root::list(const Caller& caller, const std::string& path, const ListOptions& options) {
  auto directory = as(caller, [&] { return open_beneath(descriptor_, path, {O_RDONLY | O_DIRECTORY}); });
  if (!directory) return Failure(directory.error());
  if (options.cursor != 0 && lseek(directory->get(), static_cast<off_t>(options.cursor), SEEK_SET) < 0)
    return failure(path);
  Listing listing;
  std::vector<char> buffer(32 << 10);
  while (listing.entries.size() < options.most) {
    const auto length = syscall(SYS_getdents64, directory->get(), buffer.data(), buffer.size());
    if (length < 0) return failure(path);
    listing.end = length == 0;
    if (listing.end) break;
    for (long at = 0; at < length && listing.entries.size() < options.most;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..")
        listing.entries.push_back(
            {std::string(name), entry->d_ino, entry->d_type, static_cast<std::uint64_t>(entry->d_off)});
    }
  }
  return listing;
}

Result<void> Root::rename(const Access& by, const Move& move) {
  return as(by.caller, [&]() -> Result<void> {
    auto from = find_parent(descriptor_, move.from);
    if (!from) return Failure(from.error());
    auto to = find_parent(descriptor_, move.to);
    if (!to) return Failure(to.error());
    if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
    if (renameat2(from->parent.get(), from->name.c_str(), to->parent.get(), to->name.c_str(), move.flags) != 0)
      return failure(move.from + " to " + move.to);
    return {};
  });
}

Result<struct stat> Root::link(const Access& by, const Move& move) {
  return as(
      by.caller, [&]() -> Result<struct stat> {
        auto from = find_parent(descriptor_, move.from);
        if (!from) return Failure(from.error());
        auto to = find_parent(descriptor_, move.to);
        if (!to) return Failure(to.error());
        if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
        if (linkat(from->parent.get(), from->name.c_str(), to->parent.get(), to->name.c_str(), 0) != 0)
          return failure(move.from + " to " + move.to);
        return status_at(*to, move.to);
      });
}

Result<void> Root::unlink(const Access& by, const std::string& path) {
  return as(by.caller, [&]() -> Result<void> {
    auto entry = find_parent(descriptor_, path);
    if (!entry) return Failure(entry.error());
    if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
    if (unlinkat(entry->parent.get(), entry->name.c_str(), 0) != 0) return failure(path);
    return {};
  });
}

Result<void> Root::sync_directory(const Caller& caller, const std::string& path) {
  auto directory = as(caller, [&] { return open_beneath(descriptor_, path, {O_RDONLY | O_DIRECTORY}); });
  // Who may create a name in a directory may not be allowed to read it. Then with the node's own rights, which may be
  // none on a network file system.
  if (!directory && directory.error().system == EACCES) {
    auto located = as(caller, [&] { return open_beneath(descriptor_, path, {O_PATH | O_DIRECTORY}); });
    if (!located) return Failure(located.error());
    directory = Descriptor(::open(path_of(located->get()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory->get() < 0) return failure(path);
  }
  if (!directory) return Failure(directory.error());
  if (fsync(directory->get()) != 0 && errno != EINVAL) return failure(path);  // EINVAL: the file system needs no sync
  return {};
}

Result<void> Root::remove_directory(const Access& by, const std::string& path) {
  return as(by.caller, [&]() -> Result<void> {
    auto entry = find_parent(descriptor_, path);
    if (!entry) return Failure(entry.error());
    if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
    if (unlinkat(entry->parent.get(), entry->name.c_str(), AT_REMOVEDIR) != 0) return failure(path);
    return {};
  });
}

Result<struct stat> Root::change(const Access& by, const std::string& path, Links links, const Changes& changes) {
  return as(
      by.caller, [&]() -> Result<struct stat> {
        auto located = locate(descriptor_, path, links);
        if (!located) return Failure(located.error());
        if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
        // The owner first, because changing the owner clears set-user-id bits.
        if ((changes.uid || changes.gid) && fchownat(located->get(), "", changes.uid.value_or(static_cast<uid_t>(-1)),
                                                     changes.gid.value_or(static_cast<gid_t>(-1)), AT_EMPTY_PATH) != 0)
          return failure(path);
        if (changes.mode && fchmodat(AT_FDCWD, path_of(located->get()).c_str(), *changes.mode & 07777, 0) != 0)
          return failure(path);
        if (changes.accessed || changes.modified) {
          const timespec keep{0, UTIME_OMIT};
          const timespec times[2] = {changes.accessed.value_or(keep), changes.modified.value_or(keep)};
          if (utimensat(located->get(), "", times, AT_EMPTY_PATH) != 0) return failure(path);
        }
        return status_of(*located, path);
      });
}

Result<struct stat> Root::symlink(const Access& by, const std::string& path, const std::string& target) {
  return as(
      by.caller, [&]() -> Result<struct stat> {
        auto entry = find_parent(descriptor_, path);
        if (!entry) return Failure(entry.error());
        if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
        if (symlinkat(target.c_str(), entry->parent.get(), entry->name.c_str()) != 0) return failure(path);
        return status_at(*entry, path);
      });
}

Result<std::string> Root::read_link(const Caller& caller, const std::string& path) {
  return as(caller, [&]() -> Result<std::string> {
    auto located = locate(descriptor_, path, Links::kStop);
    if (!located) return Failure(located.error());
    std::string target(PATH_MAX, '\0');
    const ssize_t length = readlinkat(located->get(), "", target.data(), target.size());
    if (length < 0) return failure(path, errno == ENOENT ? EINVAL : errno);  // not a link at all
    target.resize(static_cast<std::size_t>(length));
    return target;
  });
}

Result<std::string> Root::get_attribute(const Caller& caller, const std::string& path, const std::string& name) {
  return as(caller, [&]() -> Result<std::string> {
    auto located = locate(descriptor_, path, Links::kFollow);
    if (!located) return Failure(located.error());
    std::string value(XATTR_SIZE_MAX, '\0');
    const ssize_t length = getxattr(path_of(located->get()).c_str(), name.c_str(), value.data(), value.size());
    if (length < 0) return failure(path);
    value.resize(static_cast<std::size_t>(length));
    return value;
  });
}

Result<void> Root::set_attribute(const Access& by, const std::string& path, const Attribute& attribute) {
  return as(by.caller, [&]() -> Result<void> {
    auto located = locate(descriptor_, path, Links::kFollow);
    if (!located) return Failure(located.error());
    if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
    if (setxattr(path_of(located->get()).c_str(), attribute.name.c_str(), attribute.value.data(),
                 attribute.value.size(), attribute.flags) != 0)
      return failure(path);
    return {};
  });
}

Result<std::vector<std::string>> Root::list_attributes(const Caller& caller, const std::string& path) {
  return as(caller, [&]() -> Result<std::vector<std::string>> {
    auto located = locate(descriptor_, path, Links::kFollow);
    if (!located) return Failure(located.error());
    std::string names(XATTR_LIST_MAX, '\0');
    const ssize_t length = listxattr(path_of(located->get()).c_str(), names.data(), names.size());
    if (length < 0) return failure(path);
    std::vector<std::string> list;
    for (std::size_t at = 0; at < static_cast<std::size_t>(length); at += list.back().size() + 1)
      list.emplace_back(names.c_str() + at);
    return list;
  });
}

Result<void> Root::remove_attribute(const Access& by, const std::string& path, const std::string& name) {
  return as(by.caller, [&]() -> Result<void> {
    auto located = locate(descriptor_, path, Links::kFollow);
    if (!located) return Failure(located.error());
    if (auto fine = in_time(by.deadline); !fine) return Failure(fine.error());
    if (removexattr(path_of(located->get()).c_str(), name.c_str()) != 0) return failure(path);
    return {};
  });
}

bool Root::local() const {
  return is_local(descriptor_);
}

Result<struct statvfs> Root::usage() {
  struct statvfs usage {};
  if (fstatvfs(descriptor_, &usage) != 0) return failure(directory_);
  return usage;
}

}  // namespace tutti
