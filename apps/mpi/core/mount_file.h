// SPDX-License-Identifier: Apache-2.0
// A file of the mount, read and written with system calls at explicit offsets.
#pragma once

#include <string>

#include "base/descriptor.h"
#include "mpi/core/data_file.h"

namespace tutti::mpi {

// Linux has no system call that reads or writes a list of ranges of a file. Parts that adjoin in the file become one
// preadv() or pwritev() with up to IOV_MAX buffers; every gap begins another call. Calls are made in the order of the
// list, and complete before the next one: Issue::issued is called after the last.
//
// Not thread-safe.
class MountFile final : public DataFile {
 public:
  struct Options {
    std::string path;  // absolute
    bool read = true, write = false;
    std::uint64_t inode = 0;  // of the file that MPI opened; 0: not known
  };

  explicit MountFile(Options options) : options_(std::move(options)) {}

  // kIo: open() failed. kNotFound: the path is another file now.
  Result<void> open() override;
  Result<void> write(std::span<const FilePart> parts, const Issue& issue) override;
  Result<std::uint64_t> read(std::span<const FilePart> parts, const Issue& issue) override;
  Result<std::uint64_t> size() override;
  bool cached(std::span<const Extent> extents) override;
  // In the background.
  void prefetch(std::span<const Extent> extents) override;
  Result<void> sync() override;
  Result<void> close() override;

 private:
  Options options_;
  Descriptor file_;
  bool written_ = false;
};

}  // namespace tutti::mpi
