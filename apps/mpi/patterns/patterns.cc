// SPDX-License-Identifier: Apache-2.0
// tutti-mpi-patterns FILE RUN...: performs access patterns of the resonant I/O paper with MPI-IO, for `tutti lab run
// --live`. A RUN is PATTERN:METHOD:DIRECTION:SEGMENT:BYTES, such as demonstration:resonant:read:65536:16777216.
//
// METHOD: `alone`: one blocking call per segment without collective I/O; else a plan (hint tutti_plan). Prints one line
// per run: its seconds, and its bytes. Every byte is compared after the run, outside of the measured time. Exit status
// 1: a call failed or data was wrong.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "lab/collective_patterns.h"

namespace {

using tutti::Direction;
using tutti::collective::Extent;
using tutti::collective::ExtentRun;

struct Parameters {
  std::string pattern, method;
  Direction direction = Direction::kRead;
  std::uint64_t segment = 0, bytes = 0;
};

int rank = 0, size = 1;
bool wrong = false;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
  wrong = true;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text)
    if (c == ':')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

bool parse(const char* text, Parameters& parameters) {
  const auto words = split(text);
  if (words.size() != 5 || (words[2] != "read" && words[2] != "write")) return false;
  parameters = {words[0], words[1], words[2] == "write" ? Direction::kWrite : Direction::kRead,
                std::strtoull(words[3].c_str(), nullptr, 10), std::strtoull(words[4].c_str(), nullptr, 10)};
  return parameters.segment > 0;
}

// The same patterns as in the simulator.
tutti::lab::CollectiveProgram program_of(const Parameters& parameters) {
  const tutti::lab::PatternSize pattern{static_cast<std::size_t>(size), parameters.segment, parameters.direction,
                                        parameters.bytes};
  if (parameters.pattern == "mpi-io-test") return tutti::lab::mpi_io_test(pattern);
  if (parameters.pattern == "ior-mpi-io") return tutti::lab::ior_mpi_io(pattern);
  if (parameters.pattern == "noncontig") return tutti::lab::noncontig(pattern);
  if (parameters.pattern == "hpio") return tutti::lab::hpio(pattern);
  if (parameters.pattern == "coll_perf") return tutti::lab::coll_perf(parameters.segment, parameters.direction);
  return tutti::lab::demonstration_program(pattern);
}

// What this rank accesses: one run per call.
std::vector<ExtentRun> runs_of(const tutti::lab::CollectiveProgram& program) {
  std::vector<ExtentRun> runs;
  for (unsigned call = 0; call < program.calls; ++call)
    runs.push_back(program.call(call).lists[static_cast<std::size_t>(rank)].front());
  return runs;
}

// The content of the file: eight bytes at a time, different for each `salt`.
std::uint64_t word(std::uint64_t offset, std::uint64_t salt) {
  std::uint64_t value = (offset / 8 + 1) * 0x9e3779b97f4a7c15u + salt * 0xbf58476d1ce4e5b9u;
  value ^= value >> 29;
  return value * 0x94d049bb133111ebu;
}

void fill(std::byte* into, const Extent& extent, std::uint64_t salt) {
  for (std::uint64_t i = 0; i < extent.length; i += 8) {
    const std::uint64_t value = word(extent.offset + i, salt);
    std::memcpy(into + i, &value, std::min<std::uint64_t>(8, extent.length - i));
  }
}

// Calls `use` with every extent and its position in memory.
template <typename Use>
void each(const std::vector<ExtentRun>& runs, Use use) {
  std::uint64_t position = 0;
  for (const ExtentRun& run : runs)
    for (std::uint64_t i = 0; i < run.count; ++i, position += run.length) use(run.at(i), position);
}

// The rank's part of the file, on the mount.
void on_mount(const char* path, const std::vector<ExtentRun>& runs, bool write, std::byte* memory) {
  const int file = ::open(path, write ? O_WRONLY : O_RDONLY);
  if (file < 0) check(MPI_ERR_IO, path);
  each(runs, [&](const Extent& extent, std::uint64_t position) {
    const auto at = static_cast<off_t>(extent.offset);
    const ssize_t moved = write ? ::pwrite(file, memory + position, extent.length, at)
                                : ::pread(file, memory + position, extent.length, at);
    if (moved != static_cast<ssize_t>(extent.length)) check(MPI_ERR_IO, "the file on the mount");
  });
  ::close(file);
}

