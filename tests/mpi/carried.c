/* SPDX-License-Identifier: Apache-2.0
 * carried FILE survive|lost|unseen [PIDFILE...]: rounds of collective and independent writes and reads through nodes.
 * After two rounds rank 0 kills the nodes of the pid files.
 * survive: other nodes take over; every byte is compared, also through the mount. lost: all later calls fail on all
 * ranks alike. unseen: the nodes keep the data elsewhere, so the file of the mount stays empty. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlock = 4096, kBlocks = 3, kPart = kBlock * kBlocks, kRounds = 5, kKillBefore = 2 };

static int rank, size, failures;

static void expect(int holds, int round, const char* what) {
  if (holds) return;
  ++failures;
  printf("FAILED on rank %d, round %d: %s\n", rank, round, what);
  fflush(stdout);
}

/* Byte i of what a rank writes in a round. */
static char value(int round, int of_rank, int i) {
  return (char)(round * 31 + of_rank * 57 + i % 251 + i / 1000);
}

static void fill(char* data, int round, int of_rank) {
  for (int i = 0; i < kPart; ++i) data[i] = value(round, of_rank, i);
}

/* The first half of a round is written collectively, in blocks of all ranks in turn, the second by each rank alone. */
static long offset_of(int round, int of_rank, int i) {
  return ((long)round * 2 * kBlocks + i / kBlock) * size * kBlock + (long)of_rank * kBlock + i % kBlock;
}
static MPI_Offset alone(int round) {
  return ((MPI_Offset)round * 2 + 1) * size * kPart + (MPI_Offset)rank * kPart;
}

static void kill_nodes(char** pid_files, int count) {
  for (int i = 0; i < count; ++i) {
    FILE* in = fopen(pid_files[i], "r");
    int pid = 0;
    if (!in || fscanf(in, "%d", &pid) != 1 || kill(pid, SIGKILL) != 0) expect(0, -1, pid_files[i]);
    if (in) fclose(in);
  }
}

/* All ranks got the same error class, which is not success. */
static void expect_same_error(int code, int round, const char* what) {
  int class = MPI_SUCCESS, lowest = 0, highest = 0;
  MPI_Error_class(code, &class);
  MPI_Allreduce(&class, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&class, &highest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  expect(lowest == highest && lowest != MPI_SUCCESS, round, what);
}

static void check_count(MPI_Status* status, int bytes, int round, const char* what) {
  int count = -1;
  MPI_Get_count(status, MPI_BYTE, &count);
  expect(count == bytes, round, what);
}

/* Through a view of every size-th block. */
static void set_view(MPI_File file, int of_rank) {
  MPI_Datatype block, blocks;
  MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
  MPI_Type_create_resized(block, 0, (MPI_Aint)size * kBlock, &blocks);
  MPI_Type_commit(&blocks);
  MPI_File_set_view(file, (MPI_Offset)of_rank * kBlock, MPI_BYTE, blocks, "native", MPI_INFO_NULL);
  MPI_Type_free(&block);
  MPI_Type_free(&blocks);
}

static void write_round(MPI_File file, int round) {
  static char data[kPart];
  MPI_Status status;
  fill(data, round, rank);
  set_view(file, rank);
  expect(MPI_File_write_at_all(file, (MPI_Offset)round * 2 * kPart, data, kPart, MPI_BYTE, &status) == MPI_SUCCESS,
         round, "collective write");
  check_count(&status, kPart, round, "count of the collective write");
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  MPI_File_seek(file, alone(round), MPI_SEEK_SET);
  expect(MPI_File_write(file, data, kPart, MPI_BYTE, &status) == MPI_SUCCESS, round, "independent write");
  check_count(&status, kPart, round, "count of the independent write");
  MPI_Offset position = 0;
  MPI_File_get_position(file, &position);
  expect(position == alone(round) + kPart, round, "the pointer after an independent write");
  expect(MPI_File_sync(file) == MPI_SUCCESS, round, "sync");
}

/* Reads what the next rank wrote, past the end of the file in the last round. */
static void read_round(MPI_File file, int round) {
  static char data[kPart], wanted[kPart];
  const int other = (rank + 1) % size;
  MPI_Status status;
  fill(wanted, round, other);
  set_view(file, other);
  memset(data, 0, sizeof data);
  expect(MPI_File_read_at_all(file, (MPI_Offset)round * 2 * kPart, data, kPart, MPI_BYTE, &status) == MPI_SUCCESS,
         round, "collective read");
  expect(memcmp(data, wanted, sizeof data) == 0, round, "data of the collective read");
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  fill(wanted, round, rank);
  memset(data, 0, sizeof data);
  expect(MPI_File_read_at(file, alone(round), data, kPart, MPI_BYTE, &status) == MPI_SUCCESS, round,
         "independent read");
  expect(memcmp(data, wanted, sizeof data) == 0, round, "data of the independent read");
  if (round != kRounds - 1 || rank != size - 1) return;
  memset(data, 'x', sizeof data);
  expect(MPI_File_read_at(file, alone(round) + kPart - 100, data, 200, MPI_BYTE, &status) == MPI_SUCCESS, round,
         "read at the end");
  check_count(&status, 100, round, "count at the end");
  expect(data[99] == wanted[kPart - 1] && data[100] == 'x', round, "data at the end");
}

/* The file on the mount. */
static void check_mount(const char* path, int unseen) {
  FILE* in = fopen(path, "rb");
  static char all[kRounds * 2 * kPart * 8];
  const size_t got = in ? fread(all, 1, sizeof all, in) : 0;
  if (in) fclose(in);
  expect(got == (unseen ? 0 : (size_t)kRounds * 2 * kPart * (size_t)size), -1, "the size on the mount");
  for (int round = 0; !unseen && round < kRounds; ++round)
    for (int r = 0; r < size; ++r)
      for (int i = 0; i < kPart; ++i) {
        const long at = ((long)round * 2 + 1) * size * kPart + (long)r * kPart + i;
        if (all[offset_of(round, r, i)] == value(round, r, i) && all[at] == value(round, r, i)) continue;
        return expect(0, round, "data on the mount");
      }
}

static void check_lost(MPI_File file) {
  static char data[kPart];
  MPI_Status status;
  const MPI_Offset at = (MPI_Offset)rank * kPart;
  expect_same_error(MPI_File_write_at_all(file, at, data, kPart, MPI_BYTE, &status), -1, "a collective write");
  expect_same_error(MPI_File_read_at(file, at, data, kPart, MPI_BYTE, &status), -1, "independent reads");
}

int main(int argc, char** argv) {
  MPI_File file;
  int all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3 || size > 8) return 2;
  const int lost = strcmp(argv[2], "lost") == 0, unseen = strcmp(argv[2], "unseen") == 0;
  const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
  expect(MPI_File_open(MPI_COMM_WORLD, argv[1], amode, MPI_INFO_NULL, &file) == MPI_SUCCESS, -1, "open");
  const double start = MPI_Wtime();
  for (int round = 0; round < kRounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (round == kKillBefore && rank == 0) kill_nodes(argv + 3, argc - 3);
    MPI_Barrier(MPI_COMM_WORLD);
    if (round == kKillBefore && lost) {
      check_lost(file);
      break;
    }
    write_round(file, round);
    MPI_Barrier(MPI_COMM_WORLD);
    read_round(file, round);
  }
  MPI_File_close(&file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0 && !lost) check_mount(argv[1], unseen);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("all calls through nodes behave, %.1f s\n", MPI_Wtime() - start);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
