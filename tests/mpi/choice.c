/* SPDX-License-Identifier: Apache-2.0
 * choice FILE: many collective calls with plan `auto`, which measures them; data, counts and errors are right whatever
 * it chose. The file is in the page cache although the settings say that it is on a disk. Four ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlock = 1 << 18, kBlocks = 4, kCalls = 60, kBytes = kBlock * kBlocks };

static int rank, size, failures;
static char data[kBytes], back[kBytes];

static void expect(int holds, const char* what, int call) {
  if (holds) return;
  ++failures;
  printf("FAILED on rank %d, call %d: %s\n", rank, call, what);
  fflush(stdout);
}

static void fill(int call) {
  for (int i = 0; i < kBytes; ++i) data[i] = (char)(call * 31 + rank * 7 + i / 1000);
}

/* All ranks get the same error class, which is not success. */
static void expect_same_error(int code, const char* what, int call) {
  int class = MPI_SUCCESS, lowest = 0, highest = 0;
  MPI_Error_class(code, &class);
  MPI_Allreduce(&class, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&class, &highest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  expect(lowest == highest && lowest != MPI_SUCCESS, what, call);
}

static void expect_count(MPI_Status* status, int wanted, int call) {
  int count = -1;
  MPI_Get_count(status, MPI_BYTE, &count);
  expect(count == wanted, "the count", call);
}

int main(int argc, char** argv) {
  MPI_File file = MPI_FILE_NULL;
  MPI_Datatype block, blocks;
  MPI_Status status;
  MPI_Offset position = -1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  expect(argc == 2 && MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ==
                          MPI_SUCCESS,
         "open", 0);
  if (file == MPI_FILE_NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
  MPI_Type_create_resized(block, 0, (MPI_Aint)size * kBlock, &blocks);
  MPI_Type_commit(&blocks);
  MPI_File_set_view(file, (MPI_Offset)rank * kBlock, MPI_BYTE, blocks, "native", MPI_INFO_NULL);
  for (int call = 0; call < kCalls; ++call) {
    fill(call);
    expect(MPI_File_write_all(file, data, kBytes, MPI_BYTE, &status) == MPI_SUCCESS, "write", call);
    expect_count(&status, kBytes, call);
  }
  /* A wrong count on one rank, when ranks begin before they know each other; the data is then written again. */
  for (int wrong = 0; wrong < size; ++wrong) {
    MPI_File_get_position(file, &position);
    expect_same_error(MPI_File_write_all(file, data, rank == wrong ? -1 : kBytes, MPI_BYTE, &status),
                      "one error on all ranks", wrong);
    MPI_Offset after = -1;
    MPI_File_get_position(file, &after);
    expect(after == position, "the pointer after an error", wrong);
    fill(kCalls + wrong);
    expect(MPI_File_write_all(file, data, kBytes, MPI_BYTE, &status) == MPI_SUCCESS, "write after an error", wrong);
  }
  /* Ranks without data and a short call between long ones. */
  expect(MPI_File_write_at_all(file, 0, data, 0, MPI_BYTE, &status) == MPI_SUCCESS, "no data", 0);
  fill(0);
  expect(MPI_File_write_at_all(file, 0, data, rank == 0 ? 0 : 100, MPI_BYTE, &status) == MPI_SUCCESS, "few bytes", 0);
  fill(1);
  MPI_File_write_at_all_begin(file, kBytes, data, kBytes, MPI_BYTE);
  expect(MPI_File_write_at_all_end(file, data, &status) == MPI_SUCCESS, "a split call", 1);

  MPI_File_seek(file, 0, MPI_SEEK_SET);
  for (int call = 0; call < kCalls + size; ++call) {
    fill(call);
    memset(back, 0, sizeof back);
    expect(MPI_File_read_all(file, back, kBytes, MPI_BYTE, &status) == MPI_SUCCESS, "read", call);
    expect_count(&status, kBytes, call);
    expect(memcmp(data, back, sizeof data) == 0, "the data", call);
  }
  /* After the end: no bytes, and the memory is not changed. Half before the end: half of them. */
  memset(back, 77, sizeof back);
  expect(MPI_File_read_all(file, back, kBytes, MPI_BYTE, &status) == MPI_SUCCESS, "read after the end", 0);
  expect_count(&status, 0, 0);
  expect(back[0] == 77 && back[kBytes - 1] == 77, "memory after a read after the end", 0);
  MPI_File_seek(file, -kBytes - kBytes / 2, MPI_SEEK_CUR);
  fill(kCalls + size - 1);
  expect(MPI_File_read_all(file, back, kBytes, MPI_BYTE, &status) == MPI_SUCCESS, "read at the end", 0);
  expect_count(&status, kBytes / 2, 0);
  expect(memcmp(back, data + kBytes / 2, kBytes / 2) == 0 && back[kBytes - 1] == 77, "data at the end", 0);
  expect_same_error(MPI_File_read_all(file, back, rank == 0 ? -1 : kBytes, MPI_BYTE, &status), "a wrong read", 0);
  MPI_Type_free(&block);
  MPI_Type_free(&blocks);
  MPI_File_close(&file);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("all choices are right\n");
  MPI_Finalize();
  return all > 0;
}
