// SPDX-License-Identifier: Apache-2.0
// One collective call: what this rank wants, and what it knows of the other ranks.
#pragma once

#include <mpi.h>

#include <optional>
#include <vector>

#include "collective/adaptive_choice.h"
#include "mpi/core/memory.h"
#include "mpi/interpose/file.h"

namespace tutti::mpi {

// The arguments of a call.
struct Access {
  MPI_File handle;
  Direction direction;
  std::optional<MPI_Offset> offset;  // empty: at the individual file pointer
  void* buffer;
  MPI_Count count;
  MPI_Datatype type;
};

// This rank's part, as far as it is known without the other ranks.
struct Local {
  std::int64_t code = kFine;
  MPI_Offset position = 0;  // in elementary datatypes
  std::optional<Memory> memory{};
  std::vector<collective::Extent> extents{};
  collective::AccessList list{};
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0, end = 0;  // of the part of the file; only if it has bytes
  bool mpi_allowed = false;          // the MPI library carries it out with the same result
  bool in_memory = false;            // the I/O needs no device at first: cached data, or writes to a local file system

  static Local wrong(std::int64_t code) {
    Local local;
    local.code = code;
    return local;
  }
};

// Never fails: a wrong call has a code.
Local examine(const OpenFile& file, const Access& access);

// What every rank sends to all others first. A list of one run needs no second message.
struct Header {
  std::int64_t code = kFine;
  std::uint64_t runs = 0, extents = 0;
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0, end = 0;
  std::int64_t io = 0;  // in nanoseconds, of a rank that has read or written its data already
  bool mpi_allowed = false, in_memory = false;
  collective::ExtentRun first{};
};

// What the ranks know about each other. The same on all ranks.
struct Gathered {
  std::vector<Header> headers{};  // by rank
  std::int64_t code = kFine;
  bool mpi_allowed = true, in_memory = true;
  std::int64_t io = 0;  // of the slowest rank
  collective::CallPattern pattern{};
};

// Collective. `done`: what this rank has already done.
Gathered gather(const OpenFile& file, const Local& local, Direction direction, const Agreement& done);
// Collective: the lists of all ranks, which need another message if one has more than one run.
collective::Collective gather_lists(const OpenFile& file, const Local& local, const Gathered& gathered);

}  // namespace tutti::mpi
