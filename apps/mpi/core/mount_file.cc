// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/mount_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

namespace tutti::mpi {
namespace {

// One system call moves less than 2 GiB (Linux).
constexpr std::size_t kMostPerCall = std::size_t{1} << 30;
constexpr std::size_t kMostBuffers = 256;

Failure failed(const char* what, const std::string& path, int error) {
  return fail(ErrorCode::kIo, fmt::format("{} {}: {}", what, path, std::strerror(error)), error);
}

// The buffers of one call: parts that adjoin in the file, from byte `done` of the first one.
struct Call {
  std::array<iovec, kMostBuffers> buffers;
  int count = 0;
  off_t offset = 0;
};

void fill(Call& call, std::span<const FilePart> parts, std::size_t done) {
  call.count = 0;
  call.offset = static_cast<off_t>(parts.front().offset + done);
  std::uint64_t next = parts.front().offset;
  std::size_t total = 0;
  for (const FilePart& part : parts) {
    if (part.offset != next || static_cast<std::size_t>(call.count) == kMostBuffers || total >= kMostPerCall) break;
    const std::size_t skip = call.count == 0 ? done : 0;
    const std::size_t length = std::min(part.length - skip, kMostPerCall - total);
    call.buffers[static_cast<std::size_t>(call.count++)] = {part.memory + skip, length};
    total += length;
    if (length < part.length - skip) break;
    next = part.offset + part.length;
  }
}

// Calls `move` until all parts are done, or until it returns 0 or an error. Returns errno or 0; `rest` is what is left.
template <typename Move>
int move_all(std::span<const FilePart>& rest, std::size_t& done, Move move) {
  Call call;
  while (!rest.empty()) {
    if (rest.front().length == done) {
      rest = rest.subspan(1);
      done = 0;
      continue;
    }
    fill(call, rest, done);
    const ssize_t moved = move(call);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (moved == 0) return 0;
    done += static_cast<std::size_t>(moved);
    while (!rest.empty() && done >= rest.front().length) {
      done -= rest.front().length;
      rest = rest.subspan(1);
    }
  }
  return 0;
}

}  // namespace

Result<void> MountFile::open() {
  if (file_) return {};
  const int access = options_.write ? (options_.read ? O_RDWR : O_WRONLY) : O_RDONLY;
  Descriptor file(::open(options_.path.c_str(), access | O_CLOEXEC));
  if (!file) return failed("cannot open", options_.path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed("cannot open", options_.path, errno);
  if (options_.inode != 0 && status.st_ino != options_.inode)
    return fail(ErrorCode::kNotFound, options_.path + " was replaced by another file after it was opened");
  file_ = std::move(file);
  return {};
}

Result<void> MountFile::write(std::span<const FilePart> parts, const Issue& issue) {
  if (parts.empty()) return {};
  if (auto opened = open(); !opened) return opened;
  written_ = true;
  std::size_t done = 0;
  const int error = move_all(
      parts, done, [this](const Call& c) { return ::pwritev(file_.get(), c.buffers.data(), c.count, c.offset); });
  if (error != 0) return failed("cannot write", options_.path, error);
  if (!parts.empty()) return failed("cannot write", options_.path, ENOSPC);  // pwritev() returned 0
  if (issue.issued) issue.issued();
  return {};
}

Result<std::uint64_t> MountFile::read(std::span<const FilePart> parts, const Issue& issue) {
  constexpr auto kInside = std::numeric_limits<std::uint64_t>::max();
  if (parts.empty()) return kInside;
  if (auto opened = open(); !opened) return Failure(opened.error());
  std::uint64_t end = kInside;
  std::size_t done = 0;  // of the first part
  while (!parts.empty()) {
    const int error = move_all(
        parts, done, [this](const Call& c) { return ::preadv(file_.get(), c.buffers.data(), c.count, c.offset); });
    if (error != 0) return failed("cannot read", options_.path, error);
    if (parts.empty()) break;
    const auto now = size();
    if (!now) return Failure(now.error());
    if (*now > parts.front().offset + done) continue;  // the file has grown
    end = std::min(end, *now);
    // Later parts may be before the end: lists need not ascend.
    do {
      parts = parts.subspan(1);
    } while (!parts.empty() && parts.front().offset >= end);
    done = 0;
  }
  if (issue.issued) issue.issued();
  return end;
}

Result<std::uint64_t> MountFile::size() {
  if (auto opened = open(); !opened) return Failure(opened.error());
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return failed("cannot find the size of", options_.path, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

bool MountFile::cached(std::span<const Extent> extents) {
  if (extents.empty()) return true;
  if (!open()) return false;
  const auto read_now = [this](std::uint64_t offset) {
    std::byte byte{};
    const iovec buffer{&byte, 1};
    return ::preadv2(file_.get(), &buffer, 1, static_cast<off_t>(offset), RWF_NOWAIT) >= 0;
  };
  return read_now(extents.front().offset) && read_now(extents.back().end() - 1);
}

void MountFile::prefetch(std::span<const Extent> extents) {
  if (!open()) return;
  for (const Extent& extent : extents)
    ::posix_fadvise(file_.get(), static_cast<off_t>(extent.offset), static_cast<off_t>(extent.length),
                    POSIX_FADV_WILLNEED);
}

Result<void> MountFile::sync() {
  if (!file_ || !written_) return {};
  if (::fsync(file_.get()) != 0) return failed("cannot sync", options_.path, errno);
  written_ = false;
  return {};
}

Result<void> MountFile::close() {
  if (!file_) return {};
  const bool written = std::exchange(written_, false);
  if (::close(file_.release()) != 0 && written && errno != EINTR) return failed("cannot close", options_.path, errno);
  return {};
}

}  // namespace tutti::mpi
