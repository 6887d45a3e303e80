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

namespace tutti {
namespace {

// The name under which an open file can be opened again or changed, whatever became of its path.
std::string path_of(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  std::string path() const { return path_of(value_); }

 private:
  int value_ = -1;
};

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
  return fail(code_of(error), fmt::format("{}: {}", path.empty() ? "the root" : path, std::strerror(error)), error);
}

struct How {
  int flags = 0;
  mode_t mode = 0;
};

// Resolves `path` without ever leaving the directory `root`.
Result<Descriptor> open_beneath(int root, const std::string& path, How wanted) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(wanted.flags | O_CLOEXEC);
  how.mode = wanted.mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const char* name = path.empty() ? "." : path.c_str();
  for (int attempt = 0;; ++attempt) {
    const auto opened = static_cast<int>(syscall(SYS_openat2, root, name, &how, sizeof how));
    if (opened >= 0) return Descriptor(opened);
    // EAGAIN: something was renamed while the kernel looked for "..", and it cannot say whether we are still beneath.
    if (errno != EAGAIN || attempt == 100) break;
  }
  if (errno != EXDEV) return failure(path);
  return fail(ErrorCode::kDenied, path + ": leads out of the directory that is served", EACCES);
}

// A directory and a name in it, for calls that act on the name itself.
struct Place {
  Descriptor parent;
  std::string name;
};

Result<Place> find_place(int root, const std::string& path) {
  if (path.empty()) return failure(path, EBUSY);
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash);
  auto parent = open_beneath(root, directory, {O_PATH | O_DIRECTORY});
  if (!parent) return Failure(parent.error());
  return Place{std::move(*parent), slash == std::string::npos ? path : path.substr(slash + 1)};
}

Result<Descriptor> locate(int root, const std::string& path, Root::Links links) {
  return open_beneath(root, path, {O_PATH | (links == Root::Links::kStop ? O_NOFOLLOW : 0)});
}

Result<struct stat> status_of(const Descriptor& descriptor, const std::string& path) {
  struct stat status {};
  if (fstatat(descriptor.get(), "", &status, AT_EMPTY_PATH) != 0) return failure(path);
  return status;
}

