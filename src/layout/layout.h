// SPDX-License-Identifier: Apache-2.0
// Striping: which target holds a byte of a file. Pure arithmetic.
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// A file is cut into stripes of `stripe_size` bytes, dealt out over `stripe_count` columns in turn. Lustre, BeeGFS and
// made-up targets have one target per column. CephFS ends every column's object after `object_size` bytes and goes on
// with the next `stripe_count` objects: object number i lies on targets[i % targets.size()].
struct Layout {
  Bytes stripe_size{std::uint64_t{1} << 20};  // at least 1
  std::uint32_t stripe_count = 1;             // at least 1
  Bytes object_size{};                        // a multiple of stripe_size; 0: objects never end
  std::vector<TargetId> targets{0};           // by object number; not empty
  std::string source = "default";             // who said so: "lustre", "cluster configuration", ...

  // Column 0 is on `first`, column 1 on the target after it, and so on around all `count` targets.
  static Layout round_robin(Bytes stripe_size, std::uint32_t count, std::uint32_t first = 0);

  // kInvalid with what is wrong.
  Result<void> check() const;
};

// Part of an extent that lies on one target without a gap.
struct Piece {
  TargetId target = 0;
  std::uint64_t object = 0;         // the object number in the file
  std::uint64_t object_offset = 0;  // in that object
  std::uint64_t offset = 0;         // in the file
  Bytes length{};

  friend bool operator==(const Piece&, const Piece&) = default;
};

// The pieces of [offset, offset + length) in ascending offsets, none longer than a stripe unless there is one column
// (then as long as the target stays the same). offset + length is at most 2^63.
std::vector<Piece> split(const Layout& layout, std::uint64_t offset, Bytes length);

// Where one byte is: a piece of length 1.
Piece locate(const Layout& layout, std::uint64_t offset);

// The other way: the file's offset of a byte of an object.
std::uint64_t file_offset(const Layout& layout, std::uint64_t object, std::uint64_t object_offset);

}  // namespace tutti
