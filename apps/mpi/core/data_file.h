// SPDX-License-Identifier: Apache-2.0
// The data of a file: on the mount (mount_file.h), or through the nodes of a cluster (carried_file.h).
#pragma once

#include <tutti/sched.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "mpi/core/view.h"

namespace tutti::mpi {

// Bytes of the file and where they are in memory.
struct FilePart {
  std::uint64_t offset = 0;
  std::byte* memory = nullptr;
  std::size_t length = 0;
};

// How a read or write is issued.
struct Issue {
  const Stamp* stamp = nullptr;  // of an operation of several processes; nullptr: of this process alone
  // Called once while the operation is under way: `delay` after it was issued, or when it has completed.
  std::function<void()> issued{};  // empty: none
  Duration delay{};
};

// Opened at the first use, so that ranks that do no I/O of their own do not open the file.
class DataFile {
 public:
  virtual ~DataFile() = default;

  virtual Result<void> open() = 0;
  // Writes everything or returns the first error. After an error it is unknown how much was written.
  virtual Result<void> write(std::span<const FilePart> parts, const Issue& issue) = 0;
  // Returns the size of the file if a part is after its end, else UINT64_MAX. Bytes after the end are not changed.
  virtual Result<std::uint64_t> read(std::span<const FilePart> parts, const Issue& issue) = 0;
  // Of the file, now. kNotFound: unknown, because nodes carry it.
  virtual Result<std::uint64_t> size() {
    return fail(ErrorCode::kNotFound, "the size of a file of nodes is not known");
  }
  // True: reads of these ranges need no device, as far as the first and the last of them tell. False: also if unknown.
  virtual bool cached(std::span<const Extent>) { return false; }
  // Brings these ranges into the servers' caches. Errors are ignored.
  virtual void prefetch(std::span<const Extent> extents) = 0;

  // Makes what was written through this object durable. Does nothing if nothing was written.
  virtual Result<void> sync() = 0;
  // An error: an earlier write failed in the background (NFS, quotas).
  virtual Result<void> close() = 0;
};

}  // namespace tutti::mpi
