// SPDX-License-Identifier: Apache-2.0
// Reads and writes: collective ones, blocking and split, and those of one rank alone.
#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <optional>

#include "mpi/core/memory.h"
#include "mpi/interpose/calls.h"
#include "mpi/interpose/datatype.h"
#include "mpi/interpose/file.h"
#include "mpi/interpose/intercepted.h"
#include "mpi/interpose/plan_execution.h"

namespace tutti::mpi {
namespace {

using collective::AccessList;
using collective::ExtentRun;

// The arguments of a call.
struct Access {
  MPI_File handle;
  Direction direction;
  std::optional<MPI_Offset> offset;  // empty: at the individual file pointer
  void* buffer;
  MPI_Count count;
  MPI_Datatype type;
};

// The result of a call that was rearranged.
struct Outcome {
  bool plain = false;  // the caller must call the MPI library instead
  int result = MPI_SUCCESS;
  std::uint64_t bytes = 0;
};

// This rank's part, as far as it is known without the other ranks.
struct Local {
  std::int64_t code = kFine;
  MPI_Offset position = 0;  // in elementary datatypes
  std::optional<Memory> memory{};
  std::vector<collective::Extent> extents{};
  AccessList list{};
  std::uint64_t bytes = 0;

  static Local wrong(std::int64_t code) {
    Local local;
    local.code = code;
    return local;
  }
};

// True if the list has a byte twice.
bool overlaps_itself(const AccessList& list) {
  return !collective::ascending(list) && collective::bytes_of(collective::sorted(list)) != collective::bytes_of(list);
}

Local examine(const OpenFile& file, const Access& access) try {
  if (access.count < 0) return Local::wrong(MPI_ERR_COUNT);
  if (access.type == MPI_DATATYPE_NULL) return Local::wrong(MPI_ERR_TYPE);
  if (access.offset && *access.offset < 0) return Local::wrong(MPI_ERR_ARG);
  if (!file.view_known) return Local::wrong(kFallBack);
  auto flat = flatten(access.type);
  if (!flat) return Local::wrong(kFallBack);
  Local local;
  if (access.offset)
    local.position = *access.offset;
  else if (PMPI_File_get_position(access.handle, &local.position) != MPI_SUCCESS)
    return Local::wrong(kFallBack);
  local.memory.emplace(access.buffer, std::move(*flat), access.count);
  local.bytes = local.memory->size();
  // A part of an elementary datatype is not allowed; each MPI library does something else with it.
  if (local.bytes % static_cast<std::uint64_t>(file.view.etype_size()) != 0) return Local::wrong(kFallBack);
  auto extents = file.view.extents({local.position, static_cast<std::int64_t>(local.bytes)});
  if (!extents) return Local::wrong(extents.error().code == ErrorCode::kFull ? kFallBack : MPI_ERR_ARG);
  local.extents = std::move(*extents);
  local.list = collective::compress(local.extents);
  if (access.direction == Direction::kWrite && overlaps_itself(local.list)) return Local::wrong(MPI_ERR_TYPE);
  return local;
} catch (const std::bad_alloc&) {
  return Local::wrong(kFallBack);
}

// What every rank sends to all others first. A list of one run needs no second message.
struct Header {
  std::int64_t code = kFine;
  std::uint64_t runs = 0;
  std::uint64_t bytes = 0;
  ExtentRun first{};
};

// What the ranks know about each other.
struct Gathered {
  std::int64_t code = kFine;
  collective::Collective collective{};
  std::uint64_t bytes = 0;  // of all ranks
};

// Lists of more runs are not gathered.
constexpr std::uint64_t kMostRuns = std::uint64_t{1} << 26;

// Collective: the lists of all ranks, if one has more than one run.
void gather_runs(const OpenFile& file, const Local& local, const std::vector<Header>& headers, Gathered& gathered) {
  MPI_Datatype run = MPI_DATATYPE_NULL;
  PMPI_Type_contiguous(sizeof(ExtentRun), MPI_BYTE, &run);
  PMPI_Type_commit(&run);
  std::vector<int> counts, before;
  int sum = 0;
  for (const Header& header : headers) {
    counts.push_back(static_cast<int>(header.runs));
    before.push_back(sum);
    sum += counts.back();
  }
  std::vector<ExtentRun> all(static_cast<std::size_t>(sum));
  PMPI_Allgatherv(local.list.data(), static_cast<int>(local.list.size()), run, all.data(), counts.data(), before.data(),
                  run, file.comm);
  PMPI_Type_free(&run);
  for (std::size_t i = 0; i < headers.size(); ++i)
    gathered.collective.lists.emplace_back(all.begin() + before[i], all.begin() + before[i] + counts[i]);
}

// Collective.
Gathered gather(const OpenFile& file, const Local& local, Direction direction) {
  const Header mine{local.code, local.list.size(), local.bytes, local.list.empty() ? ExtentRun{} : local.list.front()};
  std::vector<Header> headers(static_cast<std::size_t>(file.size));
  PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, headers.data(), sizeof mine, MPI_BYTE, file.comm);
  Gathered gathered;
  gathered.collective.direction = direction;
  std::uint64_t runs = 0, longest = 0;
  for (const Header& header : headers) {
    if (header.code == kFallBack && gathered.code == kFine) gathered.code = kFallBack;
    if (header.code > 0) gathered.code = std::max(gathered.code, header.code);
    runs += header.runs;
    longest = std::max(longest, header.runs);
    gathered.bytes += header.bytes;
  }
  if (gathered.code == kFine && runs > kMostRuns) gathered.code = kFallBack;
  if (gathered.code != kFine) return gathered;
  if (longest > 1) {
    gather_runs(file, local, headers, gathered);
    return gathered;
  }
  for (const Header& header : headers)
    gathered.collective.lists.push_back(header.runs > 0 ? AccessList{header.first} : AccessList{});
  return gathered;
}

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

void count_collective(OpenFile& file, const collective::RankPlan& plan) {
  if (file.rank != 0) return;
  ++file.counters.collectives;
  if (file.carried) add(file.counters.carried, 1);
  ++file.counters.plans[static_cast<std::size_t>(plan.kind)];
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

// Collective. Everything after the lists are known.
Outcome execute(OpenFile& file, const Access& access, const Local& local, const Gathered& gathered) {
  const auto plan = collective::plan_rank(gathered.collective, file.layout, file.settings.plan,
                                          static_cast<collective::Rank>(file.rank));
  if (!plan) {  // the same on all ranks
    Process::current().say_once(plan.error().message + "; such collective calls are left to the MPI library");
    return plain(file);
  }
  const auto stamp = share_stamp(file, Bytes(gathered.bytes));
  const Agreement result =
      PlanExecution(file, *plan, local.list, *local.memory, access.direction, stamp ? &*stamp : nullptr).run();
  if (result.code == kFallBack) {
    file.left_to_mpi = true;
    return plain(file);
  }
  if (result.code == kFine) count_collective(file, *plan);
  return finish(file, access, local, result);
}

// A collective or independent call of a file that nodes carry, by this rank alone.
Outcome transfer_alone(OpenFile& file, const Access& access) {
  const Local local = examine(file, access);
  if (local.code > 0) return {.result = raise_error(access.handle, static_cast<int>(local.code))};
  if (local.code == kFallBack) return {.plain = true};
  collective::Options options{.kind = collective::PlanKind::kIndependent};
  options.list_io = std::numeric_limits<std::uint32_t>::max();
  const auto plan = collective::plan_rank({access.direction, {local.list}}, file.layout, options, 0);
  if (!plan) return {.plain = true};
  const Agreement result = PlanExecution(file, *plan, local.list, *local.memory, access.direction).run_alone();
  if (result.code == kFallBack) return {.plain = true};
  if (result.code == kFine) add(file.counters.carried, 1);
  return finish(file, access, local, result);
}

// Collective.
Outcome perform(OpenFile& file, const Access& access) {
  if (!rearranged(file, access.direction)) {
    begin_turn(file, Bytes{});
    if (file.carried && ours(file, access.direction)) return transfer_alone(file, access);  // one process
    return plain(file);
  }
  const Local local = examine(file, access);
  const Gathered gathered = gather(file, local, access.direction);
  if (gathered.code > 0) return {.result = raise_error(access.handle, static_cast<int>(gathered.code))};
  begin_turn(file, Bytes(gathered.bytes));
  if (gathered.code == kFallBack) return plain(file);
  return execute(file, access, local, gathered);
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
  const Outcome outcome = perform(*file, access);
  const int result = outcome.plain ? call() : outcome.result;
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
  const Outcome outcome = perform(*file, access);
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
