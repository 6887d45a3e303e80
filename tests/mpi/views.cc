// SPDX-License-Identifier: Apache-2.0
// views DIRECTORY PLAN,PLAN.. [SEED [CASES]]: collective writes and reads through random views and memory types. Every
// byte of the file and of memory, every count and every file pointer is compared with a byte model.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/mpi/type_maker.h"

namespace {

constexpr std::uint8_t kHole = 0xEE;

int rank = 0, size = 1;
int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds || failures++ > 10) return;
  std::printf("FAILED on rank %d: %s\n", rank, what.c_str());
  std::fflush(stdout);
}

// What one rank does in a case. Every rank computes this for all ranks.
struct Part {
  MadeType view{}, memory{};
  std::int64_t displacement = 0, extent = 0;
  std::int64_t skip = 0;      // bytes of the view before the access
  std::int64_t elements = 0;  // of the memory type

  std::int64_t bytes() const { return elements * static_cast<std::int64_t>(memory.bytes.size()); }
  std::uint64_t file_offset(std::int64_t i) const {
    const auto unit = static_cast<std::int64_t>(view.bytes.size());
    return static_cast<std::uint64_t>(displacement + (skip + i) / unit * extent + view.bytes[(skip + i) % unit]);
  }
  void release() {
    view.release();
    memory.release();
  }
};

std::uint8_t value(int of_rank, std::int64_t i, std::uint64_t seed) {
  return static_cast<std::uint8_t>((static_cast<std::uint64_t>(of_rank) * 61 + static_cast<std::uint64_t>(i) * 7 +
                                    static_cast<std::uint64_t>(i >> 8) * 13 + seed) %
                                   251);
}

std::vector<Part> make_parts(std::uint64_t seed) {
  TypeMaker maker(seed, true, false), memory_maker(seed, true, true);
  std::vector<Part> parts(static_cast<std::size_t>(size));
  std::int64_t extent = 1;
  for (Part& part : parts) {
    part.view = maker.make(static_cast<int>(maker.pick(0, 3)));
    part.memory = memory_maker.make(static_cast<int>(memory_maker.pick(0, 3)));
    extent = std::max({extent, part.view.extent(), part.view.bytes.back() + 1});
    const std::int64_t most = std::max<std::int64_t>(1, 8000 / static_cast<std::int64_t>(part.memory.bytes.size()));
    part.elements = maker.pick(0, 9) == 0 ? 0 : maker.pick(1, std::min<std::int64_t>(most, 400));
    part.skip = maker.pick(0, 1) == 0 ? 0 : maker.pick(1, 300);
  }
  const std::int64_t base = maker.pick(0, 5000);
  for (int i = 0; i < size; ++i) {  // the views of the ranks are interleaved
    parts[i].displacement = base + i * extent;
    parts[i].extent = size * extent;
  }
  return parts;
}

std::vector<std::uint8_t> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(in.tellg()));
  in.seekg(0).read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// The memory of an access, with a margin for types that begin after or end before their bounds.
struct Buffer {
  explicit Buffer(const Part& part)
      : bytes(static_cast<std::size_t>(part.elements * std::max<std::int64_t>(part.memory.extent(), 0) +
                                       part.memory.bytes.back() + 64),
              kHole) {}
  std::uint8_t& at(const Part& part, std::int64_t i) {
    const auto unit = static_cast<std::int64_t>(part.memory.bytes.size());
    return bytes[static_cast<std::size_t>(i / unit * part.memory.extent() + part.memory.bytes[i % unit])];
  }
  std::vector<std::uint8_t> bytes;
};

enum class Form { kPointer, kAt, kSplit, kSplitAt };

int write(MPI_File file, Form form, MPI_Offset at, const void* data, int count, MPI_Datatype type, MPI_Status* status) {
  switch (form) {
    case Form::kPointer:
      MPI_File_seek(file, at, MPI_SEEK_SET);
      return MPI_File_write_all(file, data, count, type, status);
    case Form::kAt:
#if MPI_VERSION >= 4
      return MPI_File_write_at_all_c(file, at, data, count, type, status);
#else
      return MPI_File_write_at_all(file, at, data, count, type, status);
#endif
    case Form::kSplit:
      MPI_File_seek(file, at, MPI_SEEK_SET);
      MPI_File_write_all_begin(file, data, count, type);
      return MPI_File_write_all_end(file, data, status);
    default:
      MPI_File_write_at_all_begin(file, at, data, count, type);
      return MPI_File_write_at_all_end(file, data, status);
  }
}

int read(MPI_File file, Form form, MPI_Offset at, void* data, int count, MPI_Datatype type, MPI_Status* status) {
  switch (form) {
    case Form::kPointer:
      MPI_File_seek(file, at, MPI_SEEK_SET);
#if MPI_VERSION >= 4
      return MPI_File_read_all_c(file, data, count, type, status);
#else
      return MPI_File_read_all(file, data, count, type, status);
#endif
    case Form::kAt:
      return MPI_File_read_at_all(file, at, data, count, type, status);
    case Form::kSplit:
      MPI_File_seek(file, at, MPI_SEEK_SET);
      MPI_File_read_all_begin(file, data, count, type);
      return MPI_File_read_all_end(file, data, status);
    default:
      MPI_File_read_at_all_begin(file, at, data, count, type);
      return MPI_File_read_at_all_end(file, data, status);
  }
}

