// SPDX-License-Identifier: Apache-2.0
// The caller's buffer as one sequence of bytes, whatever its datatype. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/core/flat.h"

namespace tutti::mpi {

// `count` elements of a datatype in the caller's memory. The positions are those of the data without the gaps of the
// datatype. Does not own the memory.
class Memory {
 public:
  // `buffer` is null for datatypes with absolute addresses (MPI_BOTTOM).
  Memory(void* buffer, Flat type, std::int64_t count);

  std::uint64_t size() const { return size_; }
  // All bytes, if they are contiguous in memory; else nullptr.
  std::byte* contiguous() const { return contiguous_; }

  // position + size of the span is at most size().
  void gather(std::uint64_t position, std::span<std::byte> into) const;
  void scatter(std::uint64_t position, std::span<const std::byte> from) const;

 private:
  template <typename Action>
  void walk(std::uint64_t position, std::uint64_t length, Action action) const;

  std::uintptr_t base_;
  Flat type_;
  std::uint64_t size_;
  std::byte* contiguous_ = nullptr;
  std::vector<std::uint64_t> before_;  // bytes of data before each block of the type
};

}  // namespace tutti::mpi
