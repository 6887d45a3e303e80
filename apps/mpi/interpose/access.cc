// SPDX-License-Identifier: Apache-2.0
// Reads and writes: collective ones, blocking and split, and those of one rank alone.
#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <optional>

#include "base/live_world.h"
#include "mpi/core/memory.h"
#include "mpi/interpose/call.h"
#include "mpi/interpose/calls.h"
#include "mpi/interpose/file.h"
#include "mpi/interpose/intercepted.h"
#include "mpi/interpose/plan_execution.h"

namespace tutti::mpi {
namespace {

using collective::AdaptiveChoice;
using collective::PlanKind;

// The result of a call that was rearranged.
struct Outcome {
  bool plain = false;                               // the caller must call the MPI library instead
  std::optional<collective::CallPattern> chosen{};  // and measure it, because it is faster
  int result = MPI_SUCCESS;
  std::uint64_t bytes = 0;
};

// Whether this library may carry out an access instead of the MPI library. The same on all ranks.
bool ours(const OpenFile& file, Direction direction) {
  const bool permitted = direction == Direction::kWrite ? file.writable() : file.readable();
  return permitted && file.settings.rearrange && file.native && !file.atomic && !file.left_to_mpi && !file.sequential();
}

// The same on all ranks: decides without communication whether a collective call is rearranged.
bool rearranged(const OpenFile& file, Direction direction) {
  return ours(file, direction) && file.size > 1;
}

Outcome plain(OpenFile& file) {
  if (file.rank == 0) ++file.counters.plain;
  return {.plain = true};
}

void count_bytes(OpenFile& file, Direction direction, std::uint64_t bytes) {
  add(direction == Direction::kWrite ? file.counters.written : file.counters.read, bytes);
}

void count_collective(OpenFile& file, PlanKind kind) {
  if (file.rank != 0) return;
  ++file.counters.collectives;
  if (file.carried) add(file.counters.carried, 1);
  ++file.counters.plans[static_cast<std::size_t>(kind)];
}

// Collective. All parts of the call are one operation: rank 0 makes its stamp. Nothing: the data is not carried.
std::optional<Stamp> share_stamp(const OpenFile& file, Bytes bytes) {
  static_assert(std::is_trivially_copyable_v<Stamp>);
  if (!file.carried || bytes == Bytes{}) return std::nullopt;
  Stamp stamp;
  try {
    if (file.rank == 0) stamp = file.carried->stamp_together(bytes);
  } catch (const std::exception&) {  // no memory; the others wait for a stamp, and this one states no phase
  }
  PMPI_Bcast(&stamp, sizeof stamp, MPI_BYTE, 0, file.comm);
  return stamp;
}

// The outcome of an executed plan, and the new position of the file pointer.
Outcome finish(OpenFile& file, const Access& access, const Local& local, const Agreement& result) {
  if (result.code != kFine) return {.result = raise_error(access.handle, static_cast<int>(result.code))};
  Outcome outcome{.bytes = local.bytes};
  if (access.direction == Direction::kRead && result.value != INT64_MAX)
    outcome.bytes = bytes_before(local.extents, static_cast<std::uint64_t>(result.value));
  // The pointer moves by what was asked for, also at the end of the file (MPI 3.1, section 13.4).
  if (!access.offset && local.bytes > 0)
    PMPI_File_seek(access.handle, local.position + static_cast<MPI_Offset>(local.bytes) / file.view.etype_size(),
                   MPI_SEEK_SET);
  count_bytes(file, access.direction, outcome.bytes);
  return outcome;
}

// The same on all ranks. nullptr: the plan is not `auto`.
AdaptiveChoice* choice_of(OpenFile& file, Direction direction) {
  if (file.settings.plan.kind != PlanKind::kAuto) return nullptr;
  return &file.choices[direction == Direction::kWrite ? 1 : 0];
}

collective::CallTime time_of(const Agreement& result) {
  return {static_cast<double>(result.all) / 1e9, static_cast<double>(result.io) / 1e9};
}

// The plan of a rank that needs no other rank.
Result<collective::RankPlan> plan_own(const OpenFile& file, const Local& local, Direction direction) {
  collective::Options options{.kind = PlanKind::kIndependent};
  options.list_io = std::numeric_limits<std::uint32_t>::max();
  return collective::plan_rank({direction, {local.list}}, file.layout, options, 0);
}

// How a call is planned.
struct Planning {
  collective::Method method{};
  bool own = false;                 // ranks need not know each other's lists
  collective::Collective access{};  // else the lists
};

// Collective. An error is the same on all ranks.
Result<Planning> choose_method(OpenFile& file, const Local& local, const Gathered& gathered, bool mpi_allowed) {
  Planning planning{.method = file.settings.plan.kind};
  const collective::CallPattern& pattern = gathered.pattern;
  AdaptiveChoice* const choice = choice_of(file, pattern.direction);
  if (choice && pattern.bytes > 0) {
    if (!choice->knows(pattern)) {
      planning.access = gather_lists(file, local, gathered);
      const auto estimates = collective::estimate(planning.access, file.layout, file.settings.plan);
      if (!estimates) return Failure(estimates.error());
      const std::uint64_t agents = file.layout.targets.size() * std::max(1u, file.settings.plan.agents_per_target);
      choice->learn(pattern, *estimates, {file.settings.plan.device.network_bandwidth, agents, gathered.in_memory});
    }
    planning.method = choice->choose(pattern, mpi_allowed && gathered.mpi_allowed);
    planning.own = !planning.method || (planning.method == PlanKind::kIndependent && !file.carried);
  }
  if (!planning.own && planning.access.lists.empty()) planning.access = gather_lists(file, local, gathered);
  return planning;
}

Result<collective::RankPlan> make_plan(const OpenFile& file, const Local& local, Direction direction,
                                       const Planning& planning) {
  if (planning.own) return plan_own(file, local, direction);
  collective::Options options = file.settings.plan;
  options.kind = *planning.method;
  return collective::plan_rank(planning.access, file.layout, options, static_cast<collective::Rank>(file.rank));
}

// Collective.
Agreement carry_out(OpenFile& file, const Access& access, const Local& local, const Gathered& gathered,
                    const collective::RankPlan& plan) {
  const auto stamp = share_stamp(file, Bytes(gathered.pattern.bytes));
  return PlanExecution(file, plan, local.list, *local.memory, access.direction, file.call_memory,
                       stamp ? &*stamp : nullptr)
      .run();
}

Outcome refuse(OpenFile& file, const Error& error) {
  Process::current().say_once(error.message + "; such collective calls are left to the MPI library");
  return plain(file);
}

// Collective. Everything after the headers are known. `mpi_allowed`: in this form of the call.
Outcome execute(OpenFile& file, const Access& access, const Local& local, const Gathered& gathered, bool mpi_allowed) {
  const auto planning = choose_method(file, local, gathered, mpi_allowed);
  if (!planning) return refuse(file, planning.error());
  if (!planning->method) return {.plain = true, .chosen = gathered.pattern, .bytes = local.bytes};
  const auto plan = make_plan(file, local, access.direction, *planning);
  if (!plan && !planning->own) return refuse(file, plan.error());  // the same on all ranks
  const Agreement result = plan ? carry_out(file, access, local, gathered, *plan)
                                : agree(file, Agreement{.code = kFallBack});  // others have a plan
  if (result.code == kFallBack) {
    file.left_to_mpi = true;
    return plain(file);
  }
  if (result.code == kFine) {
    count_collective(file, plan->kind);
    if (AdaptiveChoice* const choice = choice_of(file, access.direction); choice && gathered.pattern.bytes > 0)
      choice->measured(gathered.pattern, planning->method, time_of(result));
  }
  return finish(file, access, local, result);
}

// Collective. The MPI library carries out a call that this library could rearrange: with its time, and with the same
// result on all ranks.
template <typename Plain>
int carry_out_plainly(OpenFile& file, const Access& access, const Outcome& outcome, Plain call) {
  const TimePoint start = live_world().clock().steady();
  const int result = call();
  Agreement mine;
  mine.all = mine.io = (live_world().clock().steady() - start).count();
  int error_class = MPI_SUCCESS;
  if (result != MPI_SUCCESS) PMPI_Error_class(result, &error_class);
  mine.code = error_class;
  const Agreement all = agree(file, mine);
  if (all.code != kFine)  // the MPI library has called the error handler of this rank if its call failed
    return result != MPI_SUCCESS ? static_cast<int>(all.code) : raise_error(access.handle, static_cast<int>(all.code));
  if (file.rank == 0) ++file.counters.chosen;
  count_bytes(file, access.direction, outcome.bytes);
  choice_of(file, access.direction)->measured(*outcome.chosen, std::nullopt, time_of(all));
  return result;
}

// A collective or independent call of a file that nodes carry, by this rank alone.
Outcome transfer_alone(OpenFile& file, const Access& access) {
  const Local local = examine(file, access);
  if (local.code > 0) return {.result = raise_error(access.handle, static_cast<int>(local.code))};
  if (local.code == kFallBack) return {.plain = true};
  const auto plan = plan_own(file, local, access.direction);
  if (!plan) return {.plain = true};
  CallMemory memory;  // other threads of this rank may use the file
  const Agreement result = PlanExecution(file, *plan, local.list, *local.memory, access.direction, memory).run_alone();
  if (result.code == kFallBack) return {.plain = true};
  if (result.code == kFine) add(file.counters.carried, 1);
  return finish(file, access, local, result);
}

// This rank's own reads or writes, before it knows the other ranks' lists.
Agreement move_own_data(OpenFile& file, const Access& access, const Local& local) try {
  if (local.code != kFine || local.bytes == 0) return {};
  const auto plan = plan_own(file, local, access.direction);
  if (!plan) return {.code = kFallBack};
  return PlanExecution(file, *plan, local.list, *local.memory, access.direction, file.call_memory).run_alone();
} catch (const std::exception&) {  // no memory; the other ranks wait for this one's header
  return {.code = kFallBack};
}

// Collective, with one message instead of two: if a rank finds that the call is wrong, all get the error, but others
// may have written their data. If one cannot do its part, the MPI library carries out all of the call.
Outcome perform_at_once(OpenFile& file, const Access& access, AdaptiveChoice& choice) {
  const Local local = examine(file, access);
  const Agreement done = move_own_data(file, access, local);
  const Gathered gathered = gather(file, local, access.direction, done);
  if (gathered.code == kFallBack) return plain(file);
  if (gathered.code == kFine) {
    count_collective(file, PlanKind::kIndependent);
    const double io = static_cast<double>(gathered.io) / 1e9;
    if (gathered.pattern.bytes > 0) choice.measured(gathered.pattern, PlanKind::kIndependent, {io, io});
  }
  return finish(file, access, local, {.code = gathered.code, .value = done.value});
}

// Collective. `mpi_allowed`: the caller can measure the MPI library's own call.
Outcome perform(OpenFile& file, const Access& access, bool mpi_allowed) {
  if (!rearranged(file, access.direction)) {
    begin_turn(file, Bytes{});
    if (file.carried && ours(file, access.direction)) return transfer_alone(file, access);  // one process
    return plain(file);
  }
  if (AdaptiveChoice* const choice = choice_of(file, access.direction);
      choice && !file.turns && !file.carried && choice->begin_at_once())
    return perform_at_once(file, access, *choice);
  const Local local = examine(file, access);
  const Gathered gathered = gather(file, local, access.direction, {});
  if (gathered.code > 0) return {.result = raise_error(access.handle, static_cast<int>(gathered.code))};
  begin_turn(file, Bytes(gathered.pattern.bytes));
  if (gathered.code == kFallBack) return plain(file);
  return execute(file, access, local, gathered, mpi_allowed);
}

void set_status(MPI_Status* status, std::uint64_t bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  PMPI_Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
  PMPI_Status_set_cancelled(status, 0);
}

template <typename Plain>
int blocking(const Access& access, MPI_Status* status, Plain call) {
  const auto file = Process::current().find(access.handle);
  if (!file) return call();
  const Outcome outcome = perform(*file, access, true);
  int result = outcome.result;
  if (outcome.plain) result = outcome.chosen ? carry_out_plainly(*file, access, outcome, call) : call();
  if (!outcome.plain && result == MPI_SUCCESS) set_status(status, outcome.bytes);
  end_use(*file);
  return result;
}

// Not collective.
template <typename Plain>
int independent(const Access& access, MPI_Status* status, Plain call) {
  const auto file = Process::current().find(access.handle);
  if (!file || !file->carried || !ours(*file, access.direction)) return call();
  const Outcome outcome = transfer_alone(*file, access);
  if (outcome.plain) return call();
  if (outcome.result == MPI_SUCCESS) set_status(status, outcome.bytes);
  return outcome.result;
}

// A split collective is complete after its begin; its end returns the result. After a failed begin the MPI library
// knows nothing of the call, so the end must not go there. A program may also leave out that end.
template <typename Plain>
int begin(const Access& access, Plain call) {
  const auto file = Process::current().find(access.handle);
  if (!file || (file->split.active && file->split.result == MPI_SUCCESS)) return call();
  const Outcome outcome = perform(*file, access, false);
  const int result = outcome.plain ? call() : outcome.result;
  file->split = {!outcome.plain || result == MPI_SUCCESS, outcome.plain, outcome.bytes, result};
  if (!outcome.plain || result != MPI_SUCCESS) end_use(*file);  // else end() does
  return result;
}

template <typename Plain>
int end(MPI_File handle, MPI_Status* status, Plain call) {
  const auto file = Process::current().find(handle);
  if (!file || !file->split.active) return call();
  file->split.active = false;
  if (!file->split.plain) {
    if (file->split.result != MPI_SUCCESS) return raise_error(handle, file->split.result);
    set_status(status, file->split.bytes);
    return MPI_SUCCESS;
  }
  const int result = call();
  end_use(*file);
  return result;
}

}  // namespace

#define TUTTI_MPI_DEFINE_INDEPENDENT(suffix, Count)                                                               \
  int File_read##suffix(MPI_File file, void* buffer, Count count, MPI_Datatype type, MPI_Status* status) {        \
    return independent({file, Direction::kRead, std::nullopt, buffer, count, type}, status,                       \
                       [&] { return next().File_read##suffix(file, buffer, count, type, status); });              \
  }                                                                                                               \
  int File_write##suffix(MPI_File file, const void* buffer, Count count, MPI_Datatype type, MPI_Status* status) { \
    return independent({file, Direction::kWrite, std::nullopt, const_cast<void*>(buffer), count, type}, status,   \
                       [&] { return next().File_write##suffix(file, buffer, count, type, status); });             \
  }                                                                                                               \
  int File_read_at##suffix(MPI_File file, MPI_Offset offset, void* buffer, Count count, MPI_Datatype type,        \
                           MPI_Status* status) {                                                                  \
    return independent({file, Direction::kRead, offset, buffer, count, type}, status,                             \
                       [&] { return next().File_read_at##suffix(file, offset, buffer, count, type, status); });   \
  }                                                                                                               \
  int File_write_at##suffix(MPI_File file, MPI_Offset offset, const void* buffer, Count count, MPI_Datatype type, \
                            MPI_Status* status) {                                                                 \
    return independent({file, Direction::kWrite, offset, const_cast<void*>(buffer), count, type}, status,         \
                       [&] { return next().File_write_at##suffix(file, offset, buffer, count, type, status); });  \
  }

#define TUTTI_MPI_DEFINE(suffix, Count)                                                                                \
  int File_read_all##suffix(MPI_File file, void* buffer, Count count, MPI_Datatype type, MPI_Status* status) {         \
    return blocking({file, Direction::kRead, std::nullopt, buffer, count, type}, status,                               \
                    [&] { return next().File_read_all##suffix(file, buffer, count, type, status); });                  \
  }                                                                                                                    \
  int File_write_all##suffix(MPI_File file, const void* buffer, Count count, MPI_Datatype type, MPI_Status* status) {  \
    return blocking({file, Direction::kWrite, std::nullopt, const_cast<void*>(buffer), count, type}, status,           \
                    [&] { return next().File_write_all##suffix(file, buffer, count, type, status); });                 \
  }                                                                                                                    \
  int File_read_at_all##suffix(MPI_File file, MPI_Offset offset, void* buffer, Count count, MPI_Datatype type,         \
                               MPI_Status* status) {                                                                   \
    return blocking({file, Direction::kRead, offset, buffer, count, type}, status,                                     \
                    [&] { return next().File_read_at_all##suffix(file, offset, buffer, count, type, status); });       \
  }                                                                                                                    \
  int File_write_at_all##suffix(MPI_File file, MPI_Offset offset, const void* buffer, Count count, MPI_Datatype type,  \
                                MPI_Status* status) {                                                                  \
    return blocking({file, Direction::kWrite, offset, const_cast<void*>(buffer), count, type}, status,                 \
                    [&] { return next().File_write_at_all##suffix(file, offset, buffer, count, type, status); });      \
  }                                                                                                                    \
  int File_read_all_begin##suffix(MPI_File file, void* buffer, Count count, MPI_Datatype type) {                       \
    return begin({file, Direction::kRead, std::nullopt, buffer, count, type},                                          \
                 [&] { return next().File_read_all_begin##suffix(file, buffer, count, type); });                       \
  }                                                                                                                    \
  int File_write_all_begin##suffix(MPI_File file, const void* buffer, Count count, MPI_Datatype type) {                \
    return begin({file, Direction::kWrite, std::nullopt, const_cast<void*>(buffer), count, type},                      \
                 [&] { return next().File_write_all_begin##suffix(file, buffer, count, type); });                      \
  }                                                                                                                    \
  int File_read_at_all_begin##suffix(MPI_File file, MPI_Offset offset, void* buffer, Count count, MPI_Datatype type) { \
    return begin({file, Direction::kRead, offset, buffer, count, type},                                                \
                 [&] { return next().File_read_at_all_begin##suffix(file, offset, buffer, count, type); });            \
  }                                                                                                                    \
  int File_write_at_all_begin##suffix(MPI_File file, MPI_Offset offset, const void* buffer, Count count,               \
                                      MPI_Datatype type) {                                                             \
    return begin({file, Direction::kWrite, offset, const_cast<void*>(buffer), count, type},                            \
                 [&] { return next().File_write_at_all_begin##suffix(file, offset, buffer, count, type); });           \
  }

TUTTI_MPI_DEFINE(, int)
TUTTI_MPI_DEFINE_INDEPENDENT(, int)
#if MPI_VERSION >= 4
TUTTI_MPI_DEFINE(_c, MPI_Count)
TUTTI_MPI_DEFINE_INDEPENDENT(_c, MPI_Count)
#endif

int File_read_all_end(MPI_File file, void* buffer, MPI_Status* status) {
  return end(file, status, [&] { return next().File_read_all_end(file, buffer, status); });
}
int File_write_all_end(MPI_File file, const void* buffer, MPI_Status* status) {
  return end(file, status, [&] { return next().File_write_all_end(file, buffer, status); });
}
int File_read_at_all_end(MPI_File file, void* buffer, MPI_Status* status) {
  return end(file, status, [&] { return next().File_read_at_all_end(file, buffer, status); });
}
int File_write_at_all_end(MPI_File file, const void* buffer, MPI_Status* status) {
  return end(file, status, [&] { return next().File_write_at_all_end(file, buffer, status); });
}

}  // namespace tutti::mpi
