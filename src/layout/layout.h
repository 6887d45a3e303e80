// SPDX-License-Identifier: Apache-2.0
// Striping: which target holds a byte of a file. Pure functions.
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// A file consists of stripes of `stripe_size` bytes, distributed round robin over `stripe_count` columns. Lustre,
// BeeGFS and virtual targets have one target per column. On CephFS a column's object ends after `object_size` bytes,
// and the next `stripe_count` objects follow: object number i is on targets[i % targets.size()].
struct Layout {
  Bytes stripe_size{std::uint64_t{1} << 20};  // at least 1
  std::uint32_t stripe_count = 1;             // at least 1
  Bytes object_size{};                        // a multiple of stripe_size; 0: objects never end
  std::vector<TargetId> targets{0};           // by object number; not empty
  std::string source = "default";             // where it was read from: "lustre", "cluster configuration", ...

  // Column 0 is on target `first`, column 1 on the next target, and so on, cyclic over `count` targets.
  static Layout round_robin(Bytes stripe_size, std::uint32_t count, std::uint32_t first = 0);

  // kInvalid if a rule above is broken.
  Result<void> check() const;
};

// The striping as requests have it (Request::stripe_log2 and stripe_count). A layout that they cannot express (stripes
// that are not a power of two, objects that end) has a count of 0: not known.
struct Striping {
  std::uint8_t log2 = 0;
  std::uint16_t count = 0;
};
Striping striping_of(const Layout& layout);

// Part of a file range that is contiguous in one object of one target.
struct Piece {
  TargetId target = 0;
  std::uint64_t object = 0;         // the object number in the file
  std::uint64_t object_offset = 0;  // in that object
  std::uint64_t offset = 0;         // in the file
  Bytes length{};

  friend bool operator==(const Piece&, const Piece&) = default;
};

// The pieces of [offset, offset + length) in ascending offsets. A piece is at most one stripe long; with a single
// column it is as long as the object lasts. offset + length is at most 2^63.
std::vector<Piece> split(const Layout& layout, std::uint64_t offset, Bytes length);

// The piece of length 1 at `offset`.
Piece locate(const Layout& layout, std::uint64_t offset);

// The inverse: the file offset of a byte of an object.
std::uint64_t file_offset(const Layout& layout, std::uint64_t object, std::uint64_t object_offset);

}  // namespace tutti
