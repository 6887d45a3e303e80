// SPDX-License-Identifier: Apache-2.0
// What collective calls did, for the report at MPI_Finalize.
#pragma once

#include <tutti/base.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "collective/plan.h"

namespace tutti::mpi {

// Of one rank and one file; add() makes totals of several. Plain integers, so that ranks can sum them with MPI_Reduce.
struct FileCounters {
  static constexpr std::size_t kPlans = 6;

  std::uint64_t collectives = 0;  // rearranged; counted by rank 0 of the file
  std::uint64_t plain = 0;        // carried out by the MPI library
  std::uint64_t chosen = 0;       // the same, because plan `auto` measured that it is faster
  std::uint64_t carried = 0;      // calls through nodes: collective ones once, those of single ranks each
  std::uint64_t read = 0, written = 0;
  std::array<std::uint64_t, kPlans> plans{};  // collectives by the plan that was used
  // In nanoseconds. Reports show the mean of all ranks.
  std::uint64_t exchange = 0, io = 0, turn = 0;

  void add(const FileCounters& other);
};
static_assert(sizeof(FileCounters) % sizeof(std::uint64_t) == 0);

// Adds to a counter. Thread-safe, because several threads of a rank may use a file.
inline void add(std::uint64_t& counter, std::uint64_t value) {
  std::atomic_ref(counter).fetch_add(value, std::memory_order_relaxed);
}

// One line; `ranks`: of the job's files.
std::string describe(const FileCounters& counters, std::uint64_t ranks);

}  // namespace tutti::mpi
