// SPDX-License-Identifier: Apache-2.0
// flatten_check [SEED]: flattens random datatypes and compares every byte with the type map. One process.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "mpi/interpose/datatype.h"
#include "tests/mpi/type_maker.h"

namespace {

using tutti::mpi::Flat;

bool same(const Flat& flat, const MadeType& made) {
  std::size_t i = 0;
  for (const auto& block : flat.blocks)
    for (std::int64_t byte = 0; byte < block.length; ++byte)
      if (i >= made.bytes.size() || made.bytes[i++] != block.offset + byte) return false;
  return i == made.bytes.size() && flat.extent == made.extent() &&
         flat.size == static_cast<std::int64_t>(made.bytes.size());
}

int check_random(std::uint64_t seed, int count) {
  TypeMaker maker(seed, false, true);
  for (int i = 0; i < count; ++i) {
    MadeType made = maker.make(static_cast<int>(maker.pick(1, 4)));
    const auto flat = tutti::mpi::flatten(made.type);
    if (!flat || !same(*flat, made)) {
      std::printf("FAILED: type %d of seed %llu: %s\n", i, static_cast<unsigned long long>(seed),
                  flat ? "other bytes than the type map" : flat.error().message.c_str());
      return 1;
    }
    made.release();
  }
  return 0;
}

// MPI_File_get_view returns types that are wrapped several times.
int check_view_of_file() {
  MPI_Datatype vector = MPI_DATATYPE_NULL;
  MPI_Type_vector(3, 2, 4, MPI_INT, &vector);
  MPI_Type_commit(&vector);
  MPI_File file = MPI_FILE_NULL;
  char path[] = "/tmp/tutti-flatten-XXXXXX";
  const int made = mkstemp(path);
  if (made < 0 || MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file))
    return 1;
  MPI_File_set_view(file, 0, MPI_INT, vector, "native", MPI_INFO_NULL);
  MPI_Offset displacement = 0;
  MPI_Datatype etype = MPI_DATATYPE_NULL, filetype = MPI_DATATYPE_NULL;
  char datarep[MPI_MAX_DATAREP_STRING];
  MPI_File_get_view(file, &displacement, &etype, &filetype, datarep);
  const auto wrapped = tutti::mpi::flatten(filetype), plain = tutti::mpi::flatten(vector);
  const bool fine = wrapped && plain && wrapped->blocks == plain->blocks && wrapped->extent == plain->extent;
  if (!fine) std::puts("FAILED: the type of MPI_File_get_view");
  MPI_Type_free(&vector);
  MPI_Type_free(&filetype);
  MPI_File_close(&file);
  return fine ? 0 : 1;
}

int check_large() {
  MPI_Datatype vector = MPI_DATATYPE_NULL;
  MPI_Type_vector(1000000, 1, 2, MPI_DOUBLE, &vector);
  MPI_Type_commit(&vector);
  const auto start = std::chrono::steady_clock::now();
  const auto flat = tutti::mpi::flatten(vector);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  std::printf("a vector of 1000000 blocks was flattened in %.1f ms\n", spent.count());
  MPI_Type_free(&vector);
  return flat && flat->blocks.size() == 1000000 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  int failures = 0;
  for (std::uint64_t i = 0; i < 20; ++i) failures += check_random(seed + i, 100);
  failures += check_view_of_file() + check_large();
  failures += tutti::mpi::flatten(MPI_DATATYPE_NULL) ? 1 : 0;
  MPI_Finalize();
  if (failures == 0) std::puts("2000 datatypes have the bytes of their type maps");
  return failures == 0 ? 0 : 1;
}
