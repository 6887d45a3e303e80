// SPDX-License-Identifier: Apache-2.0
// MPI datatypes as lists of blocks. Pure functions, no MPI: interpose/datatype.h reads the datatypes.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::mpi {

// Bytes that are contiguous in memory or in a file. The offset is relative to the begin of the datatype.
struct Block {
  std::int64_t offset = 0;
  std::int64_t length = 0;

  friend bool operator==(const Block&, const Block&) = default;
};

// A datatype: its bytes in the order of the type map. Neighbours in the list that adjoin are one block.
struct Flat {
  std::vector<Block> blocks{};
  std::int64_t size = 0;    // bytes of data
  std::int64_t lower = 0;   // lower bound
  std::int64_t extent = 0;  // distance between two elements

  static Flat bytes(std::int64_t count) { return {{{0, count}}, count, 0, count}; }
  // True if several elements in a row are one block.
  bool dense() const { return blocks.size() == 1 && blocks[0].length == extent; }
};

// How a datatype is made from others. The kinds for Fortran integers are the same as the kinds for addresses.
enum class Combiner {
  kContiguous,
  kVector,
  kHvector,
  kIndexed,
  kHindexed,
  kIndexedBlock,
  kHindexedBlock,
  kStruct,
  kSubarray,
  kDarray,
  kResized,
};

// How one dimension of a distributed array is divided (kDarray).
enum class Distribution : std::int64_t { kBlock, kCyclic, kNone };
inline constexpr std::int64_t kDefaultArgument = -1;  // of a distribution
inline constexpr std::int64_t kOrderC = 0, kOrderFortran = 1;

// The arguments of a constructor of datatypes in the order of the C call: counts, block lengths, displacements, as
// MPI_Type_get_contents() returns integers followed by addresses. Distributions and orders are the constants above.
//   kVector         count, block length, stride          kIndexedBlock   count, block length, displacements
//   kIndexed        count, block lengths, displacements  kResized        lower bound, extent
//   kSubarray       dimensions, sizes, sub-sizes, starts, order
//   kDarray         processes, rank, dimensions, sizes, distributions, arguments, processes per dimension, order
struct Construction {
  Combiner combiner = Combiner::kContiguous;
  std::vector<std::int64_t> arguments{};
  std::vector<Flat> children{};  // kStruct: one per block; else one
};

// Datatypes with more blocks are not flattened.
inline constexpr std::size_t kMostBlocks = std::size_t{1} << 24;

// The datatype without its bounds: the caller sets `lower` and `extent` (MPI_Type_get_extent), except for kResized.
// kInvalid: too few arguments or a negative count. kFull: more than kMostBlocks blocks.
Result<Flat> combine(const Construction& construction);

}  // namespace tutti::mpi
