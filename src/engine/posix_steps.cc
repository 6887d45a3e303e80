// SPDX-License-Identifier: Apache-2.0
#include "engine/posix_steps.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <memory>

namespace tutti {
namespace {

bool aligned(const void* address, std::uint64_t length) {
  return (reinterpret_cast<std::uintptr_t>(address) | length) % kDirectAlignment == 0;
}

// At most PagePipe::kFilePiece of a write to a local file.
Step cut(Operation& operation, const Step& buffered) {
  if (operation.kind != Operation::Kind::kWrite || !operation.file->local()) return buffered;
  unsigned count = 0;
  for (std::size_t left = PagePipe::kFilePiece; count < buffered.count && buffered.memory[count].iov_len <= left;)
    left -= buffered.memory[count++].iov_len;
  if (count > 0) return {buffered.descriptor, false, buffered.memory, count};
  operation.progress.partial = {buffered.memory->iov_base, PagePipe::kFilePiece};
  return {buffered.descriptor, false, &operation.progress.partial, 1};
}

}  // namespace

bool is_cached(int descriptor, std::uint64_t offset, std::uint64_t length) {
  constexpr long kCachestat = 451;
  constexpr std::uint64_t kPage = 4096;
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return false;
  const std::uint64_t end = std::min<std::uint64_t>(offset + length, static_cast<std::uint64_t>(status.st_size));
  if (end <= offset) return false;
  struct {
    std::uint64_t offset, length;
  } range{offset, end - offset};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } found{};
  if (syscall(kCachestat, descriptor, &range, &found, 0) != 0) return false;
  if (found.cached < (end - 1) / kPage - offset / kPage + 1) return false;
  char last = 0;
  const iovec byte{&last, 1};
  return preadv2(descriptor, &byte, 1, static_cast<off_t>(end - 1), RWF_NOWAIT) == 1;
}

Step next_step(Operation& operation) {
  const Operation::Progress& progress = operation.progress;
  const std::size_t left = std::min<std::size_t>(operation.memory.size() - progress.piece, IOV_MAX);
  iovec* const first = &operation.memory[progress.piece];
  const Step buffered{operation.file->descriptor(), false, first, static_cast<unsigned>(left)};
  const int direct = operation.file->direct_descriptor();
  if (direct < 0 || progress.avoid_direct || progress.offset % kDirectAlignment != 0) return cut(operation, buffered);
  unsigned whole = 0;
  while (whole < left && aligned(first[whole].iov_base, first[whole].iov_len)) ++whole;
  if (whole > 0) return {direct, true, first, whole};
  if (!aligned(first->iov_base, 0) || first->iov_len < kDirectAlignment) return cut(operation, buffered);
  operation.progress.partial = {first->iov_base, first->iov_len / kDirectAlignment * kDirectAlignment};
  return {direct, true, &operation.progress.partial, 1};
}

bool advance(Operation& operation, std::uint64_t moved) {
  Operation::Progress& progress = operation.progress;
  operation.transferred += moved;
  progress.offset += moved;
  while (progress.piece < operation.memory.size()) {
    iovec& piece = operation.memory[progress.piece];
    const std::uint64_t here = std::min<std::uint64_t>(moved, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + here;
    piece.iov_len -= here;
    moved -= here;
    if (piece.iov_len > 0) return false;
    ++progress.piece;
  }
  return true;
}

namespace {

constexpr std::size_t kCopyPiece = 4 << 20;     // of copy_file_range()
constexpr std::size_t kCopyMemory = 256 << 10;  // of one copy by reads and writes

// Reads and writes a piece. Returns the bytes written, 0 at the end of the source or after the deadline, or -1 with
// errno.
ssize_t copy_through_memory(Operation& operation, std::span<char> memory) {
  const std::uint64_t done = operation.transferred;
  const std::size_t most = std::min<std::uint64_t>(memory.size(), operation.copy_length - done);
  const ssize_t got =
      pread(operation.source->descriptor(), memory.data(), most, static_cast<off_t>(operation.source_offset + done));
  if (got <= 0) return got;
  ssize_t put = 0;
  while (put < got) {
    if (!operation.in_time()) return put;
    const ssize_t more = pwrite(operation.file->descriptor(), memory.data() + put, static_cast<std::size_t>(got - put),
                                static_cast<off_t>(operation.offset + done) + put);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) {
      if (more == 0) errno = EIO;
      return put > 0 ? put : -1;
    }
    put += more;
  }
  return put;
}

bool has_no_copies(int error) {
  return error == EXDEV || error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == EPERM ||
         error == ETXTBSY;
}

}  // namespace

void copy_range(Operation& operation) {
  const ActingAs acting(*operation.file->owner());
  if (!acting.ok()) {
    operation.error = EACCES;
    return;
  }
  std::unique_ptr<char[]> memory;
  while (operation.transferred < operation.copy_length) {
    if (!operation.in_time()) return;
    auto from = static_cast<off_t>(operation.source_offset + operation.transferred);
    auto to = static_cast<off_t>(operation.offset + operation.transferred);
    const std::size_t most = std::min<std::uint64_t>(kCopyPiece, operation.copy_length - operation.transferred);
    const ssize_t moved =
        memory ? copy_through_memory(operation, {memory.get(), kCopyMemory})
               : copy_file_range(operation.source->descriptor(), &from, operation.file->descriptor(), &to, most, 0);
    if (moved > 0)
      operation.transferred += static_cast<std::uint64_t>(moved);
    else if (moved == 0)
      return;  // the end of the source, or the deadline
    else if (!memory && has_no_copies(errno))
      memory = std::make_unique_for_overwrite<char[]>(kCopyMemory);
    else if (errno != EINTR) {
      operation.error = errno;
      return;
    }
  }
}

bool moves_pages(Operation& operation) {
  if (operation.pages == nullptr) return false;
  const bool direct = operation.file->direct_descriptor() >= 0;
  const std::uint64_t length = operation.length();
  if (length > PagePipe::kMost || (direct && (operation.offset | length) % kDirectAlignment != 0)) return false;
  if (operation.kind == Operation::Kind::kRead) return direct && operation.pages->open();
  return operation.pages->left() == length;
}

namespace {

// Continues without pages: copies the rest of a write's pages, or the pages a read has received, into the memory.
void leave_pages(Operation& operation) {
  operation.progress.paged = false;
  if (operation.kind == Operation::Kind::kWrite) return operation.copy_pages_to_memory();
  const std::size_t came = operation.pages->left();
  const bool complete = operation.pages->read({static_cast<std::byte*>(operation.memory[0].iov_base), came});
  assert(complete);
  (void)complete;
  *operation.pages = {};
  operation.pages = nullptr;
  advance(operation, came);
}

}  // namespace

bool pages_moved(Operation& operation, int result) {
  const bool read = operation.kind == Operation::Kind::kRead;
  if (result > 0 && read) {
    operation.pages->put_in(result);
    if (operation.pages->size() == operation.length()) {
      operation.transferred = operation.pages->size();
      return true;
    }
  }
  if (result > 0 && !read) {
    operation.pages->took_out(result);
    const bool complete = advance(operation, static_cast<std::uint64_t>(result));
    if (complete || operation.file->direct_descriptor() < 0) return complete;
  }
  leave_pages(operation);
  return false;
}

}  // namespace tutti