Result<struct stat> status_at(const Place& place, const std::string& path) {
  struct stat status {};
  if (fstatat(place.parent.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return failure(path);
  return status;
}

Result<void> check_access(const Descriptor& descriptor, const std::string& path, int access) {
  // With AT_EACCESS the kernel asks with the file system user id, which is the caller's.
  if (access == 0 || syscall(SYS_faccessat2, descriptor.get(), "", access, AT_EMPTY_PATH | AT_EACCESS) == 0) return {};
  return failure(path);
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

}  // namespace

Root::Root(std::string directory, int descriptor, const Options& options)
    : directory_(std::move(directory)), descriptor_(descriptor), options_(options), files_(options.max_open_files) {}

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
  // Whoever creates a file may write to it whatever mode he gave it, but we open it later and elsewhere. Its owner can
  // change the mode anyway, so he may write, as with NFS servers; clients check the mode when they open. Nobody reads
  // what he could not read without us.
  const bool refused = !opened && opened.error().system == EACCES && found.get() >= 0;
  if (refused && direction == Direction::kWrite && status.st_uid == caller->uid)
    return open_as_owner(caller, {found.get(), path});
  return opened;
}

Result<std::shared_ptr<BackingFile>> Root::reopen(const BackingFile& file, Direction direction) {
  return as(file.owner(), [&] { return open_descriptor(file.owner(), {file.descriptor(), "the file"}, direction); });
}

// Opens again what `located` stands for, which has no rights of its own yet. The caller's rights are in force.
Result<std::shared_ptr<BackingFile>> Root::open_descriptor(const Caller& caller, const Located& located,
                                                           Direction direction) {
  BackingFileKey key{.readable = true, .writable = true, .owner = caller};
  int opened = ::open(path_of(located.descriptor).c_str(), flags_of(true, true));
  if (opened < 0 && (errno == EACCES || errno == EPERM || errno == EROFS || errno == ETXTBSY)) {
    key.readable = direction == Direction::kRead;
    key.writable = !key.readable;
    opened = ::open(path_of(located.descriptor).c_str(), flags_of(key.readable, key.writable));
  }
  return adopt(std::move(key), located, opened);
}

// With the node's own rights, for writing only.
Result<std::shared_ptr<BackingFile>> Root::open_as_owner(const Caller& caller, const Located& located) {
  const int opened = ::open(path_of(located.descriptor).c_str(), flags_of(false, true));
  return adopt({.readable = false, .writable = true, .owner = caller}, located, opened);
}

// `descriptor` is what opening it gave, or -1 and errno.
Result<std::shared_ptr<BackingFile>> Root::adopt(BackingFileKey key, const Located& located, int descriptor) {
  Descriptor opened(descriptor);
  if (opened.get() < 0) return failure(located.name, errno);
  auto status = status_of(opened, located.name);
  if (!status) return Failure(status.error());
  key.device = status->st_dev;
  key.inode = status->st_ino;
  const int flags = flags_of(key.readable, key.writable) | O_DIRECT;
  const int direct = options_.direct ? ::open(path_of(located.descriptor).c_str(), flags) : -1;
  return files_.adopt(key, {opened.release(), direct});
}

Result<void> Root::truncate(const BackingFile& file, std::uint64_t size) {
  return as(file.owner(), [&]() -> Result<void> {
    if (ftruncate(file.descriptor(), static_cast<off_t>(size)) != 0) return failure("the file");
    return {};
  });
}

Result<struct stat> Root::stat(const BackingFile& file) {
  struct stat status {};
  if (fstat(file.descriptor(), &status) != 0) return failure("the file");
  return status;
}

Result<struct stat> Root::look_up(const Caller& caller, const std::string& path, Links links, int access) {
  return as(
      caller, [&]() -> Result<struct stat> {
        auto located = locate(descriptor_, path, links);
        if (!located) return Failure(located.error());
        if (auto allowed = check_access(*located, path, access); !allowed) return Failure(allowed.error());
        return status_of(*located, path);
      });
}

Result<struct stat> Root::create(const Caller& caller, const std::string& path, const CreateOptions& options) {
  return as(
      caller, [&]() -> Result<struct stat> {
        auto located =
            options.exclusive ? Result<Descriptor>(failure(path, ENOENT)) : locate(descriptor_, path, Links::kFollow);
        if (!located && located.error().system == ENOENT) {
          const int exclusive = options.exclusive ? O_EXCL : 0;
          auto made = open_beneath(descriptor_, path,
                                   {O_CREAT | O_WRONLY | O_NONBLOCK | O_NOCTTY | exclusive, options.mode & 07777});
          return made ? status_of(*made, path) : Result<struct stat>(Failure(made.error()));
        }
        if (!located) return Failure(located.error());
        struct stat status {};
        if (auto fit = regular(*located, path, status); !fit) return Failure(fit.error());
        if (auto allowed = check_access(*located, path, options.access); !allowed) return Failure(allowed.error());
        if (options.truncate && ::truncate(located->path().c_str(), 0) != 0) return failure(path);
        return status_of(*located, path);
      });
}

Result<struct stat> Root::make_directory(const Caller& caller, const std::string& path, mode_t mode) {
  return as(
      caller, [&]() -> Result<struct stat> {
        auto place = find_place(descriptor_, path);
        if (!place) return Failure(place.error());
        if (mkdirat(place->parent.get(), place->name.c_str(), mode & 07777) != 0) return failure(path);
        return status_at(*place, path);
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

Result<void> Root::rename(const Caller& caller, const Move& move) {
  return as(caller, [&]() -> Result<void> {
    auto from = find_place(descriptor_, move.from);
    if (!from) return Failure(from.error());
    auto to = find_place(descriptor_, move.to);
    if (!to) return Failure(to.error());
    if (renameat2(from->parent.get(), from->name.c_str(), to->parent.get(), to->name.c_str(), move.flags) != 0)
      return failure(move.from + " to " + move.to);
    return {};
  });
}

Result<struct stat> Root::link(const Caller& caller, const Move& move) {
  return as(
      caller, [&]() -> Result<struct stat> {
        auto from = find_place(descriptor_, move.from);
        if (!from) return Failure(from.error());
        auto to = find_place(descriptor_, move.to);
        if (!to) return Failure(to.error());
        if (linkat(from->parent.get(), from->name.c_str(), to->parent.get(), to->name.c_str(), 0) != 0)
          return failure(move.from + " to " + move.to);
        return status_at(*to, move.to);
      });
}

Result<void> Root::unlink(const Caller& caller, const std::string& path) {
  return as(caller, [&]() -> Result<void> {
    auto place = find_place(descriptor_, path);
    if (!place) return Failure(place.error());
    if (unlinkat(place->parent.get(), place->name.c_str(), 0) != 0) return failure(path);
    return {};
  });
}

Result<void> Root::remove_directory(const Caller& caller, const std::string& path) {
  return as(caller, [&]() -> Result<void> {
    auto place = find_place(descriptor_, path);
    if (!place) return Failure(place.error());
    if (unlinkat(place->parent.get(), place->name.c_str(), AT_REMOVEDIR) != 0) return failure(path);
    return {};
  });
}

Result<struct stat> Root::change(const Caller& caller, const std::string& path, Links links, const Changes& changes) {
  return as(
      caller, [&]() -> Result<struct stat> {
        auto located = locate(descriptor_, path, links);
        if (!located) return Failure(located.error());
        // The owner first: changing it takes set-user-id bits away.
        if ((changes.uid || changes.gid) && fchownat(located->get(), "", changes.uid.value_or(static_cast<uid_t>(-1)),
                                                     changes.gid.value_or(static_cast<gid_t>(-1)), AT_EMPTY_PATH) != 0)
          return failure(path);
        if (changes.mode && fchmodat(AT_FDCWD, located->path().c_str(), *changes.mode & 07777, 0) != 0)
          return failure(path);
        if (changes.accessed || changes.modified) {
          const timespec keep{0, UTIME_OMIT};
          const timespec times[2] = {changes.accessed.value_or(keep), changes.modified.value_or(keep)};
          if (utimensat(located->get(), "", times, AT_EMPTY_PATH) != 0) return failure(path);
        }
        return status_of(*located, path);
      });
}

Result<struct stat> Root::symlink(const Caller& caller, const std::string& path, const std::string& target) {
  return as(
      caller, [&]() -> Result<struct stat> {
        auto place = find_place(descriptor_, path);
        if (!place) return Failure(place.error());
        if (symlinkat(target.c_str(), place->parent.get(), place->name.c_str()) != 0) return failure(path);
        return status_at(*place, path);
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
    const ssize_t length = getxattr(located->path().c_str(), name.c_str(), value.data(), value.size());
    if (length < 0) return failure(path);
    value.resize(static_cast<std::size_t>(length));
    return value;
  });
}

Result<void> Root::set_attribute(const Caller& caller, const std::string& path, const Attribute& attribute) {
  return as(caller, [&]() -> Result<void> {
    auto located = locate(descriptor_, path, Links::kFollow);
    if (!located) return Failure(located.error());
    if (setxattr(located->path().c_str(), attribute.name.c_str(), attribute.value.data(), attribute.value.size(),
                 attribute.flags) != 0)
      return failure(path);
    return {};
  });
}

Result<std::vector<std::string>> Root::list_attributes(const Caller& caller, const std::string& path) {
  return as(caller, [&]() -> Result<std::vector<std::string>> {
    auto located = locate(descriptor_, path, Links::kFollow);
    if (!located) return Failure(located.error());
    std::string names(XATTR_LIST_MAX, '\0');
    const ssize_t length = listxattr(located->path().c_str(), names.data(), names.size());
    if (length < 0) return failure(path);
    std::vector<std::string> list;
    for (std::size_t at = 0; at < static_cast<std::size_t>(length); at += list.back().size() + 1)
      list.emplace_back(names.c_str() + at);
    return list;
  });
}

Result<void> Root::remove_attribute(const Caller& caller, const std::string& path, const std::string& name) {
  return as(caller, [&]() -> Result<void> {
    auto located = locate(descriptor_, path, Links::kFollow);
    if (!located) return Failure(located.error());
    if (removexattr(located->path().c_str(), name.c_str()) != 0) return failure(path);
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
