// SPDX-License-Identifier: Apache-2.0
// Local files as ends of a transfer.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/descriptor.h"
#include "transfer_ends.h"

namespace tutti::cli {
namespace {

Failure local_failure(const std::string& path, int error = errno) {
  return fail(ErrorCode::kIo, fmt::format("{}: {}", path, std::strerror(error)), error);
}

TimePoint to_time(const timespec& time) {
  return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

FileStatus to_status(const struct stat& from) {
  return {.inode = from.st_ino,
          .mode = from.st_mode,
          .links = static_cast<std::uint32_t>(from.st_nlink),
          .uid = from.st_uid,
          .gid = from.st_gid,
          .size = static_cast<std::uint64_t>(from.st_size),
          .blocks = static_cast<std::uint64_t>(from.st_blocks),
          .device = from.st_dev,
          .accessed = to_time(from.st_atim),
          .modified = to_time(from.st_mtim),
          .changed = to_time(from.st_ctim)};
}

Result<FileStatus> status_of(const Descriptor& descriptor, const std::string& path) {
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0) return local_failure(path);
  return to_status(status);
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; an error before it
#endif

class LocalSource final : public Source {
 public:
  LocalSource(std::string path, Descriptor descriptor, const StopSignals& signals)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), signals_(signals) {}

  Result<void> open() {
    auto status = status_of(descriptor_, path_);
    if (!status) return Failure(status.error());
    if (status->is_directory()) return local_failure(path_, EISDIR);
    opened_ = *status;
    return {};
  }

  const FileStatus& opened() const override { return opened_; }
  Result<FileStatus> status() override { return status_of(descriptor_, path_); }

  MappedPart map(std::uint64_t offset, std::size_t length) override {
    if (!S_ISREG(opened_.mode) || path_ == "-" || offset + length > opened_.size) return {};
    void* const memory = mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor_.get(), static_cast<off_t>(offset));
    if (memory == MAP_FAILED) return {};
    MappedPart part({static_cast<const std::byte*>(memory), length});
    // Reads the file, and finds out whether all of it is there.
    if (madvise(memory, length, MADV_POPULATE_READ) != 0) return {};
    return part;
  }

  std::optional<std::uint32_t> permissions() const override {
    if (path_ == "-" || !S_ISREG(opened_.mode)) return std::nullopt;
    return opened_.mode & 0777;
  }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    const bool regular = S_ISREG(opened_.mode) && path_ != "-";
    std::size_t filled = 0;
    while (filled < into.size()) {
      const bool go_on = regular ? signals_.number() == 0 : signals_.wait_until_readable(descriptor_.get());
      if (!go_on) return fail(ErrorCode::kStopped, "stopped by a signal");
      std::byte* const to = into.data() + filled;
      const ssize_t got = regular
                              ? pread(descriptor_.get(), to, into.size() - filled, static_cast<off_t>(offset + filled))
                              : ::read(descriptor_.get(), to, into.size() - filled);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got < 0) return local_failure(path_);
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    return filled;
  }

  // Files in /sys and /proc are shorter or longer than their size without ever changing it. Standard input need not be
  // read from the beginning of its file.
  Result<void> check_end(std::uint64_t bytes_read) override {
    if (!S_ISREG(opened_.mode)) return {};
    const auto now = status();
    if (!now) return Failure(now.error());
    const bool modified = now->modified != opened_.modified;
    const bool incomplete = bytes_read < opened_.size && (now->size < opened_.size || (modified && path_ != "-"));
    const bool shorter = now->size < bytes_read && modified;
    if (!incomplete && !shorter) return {};
    return fail(ErrorCode::kIo, path_ + " changed while it was copied");
  }

 private:
  const std::string path_;
  const Descriptor descriptor_;
  const StopSignals& signals_;
  FileStatus opened_;
};

// The number of the descriptor that a path stands for: -1 if for none. Opening such a path could open a regular file
// behind it a second time, and replacing that file would lose what other programs have written through the descriptor.
int descriptor_behind(std::string_view path) {
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const auto digits = path.substr(folder.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc{} && end == digits.data() + digits.size()) return number;
  }
  return -1;
}

class LocalDestination final : public Destination {
 public:
  explicit LocalDestination(DestinationName name) : path_(std::move(name.path)), name_(std::move(name.name)) {}

