// SPDX-License-Identifier: Apache-2.0
// A file of the mount, read and written with system calls at explicit offsets.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "mpi/core/view.h"

namespace tutti::mpi {

// Bytes of the file and where they are in memory.
struct FilePart {
  std::uint64_t offset = 0;
  std::byte* memory = nullptr;
  std::size_t length = 0;
};

// Linux has no system call that reads or writes a list of ranges of a file. Parts that adjoin in the file become one
// preadv() or pwritev() with up to IOV_MAX buffers; every gap begins another call. Calls are made in the order of the
// list.
//
// Opened at the first use, so that ranks that do no I/O of their own do not open the file. Not thread-safe.
class MountFile {
 public:
  struct Options {
    std::string path;  // absolute
    bool read = true, write = false;
    std::uint64_t inode = 0;  // of the file that MPI opened; 0: not known
  };

  explicit MountFile(Options options) : options_(std::move(options)) {}

  // kIo: open() failed. kNotFound: the path is another file now.
  Result<void> open();

  // Writes everything or returns the error of the first call that failed.
  Result<void> write(std::span<const FilePart> parts);
  // Returns the size of the file if a part is after its end, else UINT64_MAX. Bytes after the end are not changed.
  Result<std::uint64_t> read(std::span<const FilePart> parts);
  // Asks the kernel to read these ranges in the background.
  void prefetch(std::span<const Extent> extents);

  // Makes what was written through this object durable. Does nothing if nothing was written.
  Result<void> sync();
  // kIo: an earlier write failed in the background (NFS, quotas).
  Result<void> close();

 private:
  Options options_;
  Descriptor file_;
  bool written_ = false;
};

}  // namespace tutti::mpi