void check_pointer(MPI_File file, Form form, const Part& mine, const std::string& name) {
  if (form != Form::kPointer && form != Form::kSplit) return;
  MPI_Offset position = -1;
  MPI_File_get_position(file, &position);
  expect(position == mine.skip + mine.bytes(), name + ": the file pointer");
}

void check_count(MPI_Status* status, std::int64_t bytes, const std::string& name) {
  int count = -1;
  MPI_Get_count(status, MPI_BYTE, &count);
  expect(count == bytes, name + ": the count is " + std::to_string(count) + ", not " + std::to_string(bytes));
}

std::vector<std::uint8_t> model_of(const std::vector<Part>& parts, std::uint64_t seed) {
  std::vector<std::uint8_t> model;
  for (int r = 0; r < size; ++r)
    for (std::int64_t i = 0; i < parts[r].bytes(); ++i) {
      const std::uint64_t at = parts[r].file_offset(i);
      if (model.size() <= at) model.resize(at + 1, 0);
      model[at] = value(r, i, seed);
    }
  return model;
}

void check_write(MPI_File file, const std::vector<Part>& parts, Form form, std::uint64_t seed,
                 const std::string& name) {
  const Part& mine = parts[rank];
  Buffer buffer(mine);
  for (std::int64_t i = 0; i < mine.bytes(); ++i) buffer.at(mine, i) = value(rank, i, seed);
  MPI_Status status;
  const int result =
      write(file, form, mine.skip, buffer.bytes.data(), static_cast<int>(mine.elements), mine.memory.type, &status);
  expect(result == MPI_SUCCESS, name + ": write failed");
  check_count(&status, mine.bytes(), name + ": write");
  check_pointer(file, form, mine, name + ": write");
}

void check_read(MPI_File file, const std::vector<Part>& parts, Form form, const std::vector<std::uint8_t>& model,
                const std::string& name) {
  const Part& mine = parts[rank];
  Buffer buffer(mine), wanted(mine);
  std::int64_t inside = 0;
  for (std::int64_t i = 0; i < mine.bytes(); ++i) {
    if (mine.file_offset(i) >= model.size()) continue;
    wanted.at(mine, i) = model[mine.file_offset(i)];
    ++inside;
  }
  MPI_Status status;
  const int result =
      read(file, form, mine.skip, buffer.bytes.data(), static_cast<int>(mine.elements), mine.memory.type, &status);
  expect(result == MPI_SUCCESS, name + ": read failed");
  check_count(&status, inside, name + ": read");
  check_pointer(file, form, mine, name + ": read");
  expect(buffer.bytes == wanted.bytes, name + ": the data that was read");
}

void run_case(const std::string& directory, const char* plan, std::uint64_t seed) {
  const std::string name = "seed " + std::to_string(seed), path = directory + "/views." + plan;
  std::vector<Part> parts = make_parts(seed);
  const Part& mine = parts[rank];
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "tutti_plan", plan);
  if (seed % 3 == 0) MPI_Info_set(info, "tutti_read_form", "direct");
  MPI_File file = MPI_FILE_NULL;
  if (rank == 0) std::remove(path.c_str());
  MPI_Barrier(MPI_COMM_WORLD);
  expect(MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file) == MPI_SUCCESS,
         name + ": open");
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(mine.view.type, 0, mine.extent, &type);
  MPI_Type_commit(&type);
  expect(MPI_File_set_view(file, mine.displacement, MPI_BYTE, type, "native", info) == MPI_SUCCESS, name + ": view");
  MPI_Type_free(&type);
  MPI_Info_free(&info);
  std::vector<std::uint8_t> model = model_of(parts, seed);
  check_write(file, parts, static_cast<Form>(seed % 4), seed, name);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) expect(read_file(path) == model, name + ": the file");
  check_read(file, parts, static_cast<Form>((seed + 1) % 4), model, name);
  // The same at the end of a shorter file: fewer bytes are counted, memory for the others is not changed.
  model.resize(model.size() * 2 / 3);
  MPI_File_set_size(file, static_cast<MPI_Offset>(model.size()));
  check_read(file, parts, static_cast<Form>((seed + 2) % 4), model, name + " (short)");
  MPI_File_close(&file);
  for (Part& part : parts) part.release();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3) return 2;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const int cases = argc > 4 ? std::atoi(argv[4]) : 40;
  for (const char* plan = std::strtok(argv[2], ","); plan; plan = std::strtok(nullptr, ","))
    for (int i = 0; i < cases; ++i) run_case(argv[1], plan, seed + static_cast<std::uint64_t>(i));
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) std::printf("%d cases with each plan\n", cases);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
