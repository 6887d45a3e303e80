// SPDX-License-Identifier: Apache-2.0
// Random MPI datatypes together with their type maps, which are computed here from the definition of each constructor.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <random>
#include <vector>

// A committed datatype and the offset of each of its bytes, in the order of the type map.
struct MadeType {
  MPI_Datatype type = MPI_BYTE;
  std::vector<std::int64_t> bytes{};
  bool derived = false;

  std::int64_t extent() const {
    MPI_Aint lower = 0, extent = 0;
    MPI_Type_get_extent(type, &lower, &extent);
    return extent;
  }
  void release() {
    if (derived) MPI_Type_free(&type);
  }
};

// The same seed makes the same types on all ranks and under all MPIs.
class TypeMaker {
 public:
  // `ascending`: offsets ascend, do not overlap, and elements in a row do not overlap, as file views need it.
  // `large`: also uses constructors with suffix _c. ROMIO of MPICH 4.0 does not accept their types in views.
  TypeMaker(std::uint64_t seed, bool ascending, bool large) : random_(seed), ascending_(ascending), large_(large) {}

  MadeType make(int depth) {
    MadeType made = depth == 0 ? basic() : derive(depth);
    // A part of a distributed array may be empty. Large types make tests slow.
    if (made.bytes.empty() || made.bytes.size() > kMostBytes || made.extent() > kMostExtent) {
      made.release();
      made = basic();
    }
    if (made.derived) MPI_Type_commit(&made.type);
    return made;
  }

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  static constexpr std::size_t kMostBytes = 2000;
  static constexpr std::int64_t kMostExtent = 6000;

  MadeType basic() {
    switch (pick(0, ascending_ ? 3 : 5)) {
      case 0:
        return named(MPI_BYTE, 1);
      case 1:
        return named(MPI_SHORT, 2);
      case 2:
        return named(MPI_INT, 4);
      case 3:
        return named(MPI_DOUBLE, 8);
      case 4:
        return {MPI_SHORT_INT, {0, 1, 4, 5, 6, 7}, false};
      default:
        return named(MPI_DOUBLE_INT, 12);
    }
  }

  static MadeType named(MPI_Datatype type, std::int64_t size) {
    MadeType made{type, {}, false};
    for (std::int64_t i = 0; i < size; ++i) made.bytes.push_back(i);
    return made;
  }

  static void place(MadeType& made, const MadeType& child, std::int64_t displacement, std::int64_t count) {
    const std::int64_t extent = child.extent();
    for (std::int64_t i = 0; i < count; ++i)
      for (const std::int64_t byte : child.bytes) made.bytes.push_back(displacement + i * extent + byte);
  }

  MadeType derive(int depth) {
    MadeType child = make(depth - 1);
    MadeType made;
    made.derived = true;
    switch (pick(0, 11)) {
      case 0:
        contiguous(made, child);
        break;
      case 1:
        vector(made, child, false);
        break;
      case 2:
        vector(made, child, true);
        break;
      case 3:
        indexed(made, child, false);
        break;
      case 4:
        indexed(made, child, true);
        break;
      case 5:
        indexed_block(made, child, false);
        break;
      case 6:
        indexed_block(made, child, true);
        break;
      case 7:
        structure(made, child);
        break;
      case 8:
        subarray(made, child);
        break;
      case 9:
        darray(made, child);
        break;
      case 10:
        resized(made, child);
        break;
      default:
        MPI_Type_dup(child.type, &made.type);
        made.bytes = child.bytes;
    }
    child.release();  // programs free types that they do not need any more
    return made;
  }

  void contiguous(MadeType& made, const MadeType& child) {
    const std::int64_t count = pick(1, 4);
#if MPI_VERSION >= 4
    if (large_ && pick(0, 1) == 0)
      MPI_Type_contiguous_c(count, child.type, &made.type);
    else
#endif
      MPI_Type_contiguous(static_cast<int>(count), child.type, &made.type);
    place(made, child, 0, count);
  }

