// SPDX-License-Identifier: Apache-2.0
// What a rank asks for in a collective operation: ranges of one file. Pure functions and values.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace tutti::collective {

// A contiguous range of a file. offset + length is at most 2^63.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  std::uint64_t end() const { return offset + length; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// `count` extents of `length` bytes; each begins `stride` bytes after the one before it. A single extent has count 1,
// its stride does not matter. length 0 or count 0: no bytes.
struct ExtentRun {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t stride = 0;
  std::uint64_t count = 1;

  Extent at(std::uint64_t index) const { return {offset + index * stride, length}; }
  friend bool operator==(const ExtentRun&, const ExtentRun&) = default;
};

// The bytes that one rank reads or writes, in the order in which they are in its memory. Usual MPI file views give
// ascending lists without overlap; any other order is accepted. A vector datatype of a million blocks is one run, so
// that the lists of all ranks are cheap to gather. Runs are plain integers: the list may be sent as bytes.
using AccessList = std::vector<ExtentRun>;
static_assert(std::is_trivially_copyable_v<ExtentRun> && sizeof(ExtentRun) == 32);

// Finds runs of equal length and stride. expand(compress(extents)) has the same bytes in the same order; extents that
// adjoin are joined, extents of length 0 are dropped.
AccessList compress(std::span<const Extent> extents);
std::vector<Extent> expand(const AccessList& list);

constexpr std::uint64_t kMostExtents = std::uint64_t{1} << 31;  // of a list

// kInvalid: a range is beyond 2^63, or a list has more than 2^31 extents or 2^63 bytes. The message names the run.
Result<void> check(const AccessList& list);

// True if the extents ascend and do not overlap.
bool ascending(const AccessList& list);

// The bytes of a list without its order: ascending, no overlap. Adjoining runs of count 1 are joined.
AccessList sorted(const AccessList& list);

std::uint64_t bytes_of(const AccessList& list);

// Finds the bytes of a file in a rank's packed memory, that is, memory that holds the extents of its list one after the
// other. With the flattened memory datatype the caller maps packed positions to addresses.
//
// Immutable after construction; thread-safe. Needs memory in proportion to the runs of an ascending list, and to the
// extents of any other list.
class PackedMemory {
 public:
  struct Part {
    std::uint64_t offset = 0;    // in the file
    std::uint64_t position = 0;  // in packed memory
    std::uint64_t length = 0;
  };

  // The list must have passed check().
  explicit PackedMemory(const AccessList& list);

  // Appends the parts of `extent` that are in the list, by ascending file offset. A byte that the list has twice is in
  // two parts. Bytes that are not in the list are skipped.
  void find(const Extent& extent, std::vector<Part>& parts) const;

  std::uint64_t size() const { return size_; }

 private:
  struct Entry {
    ExtentRun run;
    std::uint64_t position = 0;  // of its first extent
    std::uint64_t reach = 0;     // the largest end of this and all earlier entries
  };

  std::vector<Entry> entries_;  // ascending offsets
  std::uint64_t size_ = 0;
};

}  // namespace tutti::collective
