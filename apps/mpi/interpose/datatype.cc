// SPDX-License-Identifier: Apache-2.0
#include "mpi/interpose/datatype.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <vector>

namespace tutti::mpi {
namespace {

Failure refused(const char* what) {
  return fail(ErrorCode::kInvalid, fmt::format("{} failed for a datatype", what));
}

struct Bounds {
  MPI_Count lower = 0, extent = 0, size = 0;
};

Result<Bounds> bounds_of(MPI_Datatype type) {
  Bounds bounds;
  if (PMPI_Type_get_extent_x(type, &bounds.lower, &bounds.extent) != MPI_SUCCESS) return refused("MPI_Type_get_extent");
  if (PMPI_Type_size_x(type, &bounds.size) != MPI_SUCCESS) return refused("MPI_Type_size");
  return bounds;
}

// What a datatype was made from.
struct Contents {
  int combiner = MPI_COMBINER_NAMED;
  std::vector<int> integers{};
  std::vector<MPI_Aint> addresses{};
  std::vector<MPI_Count> counts{};  // of constructors with suffix _c (MPI 4)
  std::vector<MPI_Datatype> types{};

  // MPI_Type_get_contents() makes a reference to each datatype.
  ~Contents();
  Contents() = default;
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
};

// The combiner of a datatype; MPI_COMBINER_NAMED if MPI does not report it. MPI 4 describes types that were made by
// calls with suffix _c only through MPI_Type_get_envelope_c().
int combiner_number(MPI_Datatype type) {
  int combiner = MPI_COMBINER_NAMED;
#if MPI_VERSION >= 4
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
  PMPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner);
#else
  int integers = 0, addresses = 0, types = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
#endif
  return combiner;
}

// Predefined datatypes, and those of MPI_Type_create_f90_real and its like, must not be freed.
bool predefined(MPI_Datatype type) {
  const int combiner = combiner_number(type);
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
         combiner == MPI_COMBINER_F90_INTEGER;
}

Contents::~Contents() {
  for (MPI_Datatype& type : types)
    if (!predefined(type)) PMPI_Type_free(&type);
}

Result<void> read_contents(MPI_Datatype type, Contents& contents) {
#if MPI_VERSION >= 4
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
  if (PMPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &contents.combiner) != MPI_SUCCESS)
    return refused("MPI_Type_get_envelope");
  contents.counts.resize(static_cast<std::size_t>(counts));
#else
  int integers = 0, addresses = 0, types = 0;
  if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &contents.combiner) != MPI_SUCCESS)
    return refused("MPI_Type_get_envelope");
#endif
  if (contents.combiner == MPI_COMBINER_NAMED) return {};
  contents.integers.resize(static_cast<std::size_t>(integers));
  contents.addresses.resize(static_cast<std::size_t>(addresses));
  std::vector<MPI_Datatype> children(static_cast<std::size_t>(types), MPI_DATATYPE_NULL);
#if MPI_VERSION >= 4
  const int result = PMPI_Type_get_contents_c(type, integers, addresses, counts, types, contents.integers.data(),
                                              contents.addresses.data(), contents.counts.data(), children.data());
#else
  const int result = PMPI_Type_get_contents(type, integers, addresses, types, contents.integers.data(),
                                            contents.addresses.data(), children.data());
#endif
  if (result != MPI_SUCCESS) return refused("MPI_Type_get_contents");
  contents.types = std::move(children);
  return {};
}

// Constructors of MPI 1 for Fortran integers. Open MPI 4 does not name these combiners any more.
#ifndef OPEN_MPI
std::optional<Combiner> fortran_combiner_of(int combiner) {
  if (combiner == MPI_COMBINER_HVECTOR_INTEGER) return Combiner::kHvector;
  if (combiner == MPI_COMBINER_HINDEXED_INTEGER) return Combiner::kHindexed;
  if (combiner == MPI_COMBINER_STRUCT_INTEGER) return Combiner::kStruct;
  return std::nullopt;
}
#else
std::optional<Combiner> fortran_combiner_of(int) {
  return std::nullopt;
}
#endif

std::optional<Combiner> combiner_of(int combiner) {
  switch (combiner) {
    case MPI_COMBINER_CONTIGUOUS:
      return Combiner::kContiguous;
    case MPI_COMBINER_VECTOR:
      return Combiner::kVector;
    case MPI_COMBINER_HVECTOR:
      return Combiner::kHvector;
    case MPI_COMBINER_INDEXED:
      return Combiner::kIndexed;
    case MPI_COMBINER_HINDEXED:
      return Combiner::kHindexed;
    case MPI_COMBINER_INDEXED_BLOCK:
      return Combiner::kIndexedBlock;
    case MPI_COMBINER_HINDEXED_BLOCK:
      return Combiner::kHindexedBlock;
    case MPI_COMBINER_STRUCT:
      return Combiner::kStruct;
    case MPI_COMBINER_SUBARRAY:
      return Combiner::kSubarray;
    case MPI_COMBINER_DARRAY:
      return Combiner::kDarray;
    case MPI_COMBINER_RESIZED:
      return Combiner::kResized;
    default:
      return fortran_combiner_of(combiner);
  }
}

