// SPDX-License-Identifier: Apache-2.0
#include "mpi/interpose/call.h"

#include <algorithm>
#include <new>

#include "mpi/interpose/datatype.h"

namespace tutti::mpi {
namespace {

using collective::AccessList;
using collective::ExtentRun;

// True if the list has a byte twice.
bool overlaps_itself(const AccessList& list) {
  return !collective::ascending(list) && collective::bytes_of(collective::sorted(list)) != collective::bytes_of(list);
}

void find_range(Local& local) {
  if (local.extents.empty()) return;
  local.begin = local.extents.front().offset;
  for (const collective::Extent& extent : local.extents) {
    local.begin = std::min(local.begin, extent.offset);
    local.end = std::max(local.end, extent.end());
  }
}

// MPICH reads and writes wrong bytes of some nested types in memory, and MPI libraries need not count exactly at the
// end of the file.
bool same_result_with_mpi(const OpenFile& file, const Access& access, const Local& local) {
  if (file.carried || file.settings.plan.kind != collective::PlanKind::kAuto || !local.memory->contiguous())
    return false;
  if (access.direction == Direction::kWrite || local.bytes == 0) return true;
  const auto size = file.data->size();
  return size && local.end <= *size;
}

// Lists of more runs are not gathered.
constexpr std::uint64_t kMostRuns = std::uint64_t{1} << 26;

// ROMIO counts a rank as interleaved if it begins before the end of the rank before it.
bool interleaved(const std::vector<Header>& headers) {
  std::uint64_t end = 0;
  for (const Header& header : headers) {
    if (header.bytes == 0) continue;
    if (header.begin < end) return true;
    end = header.end;
  }
  return false;
}

// The kernel keeps what is written to a local file system in memory, and writes it later in its own order.
bool needs_no_device(const OpenFile& file, const Access& access, const Local& local) {
  if (file.carried || file.settings.plan.kind != collective::PlanKind::kAuto) return false;
  return access.direction == Direction::kWrite ? file.layout.source == "default" : file.data->cached(local.extents);
}

}  // namespace

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
  find_range(local);
  if (access.direction == Direction::kWrite && overlaps_itself(local.list)) return Local::wrong(MPI_ERR_TYPE);
  local.mpi_allowed = same_result_with_mpi(file, access, local);
  local.in_memory = needs_no_device(file, access, local);
  return local;
} catch (const std::bad_alloc&) {
  return Local::wrong(kFallBack);
}

Gathered gather(const OpenFile& file, const Local& local, Direction direction, const Agreement& done) {
  const Header mine{.code = local.code != kFine ? local.code : done.code,
                    .runs = local.list.size(),
                    .extents = local.extents.size(),
                    .bytes = local.bytes,
                    .begin = local.begin,
                    .end = local.end,
                    .io = done.io,
                    .mpi_allowed = local.mpi_allowed,
                    .in_memory = local.in_memory,
                    .first = local.list.empty() ? ExtentRun{} : local.list.front()};
  Gathered gathered;
  gathered.headers.resize(static_cast<std::size_t>(file.size));
  PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, gathered.headers.data(), sizeof mine, MPI_BYTE, file.comm);
  collective::CallPattern& pattern = gathered.pattern;
  pattern = {direction, interleaved(gathered.headers), 0, 0, gathered.headers.size()};
  std::uint64_t runs = 0;
  for (const Header& header : gathered.headers) {
    if (header.code == kFallBack && gathered.code == kFine) gathered.code = kFallBack;
    if (header.code > 0) gathered.code = std::max(gathered.code, header.code);
    gathered.mpi_allowed = gathered.mpi_allowed && header.mpi_allowed;
    gathered.in_memory = gathered.in_memory && header.in_memory;
    gathered.io = std::max(gathered.io, header.io);
    runs += header.runs;
    pattern.bytes += header.bytes;
    pattern.extents += header.extents;
  }
  if (gathered.code == kFine && runs > kMostRuns) gathered.code = kFallBack;
  return gathered;
}

collective::Collective gather_lists(const OpenFile& file, const Local& local, const Gathered& gathered) {
  collective::Collective collective{gathered.pattern.direction, {}};
  std::vector<int> counts, before;
  int sum = 0;
  bool short_lists = true;
  for (const Header& header : gathered.headers) {
    counts.push_back(static_cast<int>(header.runs));
    before.push_back(sum);
    sum += counts.back();
    short_lists = short_lists && header.runs <= 1;
  }
  if (short_lists) {
    for (const Header& header : gathered.headers)
      collective.lists.push_back(header.runs > 0 ? AccessList{header.first} : AccessList{});
    return collective;
  }
  MPI_Datatype run = MPI_DATATYPE_NULL;
  PMPI_Type_contiguous(sizeof(ExtentRun), MPI_BYTE, &run);
  PMPI_Type_commit(&run);
  std::vector<ExtentRun> all(static_cast<std::size_t>(sum));
  PMPI_Allgatherv(local.list.data(), static_cast<int>(local.list.size()), run, all.data(), counts.data(), before.data(),
                  run, file.comm);
  PMPI_Type_free(&run);
  for (std::size_t i = 0; i < counts.size(); ++i)
    collective.lists.emplace_back(all.begin() + before[i], all.begin() + before[i] + counts[i]);
  return collective;
}

}  // namespace tutti::mpi