  Result<std::optional<FileStatus>> look() override {
    if (const int number = descriptor_behind(path_); number >= 0) return look_at_descriptor(number);
    struct stat status {};
    bool exists = ::stat(path_.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
      in_directory_ = true;
      path_ += (path_.ends_with('/') ? "" : "/") + name_;
      exists = ::stat(path_.c_str(), &status) == 0;
      if (exists && S_ISDIR(status.st_mode)) return local_failure(path_, EISDIR);
    }
    if (!exists) return look_at_nothing(errno);
    if (S_ISSOCK(status.st_mode)) return fail(ErrorCode::kIo, path_ + " is a socket");
    direct_ = !S_ISREG(status.st_mode);
    if (direct_) return to_status(status);
    if (faccessat(AT_FDCWD, path_.c_str(), W_OK, AT_EACCESS) != 0) return local_failure(path_);
    struct stat link {};
    if (lstat(path_.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
      char resolved[PATH_MAX];
      if (realpath(path_.c_str(), resolved) == nullptr) return local_failure(path_);
      path_ = resolved;
    }
    return to_status(status);
  }

  const std::string& path() const override { return path_; }
  bool in_directory() const override { return in_directory_; }
  bool direct() const override { return direct_; }

  Result<void> create(std::optional<std::uint32_t> permissions) override {
    if (direct_ && !descriptor_) descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
    if (direct_) return descriptor_ ? Result<void>{} : local_failure(path_);
    permissions_ = permissions;
    const std::size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path_.substr(0, slash + 1);
    final_name_ = slash == std::string::npos ? path_ : path_.substr(slash + 1);
    if (auto opened = open_directory(folder.empty() ? "." : folder); !opened) return opened;
    temporary_name_ = temporary_name(final_name_);
    descriptor_ = Descriptor(openat(directory_.get(), temporary_name_.c_str(),
                                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, permissions ? 0600 : 0644));
    if (!descriptor_) return local_failure("cannot create a temporary file: " + folder + temporary_name_);
    temporary_ = folder + temporary_name_;
    return {};
  }

  Result<void> write(std::uint64_t offset, std::span<const std::byte> from) override {
    while (!from.empty()) {
      const ssize_t put = direct_ ? ::write(descriptor_.get(), from.data(), from.size())
                                  : pwrite(descriptor_.get(), from.data(), from.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return local_failure(direct_ ? path_ : temporary_);
      written_ += static_cast<std::uint64_t>(put);
      offset += static_cast<std::uint64_t>(put);
      from = from.subspan(static_cast<std::size_t>(put));
    }
    return {};
  }
  Result<std::size_t> copy(File& source, std::uint64_t offset, std::size_t length) override {
    auto copied = source.read_to(descriptor_.get(), offset, offset, length);
    if (copied) written_ += *copied;
    return copied;
  }
  std::uint64_t written() const override { return written_; }

  Result<void> stabilise() override {
    if (auto done = set_permissions(); !done) return done;
    return direct_ || fsync(descriptor_.get()) == 0 ? Result<void>{} : local_failure(temporary_);
  }

  Result<void> commit(bool stable) override {
    if (direct_) return {};
    if (auto done = set_permissions(); !done) return done;
    if (renameat(directory_.get(), temporary_name_.c_str(), directory_.get(), final_name_.c_str()) != 0)
      return local_failure(fmt::format("cannot rename {} to {}", temporary_, path_));
    temporary_.clear();
    // EINVAL: this file system has no way to sync a directory.
    if (stable && can_sync_directory_ && fsync(directory_.get()) != 0 && errno != EINVAL)
      return fail(ErrorCode::kIo,
                  fmt::format("{} is complete, but its directory could not be synced, so that a power failure may undo "
                              "the transfer: {}",
                              path_, std::strerror(errno)),
                  errno);
    return {};
  }

  const std::string& temporary() const override { return temporary_; }
  Result<void> remove_temporary() override {
    if (unlinkat(directory_.get(), temporary_name_.c_str(), 0) != 0 && errno != ENOENT)
      return local_failure(temporary_);
    temporary_.clear();
    return {};
  }

 private:
  // Once.
  Result<void> set_permissions() {
    const auto permissions = std::exchange(permissions_, std::nullopt);
    if (direct_ || !permissions || fchmod(descriptor_.get(), *permissions) == 0) return {};
    if (!cannot_store_modes(errno)) return local_failure(temporary_);
    warn_about_mode(path_, *permissions);
    return {};
  }

  Result<std::optional<FileStatus>> look_at_descriptor(int number) {
    direct_ = true;
    const int flags = fcntl(number, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) return local_failure(path_, EBADF);  // a descriptor of our own
    descriptor_ = Descriptor(fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (!descriptor_) return local_failure(path_);
    auto status = status_of(descriptor_, path_);
    if (!status) return Failure(status.error());
    return *status;
  }

  Result<std::optional<FileStatus>> look_at_nothing(int error) {
    struct stat link {};
    if (error != ENOENT) return local_failure(path_, error);
    if (path_.ends_with('/')) return local_failure(path_, ENOTDIR);
    if (lstat(path_.c_str(), &link) == 0)
      return fail(ErrorCode::kIo, path_ + " is a symbolic link to a file that does not exist", ENOENT);
    return std::optional<FileStatus>{};
  }

  // A directory that the caller may not list can still be written to, but not synced.
  Result<void> open_directory(const std::string& folder) {
    directory_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    can_sync_directory_ = static_cast<bool>(directory_);
    if (!directory_) directory_ = Descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return directory_ ? Result<void>{} : local_failure(folder);
  }

  std::string path_;
  const std::string name_;  // of the new file if path_ is a directory
  bool in_directory_ = false;
  bool direct_ = false;
  Descriptor descriptor_, directory_;
  bool can_sync_directory_ = false;
  std::atomic<std::uint64_t> written_ = 0;
  std::optional<std::uint32_t> permissions_;
  std::string final_name_, temporary_name_;  // in directory_
  std::string temporary_;
};

}  // namespace

MappedPart::~MappedPart() {
  if (!memory_.empty()) munmap(const_cast<std::byte*>(memory_.data()), memory_.size());
}

Result<std::unique_ptr<Source>> open_local_source(const std::string& path, const StopSignals& signals) {
  Descriptor descriptor(path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                    : ::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
  if (!descriptor) return local_failure(path);
  auto source = std::make_unique<LocalSource>(path, std::move(descriptor), signals);
  if (auto opened = source->open(); !opened) return Failure(opened.error());
  return source;
}

std::unique_ptr<Destination> local_destination(DestinationName name) {
  return std::make_unique<LocalDestination>(std::move(name));
}

}  // namespace tutti::cli
