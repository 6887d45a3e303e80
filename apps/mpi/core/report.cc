// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace tutti::mpi {

void FileCounters::add(const FileCounters& other) {
  collectives += other.collectives;
  plain += other.plain;
  chosen += other.chosen;
  carried += other.carried;
  read += other.read;
  written += other.written;
  for (std::size_t i = 0; i < kPlans; ++i) plans[i] += other.plans[i];
  exchange += other.exchange;
  io += other.io;
  turn += other.turn;
}

std::string describe(const FileCounters& counters, std::uint64_t ranks) {
  std::string plans;
  for (std::size_t i = 0; i < FileCounters::kPlans; ++i)
    if (counters.plans[i] > 0)
      plans += fmt::format("{}{} {}", plans.empty() ? "" : ", ",
                           collective::name_of(static_cast<collective::PlanKind>(i)), counters.plans[i]);
  const auto mean = [ranks](std::uint64_t sum) {
    return format(Duration(static_cast<std::int64_t>(sum / std::max<std::uint64_t>(ranks, 1))));
  };
  return fmt::format(
      "{} collective calls rearranged (plans: {}), {} left to the MPI library{}; {}{} read, {} written; time per rank: "
      "{} in exchange, {} in I/O, {} waiting for a turn",
      counters.collectives, plans.empty() ? "none" : plans, counters.plain,
      counters.chosen > 0 ? fmt::format(", {} more because it was faster", counters.chosen) : "",
      counters.carried > 0 ? fmt::format("{} calls through nodes; ", counters.carried) : "",
      format(Bytes(counters.read)), format(Bytes(counters.written)), mean(counters.exchange), mean(counters.io),
      mean(counters.turn));
}

}  // namespace tutti::mpi