MPI_File open_file(const char* path, const Parameters& parameters) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  if (parameters.method != "alone") MPI_Info_set(info, "tutti_plan", parameters.method.c_str());
  MPI_File file = MPI_FILE_NULL;
  check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, info, &file), "open");
  MPI_Info_free(&info);
  return file;
}

// One blocking call per segment, at the rank's own pace.
void run_alone(MPI_File file, const Parameters& parameters, const std::vector<ExtentRun>& runs, std::byte* memory) {
  each(runs, [&](const Extent& extent, std::uint64_t position) {
    const auto at = static_cast<MPI_Offset>(extent.offset);
    const int count = static_cast<int>(extent.length);
    check(parameters.direction == Direction::kWrite
              ? MPI_File_write_at(file, at, memory + position, count, MPI_BYTE, MPI_STATUS_IGNORE)
              : MPI_File_read_at(file, at, memory + position, count, MPI_BYTE, MPI_STATUS_IGNORE),
          "an independent call");
  });
}

// The rank's segments, one after the other, through a view of the whole program.
void set_view(MPI_File file, const std::vector<ExtentRun>& runs) {
  const ExtentRun& first = runs.front();
  std::uint64_t stride = first.count > 1 ? first.stride : first.length;
  if (first.count == 1 && runs.size() > 1) stride = runs[1].offset - first.offset;
  MPI_Datatype segment = MPI_DATATYPE_NULL, segments = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(static_cast<int>(first.length), MPI_BYTE, &segment);
  MPI_Type_create_resized(segment, 0, static_cast<MPI_Aint>(stride), &segments);
  MPI_Type_commit(&segments);
  check(MPI_File_set_view(file, static_cast<MPI_Offset>(first.offset), MPI_BYTE, segments, "native", MPI_INFO_NULL),
        "view");
  MPI_Type_free(&segment);
  MPI_Type_free(&segments);
}

void run_together(MPI_File file, const Parameters& parameters, const std::vector<ExtentRun>& runs, std::byte* memory) {
  for (const ExtentRun& run : runs) {
    const int count = static_cast<int>(run.length * run.count);
    check(parameters.direction == Direction::kWrite
              ? MPI_File_write_all(file, memory, count, MPI_BYTE, MPI_STATUS_IGNORE)
              : MPI_File_read_all(file, memory, count, MPI_BYTE, MPI_STATUS_IGNORE),
          "a collective call");
    memory += count;
  }
}

// Returns the seconds.
double measure(const char* path, const Parameters& parameters, const std::vector<ExtentRun>& runs, std::byte* memory) {
  MPI_File file = open_file(path, parameters);
  if (wrong) return 0;
  // The first access connects this rank to the nodes.
  std::byte byte{};
  MPI_File_read_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE);
  if (parameters.method != "alone") set_view(file, runs);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  parameters.method == "alone" ? run_alone(file, parameters, runs, memory)
                               : run_together(file, parameters, runs, memory);
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = MPI_Wtime() - start;
  check(MPI_File_close(&file), "close");
  return seconds;
}

void perform(const char* path, const Parameters& parameters, std::uint64_t salt) {
  const auto runs = runs_of(program_of(parameters));
  std::uint64_t bytes = 0;
  for (const ExtentRun& run : runs) bytes += run.length * run.count;
  std::vector<std::byte> memory(bytes), wanted(bytes);
  each(runs, [&](const Extent& extent, std::uint64_t position) { fill(wanted.data() + position, extent, salt); });
  if (parameters.direction == Direction::kWrite)
    memory = wanted;
  else
    on_mount(path, runs, true, wanted.data());
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = measure(path, parameters, runs, memory.data());
  if (parameters.direction == Direction::kWrite) on_mount(path, runs, false, memory.data());
  if (memory != wanted) check(MPI_ERR_IO, "wrong data");
  int mine = wrong ? 1 : 0, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  wrong = all > 0;
  unsigned long long total = 0, part = bytes;
  MPI_Reduce(&part, &total, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0 && !wrong) std::printf("%.6f %llu\n", seconds, total);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 2; i < argc && !wrong; ++i) {
    Parameters parameters;
    if (!parse(argv[i], parameters)) {
      if (rank == 0) std::fprintf(stderr, "%s is not PATTERN:METHOD:read|write:SEGMENT:BYTES\n", argv[i]);
      wrong = true;
      break;
    }
    perform(argv[1], parameters, static_cast<std::uint64_t>(i));
  }
  MPI_Finalize();
  return wrong || argc < 3 ? 1 : 0;
}
