// SPDX-License-Identifier: Apache-2.0
// File views: which bytes of the file an access uses. Pure.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <vector>

#include "collective/access.h"
#include "mpi/core/flat.h"

namespace tutti::mpi {

using collective::Extent;

// An access through a view: `bytes` of data, beginning `etypes` elementary datatypes after the begin of the view.
struct ViewAccess {
  std::int64_t etypes = 0;
  std::int64_t bytes = 0;
};

// The view of one process. Immutable.
class FileView {
 public:
  // The default view: all bytes of the file.
  FileView() : FileView(0, 1, Flat::bytes(1)) {}
  FileView(std::int64_t displacement, std::int64_t etype_size, Flat filetype);

  std::int64_t etype_size() const { return etype_size_; }
  const Flat& filetype() const { return filetype_; }
  // Two blocks of the file type have a byte in common.
  bool overlaps() const { return overlaps_; }
  // True if the view has no bytes at all: every access of more than 0 bytes is wrong.
  bool empty() const { return filetype_.size == 0; }

  // The bytes of the file in the order of the data; adjoining extents are merged. kInvalid: a negative position, an
  // empty view, or an end after 2^63 - 1. kFull: more than kMostBlocks extents.
  Result<std::vector<Extent>> extents(const ViewAccess& access) const;

 private:
  std::int64_t displacement_;
  std::int64_t etype_size_;
  Flat filetype_;
  std::vector<std::int64_t> before_;  // bytes of data before each block of the file type
  std::int64_t lowest_ = 0;           // offset of the file type's first byte
  std::int64_t highest_ = 0;          // and of the end of its last one
  bool overlaps_ = false;
};

// Bytes of the data that are before `end` in the file.
std::uint64_t bytes_before(const std::vector<Extent>& extents, std::uint64_t end);

}  // namespace tutti::mpi