std::int64_t order_of(std::int64_t order) {
  return order == MPI_ORDER_FORTRAN ? kOrderFortran : kOrderC;
}

std::int64_t distribution_of(std::int64_t distribution) {
  if (distribution == MPI_DISTRIBUTE_BLOCK) return static_cast<std::int64_t>(Distribution::kBlock);
  if (distribution == MPI_DISTRIBUTE_CYCLIC) return static_cast<std::int64_t>(Distribution::kCyclic);
  return static_cast<std::int64_t>(Distribution::kNone);
}

// The arguments in the order of the C call, with the constants of core/flat.h.
std::vector<std::int64_t> arguments_of(const Contents& contents, Combiner combiner) {
  std::vector<std::int64_t> arguments(contents.integers.begin(), contents.integers.end());
  auto insert_counts = [&](std::size_t at) {
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(at), contents.counts.begin(),
                     contents.counts.end());
  };
  if (combiner == Combiner::kSubarray && !arguments.empty()) {  // dimensions, counts, order
    insert_counts(1);
    arguments.back() = order_of(arguments.back());
  } else if (combiner == Combiner::kDarray && arguments.size() >= 3) {  // processes, rank, dimensions, counts, ..
    insert_counts(3);
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(arguments[2], 0));
    if (arguments.size() < 4 + 4 * count) return {};
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t& distribution = arguments[3 + count + i];
      std::int64_t& argument = arguments[3 + 2 * count + i];
      distribution = distribution_of(distribution);
      if (argument == MPI_DISTRIBUTE_DFLT_DARG) argument = kDefaultArgument;
    }
    arguments.back() = order_of(arguments.back());
  } else {
    insert_counts(arguments.size());
  }
  arguments.insert(arguments.end(), contents.addresses.begin(), contents.addresses.end());
  return arguments;
}

// Predefined types are contiguous, except pairs whose second member is aligned.
Flat named(MPI_Datatype type, const Bounds& bounds) {
  Flat flat{{}, bounds.size, bounds.lower, bounds.extent};
  if (type == MPI_SHORT_INT)
    flat.blocks = {{0, sizeof(short)}, {sizeof(int), sizeof(int)}};
  else if (bounds.size > 0)
    flat.blocks = {{0, bounds.size}};
  return flat;
}

Result<Flat> flatten_at(MPI_Datatype type, int depth) {
  constexpr int kDeepest = 256;
  if (type == MPI_DATATYPE_NULL) return fail(ErrorCode::kInvalid, "MPI_DATATYPE_NULL is not a datatype");
  if (depth > kDeepest) return fail(ErrorCode::kFull, "the datatype is nested more than 256 times");
  const auto bounds = bounds_of(type);
  if (!bounds) return Failure(bounds.error());
  if (predefined(type)) return named(type, *bounds);
  Contents contents;
  if (auto read = read_contents(type, contents); !read) return Failure(read.error());
  if (contents.combiner == MPI_COMBINER_DUP) {
    if (contents.types.empty()) return refused("MPI_Type_get_contents");
    return flatten_at(contents.types.front(), depth + 1);
  }
  const auto combiner = combiner_of(contents.combiner);
  if (!combiner) return fail(ErrorCode::kInvalid, fmt::format("unknown combiner {}", contents.combiner));
  Construction construction{*combiner, arguments_of(contents, *combiner), {}};
  for (const MPI_Datatype child : contents.types) {
    auto flat = flatten_at(child, depth + 1);
    if (!flat) return flat;
    construction.children.push_back(std::move(*flat));
  }
  auto flat = combine(construction);
  if (!flat) return flat;
  flat->lower = bounds->lower;
  flat->extent = bounds->extent;
  if (flat->size != bounds->size)
    return fail(ErrorCode::kInvalid,
                fmt::format("a datatype of {} bytes was flattened to {}", bounds->size, flat->size));
  return flat;
}

}  // namespace

Result<Flat> flatten(MPI_Datatype type) {
  return flatten_at(type, 0);
}

bool nested(MPI_Datatype type) {
  Contents contents;
  if (predefined(type) || !read_contents(type, contents)) return false;
  return !std::all_of(contents.types.begin(), contents.types.end(), predefined);
}

MPI_Datatype unnested(const Flat& flat) {
  std::vector<int> lengths;
  std::vector<MPI_Aint> displacements;
  for (const Block& block : flat.blocks) {
    if (block.length > INT_MAX) return MPI_DATATYPE_NULL;
    lengths.push_back(static_cast<int>(block.length));
    displacements.push_back(block.offset);
  }
  MPI_Datatype blocks = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  const auto count = static_cast<int>(lengths.size());
  if (PMPI_Type_create_hindexed(count, lengths.data(), displacements.data(), MPI_BYTE, &blocks) != MPI_SUCCESS)
    return MPI_DATATYPE_NULL;
  if (PMPI_Type_create_resized(blocks, flat.lower, flat.extent, &type) == MPI_SUCCESS) PMPI_Type_commit(&type);
  PMPI_Type_free(&blocks);
  return type;
}

}  // namespace tutti::mpi