  void vector(MadeType& made, const MadeType& child, bool bytes) {
    const std::int64_t count = pick(1, 4), length = pick(1, 3);
    const std::int64_t stride = ascending_ ? length + pick(0, 3) : pick(-3, 5);
    const std::int64_t unit = child.extent();
    const std::int64_t step = bytes ? stride * unit + (ascending_ ? pick(0, 5) : pick(-5, 5)) : stride * unit;
    if (bytes) MPI_Type_create_hvector(static_cast<int>(count), static_cast<int>(length), step, child.type, &made.type);
#if MPI_VERSION >= 4
    else if (large_ && pick(0, 1) == 0)
      MPI_Type_vector_c(count, length, stride, child.type, &made.type);
#endif
    else
      MPI_Type_vector(static_cast<int>(count), static_cast<int>(length), static_cast<int>(stride), child.type,
                      &made.type);
    for (std::int64_t i = 0; i < count; ++i) place(made, child, i * step, length);
  }

  // The displacement of the next block, in elements.
  std::int64_t next_displacement(std::int64_t& end, std::int64_t length) {
    const std::int64_t displacement = ascending_ ? end + pick(0, 3) : pick(-6, 12);
    end = displacement + length;
    return displacement;
  }

  void indexed(MadeType& made, const MadeType& child, bool bytes) {
    const std::int64_t count = pick(1, 4), unit = child.extent();
    std::vector<int> lengths, displacements;
    std::vector<MPI_Aint> addresses;
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      lengths.push_back(static_cast<int>(pick(i == 0 ? 1 : 0, 3)));
      displacements.push_back(static_cast<int>(next_displacement(end, lengths.back())));
      addresses.push_back(displacements.back() * unit + (bytes && !ascending_ ? pick(0, 3) : 0));
      place(made, child, addresses.back(), lengths.back());
    }
    if (bytes)
      MPI_Type_create_hindexed(static_cast<int>(count), lengths.data(), addresses.data(), child.type, &made.type);
    else
      MPI_Type_indexed(static_cast<int>(count), lengths.data(), displacements.data(), child.type, &made.type);
  }

  void indexed_block(MadeType& made, const MadeType& child, bool bytes) {
    const std::int64_t count = pick(1, 4), length = pick(1, 3), unit = child.extent();
    std::vector<int> displacements;
    std::vector<MPI_Aint> addresses;
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      displacements.push_back(static_cast<int>(next_displacement(end, length)));
      addresses.push_back(displacements.back() * unit);
      place(made, child, addresses.back(), length);
    }
    if (bytes)
      MPI_Type_create_hindexed_block(static_cast<int>(count), static_cast<int>(length), addresses.data(), child.type,
                                     &made.type);
    else
      MPI_Type_create_indexed_block(static_cast<int>(count), static_cast<int>(length), displacements.data(), child.type,
                                    &made.type);
  }

  void structure(MadeType& made, const MadeType& child) {
    MadeType other = basic();
    const int lengths[3] = {static_cast<int>(pick(1, 2)), static_cast<int>(pick(0, 3)), static_cast<int>(pick(1, 2))};
    const MPI_Datatype types[3] = {child.type, other.type, child.type};
    std::int64_t reach = child.extent() * lengths[0];
    for (const std::int64_t byte : child.bytes) reach = std::max(reach, byte + 1 + child.extent() * lengths[0]);
    MPI_Aint at[3] = {0, static_cast<MPI_Aint>(reach + pick(0, 9)), 0};
    at[2] = at[1] + static_cast<MPI_Aint>(other.extent() * lengths[1] + pick(0, 9));
    if (!ascending_) std::swap(at[0], at[2]);
    MPI_Type_create_struct(3, lengths, at, types, &made.type);
    place(made, child, at[0], lengths[0]);
    place(made, other, at[1], lengths[1]);
    place(made, child, at[2], lengths[2]);
  }

  void subarray(MadeType& made, const MadeType& child) {
    const int dimensions = static_cast<int>(pick(1, 3));
    const bool fortran = pick(0, 1) == 1;
    std::vector<int> sizes, parts, starts;
    for (int i = 0; i < dimensions; ++i) {
      sizes.push_back(static_cast<int>(pick(1, 4)));
      parts.push_back(static_cast<int>(pick(1, sizes.back())));
      starts.push_back(static_cast<int>(pick(0, sizes.back() - parts.back())));
    }
    MPI_Type_create_subarray(dimensions, sizes.data(), parts.data(), starts.data(),
                             fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, child.type, &made.type);
    place_array(made, child, sizes, fortran, [&](int d, int i) { return i >= starts[d] && i < starts[d] + parts[d]; });
  }

  // Places every element of an array for which `chosen(dimension, index)` holds in all dimensions.
  template <typename Chosen>
  static void place_array(MadeType& made, const MadeType& child, const std::vector<int>& sizes, bool fortran,
                          Chosen chosen) {
    std::int64_t total = 1;
    for (const int size : sizes) total *= size;
    const int last = static_cast<int>(sizes.size()) - 1;
    for (std::int64_t element = 0; element < total; ++element) {
      std::int64_t rest = element;
      bool in = true;
      for (int i = last; i >= 0; --i) {
        const int d = fortran ? last - i : i;
        in = in && chosen(d, static_cast<int>(rest % sizes[d]));
        rest /= sizes[d];
      }
      if (in) place(made, child, element * child.extent(), 1);
    }
  }

  void darray(MadeType& made, const MadeType& child) {
    const int dimensions = static_cast<int>(pick(1, 2));
    std::vector<int> sizes, kinds, arguments, processes, coordinates;
    int total = 1;
    for (int i = 0; i < dimensions; ++i) {
      sizes.push_back(static_cast<int>(pick(4, 9)));
      processes.push_back(static_cast<int>(pick(1, 3)));
      kinds.push_back(pick(0, 1) == 0 ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC);
      arguments.push_back(kinds.back() == MPI_DISTRIBUTE_CYCLIC && pick(0, 1) == 0 ? 2 : MPI_DISTRIBUTE_DFLT_DARG);
      total *= processes.back();
    }
    const int rank = static_cast<int>(pick(0, total - 1));
    const bool fortran = pick(0, 1) == 1;
    coordinates.resize(static_cast<std::size_t>(dimensions));
    for (int i = dimensions - 1, rest = rank; i >= 0; --i) {
      coordinates[i] = rest % processes[i];
      rest /= processes[i];
    }
    MPI_Type_create_darray(total, rank, dimensions, sizes.data(), kinds.data(), arguments.data(), processes.data(),
                           fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, child.type, &made.type);
    place_array(made, child, sizes, fortran, [&](int d, int i) {
      const bool block = kinds[d] == MPI_DISTRIBUTE_BLOCK;
      const int unit = arguments[d] != MPI_DISTRIBUTE_DFLT_DARG ? arguments[d]
                       : block                                  ? (sizes[d] + processes[d] - 1) / processes[d]
                                                                : 1;
      return (i / unit) % processes[d] == coordinates[d];
    });
  }

  void resized(MadeType& made, const MadeType& child) {
    const std::int64_t lower = ascending_ ? 0 : pick(-4, 4);
    std::int64_t extent = child.extent();
    for (const std::int64_t byte : child.bytes) extent = std::max(extent, byte + 1);
    extent = ascending_ ? extent + pick(0, 9) : extent + pick(-2, 9);
    MPI_Type_create_resized(child.type, lower, extent, &made.type);
    made.bytes = child.bytes;
  }

  std::mt19937_64 random_;
  bool ascending_;
  [[maybe_unused]] bool large_;
};
