/* SPDX-License-Identifier: Apache-2.0
 * semantics DIRECTORY: file pointers, counts, mixtures with calls that are not rearranged, errors. Four ranks. */
#define _GNU_SOURCE
#include <malloc.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { kBlock = 1000, kInts = 250 };

static int rank, size, failures;
static char path[4096];

static void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("FAILED on rank %d: %s\n", rank, what);
  fflush(stdout);
}

/* All ranks got the same error class, which is not success. */
static void expect_same_error(int code, const char* what) {
  int class = MPI_SUCCESS, lowest = 0, highest = 0;
  MPI_Error_class(code, &class);
  MPI_Allreduce(&class, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&class, &highest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  expect(lowest == highest && lowest != MPI_SUCCESS, what);
}

static MPI_File open_file(const char* name, int amode, const char* key, const char* value) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_File file = MPI_FILE_NULL;
  if (key) {
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
  }
  snprintf(path, sizeof path, "%s", name);
  if (rank == 0 && (amode & MPI_MODE_CREATE)) unlink(path);
  MPI_Barrier(MPI_COMM_WORLD);
  expect(MPI_File_open(MPI_COMM_WORLD, path, amode, info, &file) == MPI_SUCCESS, "open");
  if (key) MPI_Info_free(&info);
  return file;
}

static void fill(int* data, int round) {
  for (int i = 0; i < kInts; ++i) data[i] = round * 1000000 + rank * 1000 + i;
}

/* Whether the file has what fill() made for all ranks, in blocks by round and rank. */
static int file_has(int rounds) {
  FILE* in = fopen(path, "rb");
  int fine = in != NULL;
  for (int round = 0; fine && round < rounds; ++round)
    for (int r = 0; fine && r < size; ++r)
      for (int i = 0; fine && i < kInts; ++i) {
        int value = -1;
        fine = fread(&value, sizeof value, 1, in) == 1 && value == round * 1000000 + r * 1000 + i;
      }
  if (in) fclose(in);
  return fine;
}

/* Every call uses the pointer that the call before it left. */
static void pointers(const char* name) {
  MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, NULL, NULL);
  MPI_Datatype block, blocks;
  int data[kInts], back[kInts];
  MPI_Status status;
  MPI_Offset position = -1;
  MPI_Request request;
  MPI_Type_vector(1, kInts, size * kInts, MPI_INT, &block);
  MPI_Type_create_resized(block, 0, (MPI_Aint)size * kInts * 4, &blocks);
  MPI_Type_commit(&blocks);
  MPI_Type_free(&block);
  expect(MPI_File_set_view(file, rank * kInts * 4, MPI_INT, blocks, "native", MPI_INFO_NULL) == MPI_SUCCESS, "view");
  MPI_Type_free(&blocks);
  fill(data, 0);
  MPI_File_write_all(file, data, kInts, MPI_INT, &status);
  fill(data, 1);
  MPI_File_write(file, data, kInts, MPI_INT, &status); /* independent */
  MPI_File_get_position(file, &position);
  expect(position == 2 * kInts, "the pointer after a collective and an independent write");
  fill(data, 2);
  MPI_File_write_all_begin(file, data, kInts, MPI_INT);
  MPI_File_write_all_end(file, data, &status);
  fill(data, 3);
  MPI_File_iwrite_all(file, data, kInts, MPI_INT, &request); /* nonblocking collectives are left to MPI */
  MPI_Wait(&request, &status);
  MPI_File_set_atomicity(file, 1);
  fill(data, 4);
  MPI_File_write_all(file, data, kInts, MPI_INT, &status); /* atomic mode, too */
  MPI_File_set_atomicity(file, 0);
  fill(data, 5);
  expect(MPI_File_write_all(file, data, kInts, MPI_INT, &status) == MPI_SUCCESS, "write");
  MPI_File_get_position(file, &position);
  expect(position == 6 * kInts, "the pointer after six writes");
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) expect(file_has(6), "the file after six writes");
  MPI_File_seek(file, -kInts, MPI_SEEK_CUR);
  MPI_File_read_all(file, back, kInts, MPI_INT, &status);
  expect(memcmp(data, back, sizeof data) == 0, "read after MPI_File_seek");
  MPI_File_seek(file, 0, MPI_SEEK_SET);
  MPI_File_read(file, back, kInts, MPI_INT, &status);
  MPI_File_read_all(file, back, kInts, MPI_INT, &status);
  fill(data, 1);
  expect(memcmp(data, back, sizeof data) == 0, "a collective read after an independent one");
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  MPI_File_get_position(file, &position);
  expect(position == 0, "a new view resets the pointer");
  MPI_File_close(&file);
  expect(file == MPI_FILE_NULL, "close");
}

/* The shared pointer and ordered calls are MPI's. */
static void ordered(const char* name) {
  MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, NULL, NULL);
  int data[kInts];
  MPI_Status status;
  fill(data, 0);
  MPI_File_write_ordered(file, data, kInts, MPI_INT, &status);
  fill(data, 1);
  MPI_File_write_at_all(file, (MPI_Offset)(size + rank) * kBlock, data, kInts, MPI_INT, &status);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) expect(file_has(2), "the file after an ordered and a collective write");
  MPI_File_close(&file);
}

/* Absolute addresses, ranks without data, counts. */
static void memories(const char* name) {
  MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, "tutti_plan", "resonant");
  int first[10], second[10], count = -1;
  MPI_Aint at[2];
  const int lengths[2] = {10, 10};
  MPI_Datatype type;
  MPI_Status status;
  for (int i = 0; i < 10; ++i) {
    first[i] = rank * 100 + i;
    second[i] = rank * 100 + 10 + i;
  }
  MPI_Get_address(first, &at[0]);
  MPI_Get_address(second, &at[1]);
  MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_File_write_at_all(file, rank * 80, MPI_BOTTOM, rank == 2 ? 0 : 1, type, &status);
  MPI_Get_elements(&status, type, &count);
  expect(count == (rank == 2 ? 0 : 20), "MPI_Get_elements");
  MPI_Get_count(&status, type, &count);
  expect(count == (rank == 2 ? 0 : 1), "MPI_Get_count");
  memset(first, 0, sizeof first);
  MPI_File_read_at_all(file, rank * 80, MPI_BOTTOM, rank == 2 ? 0 : 1, type, &status);
  expect(rank == 2 || (first[9] == rank * 100 + 9 && second[0] == rank * 100 + 10), "absolute addresses");
  MPI_Type_free(&type);
  MPI_File_close(&file);
}

static void wrong_hints(const char* name) {
  const char* const wrong[][2] = {{"tutti_plan", "fastest"},     {"tutti_agents_per_target", "-1"},
                                  {"tutti_buffer", "12"},        {"striping_unit", "-4096"},
                                  {"striping_factor", "100000"}, {"tutti_turn", "perhaps"},
                                  {"tutti_route", "server"}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    MPI_Info info;
    MPI_File file = MPI_FILE_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, wrong[i][0], wrong[i][1]);
    const int code = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file);
    expect_same_error(code, wrong[i][0]);
    MPI_Info_free(&info);
  }
}

/* Only one rank makes the mistake; all get the error. */
static void wrong_views(const char* name) {
  MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, NULL, NULL);
  const int lengths[2] = {4, 4}, overlapping[2] = {0, 2}, apart[2] = {0, 8};
  MPI_Datatype type;
  char data[8] = "";
  const int displacement = rank == 1 ? -8 : 0;
  expect_same_error(MPI_File_set_view(file, displacement, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "displacement");
  MPI_Type_indexed(2, lengths, rank == 1 ? overlapping : apart, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  expect_same_error(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL), "overlapping view");
  MPI_Type_free(&type);
  /* The type is fine, but two elements overlap. */
  MPI_Type_create_resized(MPI_INT, 0, rank == 1 ? 2 : 4, &type);
  MPI_Type_commit(&type);
  if (MPI_File_set_view(file, rank * 100, MPI_BYTE, type, "native", MPI_INFO_NULL) == MPI_SUCCESS)
    expect_same_error(MPI_File_write_all(file, data, 8, MPI_BYTE, MPI_STATUS_IGNORE), "overlapping elements");
  MPI_Type_free(&type);
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  const MPI_Offset offset = rank == 2 ? -1 : 0;
  expect_same_error(MPI_File_read_at_all(file, offset, data, 8, MPI_BYTE, MPI_STATUS_IGNORE), "negative offset");
  const int count = rank == 2 ? -1 : 8;
  expect_same_error(MPI_File_read_at_all(file, 0, data, count, MPI_BYTE, MPI_STATUS_IGNORE), "negative count");
  MPI_File_close(&file);
}

/* One agent cannot write: all ranks get the error. What was acknowledged before is in the file. */
static void failed_write(const char* name, const char* plan) {
  MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, "tutti_plan", plan);
  int data[kInts], back[kInts];
  MPI_Status status;
  fill(data, 0);
  expect(MPI_File_write_at_all(file, (MPI_Offset)rank * kBlock, data, kInts, MPI_INT, &status) == MPI_SUCCESS, plan);
  struct rlimit limit, old;
  getrlimit(RLIMIT_FSIZE, &old);
  limit = old;
  limit.rlim_cur = (rlim_t)size * kBlock;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  /* The second half of the data is beyond the limit. */
  const MPI_Offset offset = (MPI_Offset)(size / 2 + rank) * kBlock;
  expect_same_error(MPI_File_write_at_all(file, offset, data, kInts, MPI_INT, &status), plan);
  setrlimit(RLIMIT_FSIZE, &old);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_read_at_all(file, (MPI_Offset)rank * kBlock, back, kInts, MPI_INT, &status);
  expect(rank >= size / 2 || memcmp(data, back, sizeof data) == 0, "acknowledged data after a failed write");
  MPI_File_close(&file);
}

/* After a failed begin the MPI library knows nothing of the call; the end returns the error, too. */
static void failed_split(const char* name) {
  MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, "tutti_plan", "resonant");
  int data[kInts], back[kInts];
  MPI_Status status;
  fill(data, 0);
  for (int with_end = 0; with_end < 2; ++with_end) {
    const int count = rank == 1 ? -1 : kInts;
    expect_same_error(MPI_File_write_at_all_begin(file, 0, data, count, MPI_INT), "begin");
    if (with_end) expect_same_error(MPI_File_write_at_all_end(file, data, &status), "end after a failed begin");
    const MPI_Offset offset = (MPI_Offset)rank * kBlock;
    expect(MPI_File_write_at_all_begin(file, offset, data, kInts, MPI_INT) == MPI_SUCCESS, "the next begin");
    expect(MPI_File_write_at_all_end(file, data, &status) == MPI_SUCCESS, "the next end");
  }
  MPI_File_read_at_all(file, (MPI_Offset)rank * kBlock, back, kInts, MPI_INT, &status);
  expect(memcmp(data, back, sizeof data) == 0, "data of the split call after the failed one");
  MPI_File_close(&file);
}

static char letter(long offset) {
  return (char)('a' + offset % 23);
}

/* Whether the rank's part of a file of letters is in `data`. */
static int has_letters(const char* data, long offset, long count) {
  for (long i = 0; i < count; ++i)
    if (data[i] != letter(offset + i)) return 0;
  return 1;
}

/* A message is larger than the buffer, so it is sent in pieces. Then all ranks read nearly the same bytes, more than
 * the agents have memory for at once. */
static void large_messages(const char* name) {
  enum { kPart = 300001 };
  MPI_File file;
  MPI_Info info;
  MPI_Status status;
  char* data = malloc((size_t)kPart * (size_t)size);
  if (rank == 0) unlink(name);
  MPI_Info_create(&info);
  MPI_Info_set(info, "tutti_plan", "resonant");
  MPI_Info_set(info, "tutti_buffer", "65536");
  MPI_Info_set(info, "striping_unit", "1048576");
  MPI_Info_set(info, "striping_factor", "2");
  expect(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file) == MPI_SUCCESS, "open");
  MPI_Info_free(&info);
  const long offset = (long)rank * kPart, all = (long)size * kPart;
  for (long i = 0; i < kPart; ++i) data[i] = letter(offset + i);
  expect(MPI_File_write_at_all(file, offset, data, kPart, MPI_BYTE, &status) == MPI_SUCCESS, "a large write");
  memset(data, 0, (size_t)all);
  const long first = rank, count = all - size; /* so that no two messages have the same bytes */
  expect(MPI_File_read_at_all(file, first, data, (int)count, MPI_BYTE, &status) == MPI_SUCCESS, "a read by all ranks");
  expect(has_letters(data, first, count), "data that all ranks read");
  MPI_File_close(&file);
  free(data);
}

/* A rank has no memory for the buffer of its own bytes: MPI carries out the call. */
static void no_memory(const char* name, const char* plan) {
  MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, "tutti_plan", plan);
  MPI_Datatype type;
  MPI_Status status;
  char data[kBlock], back[kBlock];
  for (int i = 0; i < kBlock; ++i) data[i] = letter(rank + i);
  memset(back, 0, sizeof back);
  MPI_Type_vector(kBlock / 2, 1, 2, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_File_write_at_all(file, 0, data, 0, type, &status); /* what MPI allocates at the first call */
  struct rlimit limit, old;
  getrlimit(RLIMIT_AS, &old);
  limit = old;
  long kilobytes = 0;
  char line[256];
  FILE* in = fopen("/proc/self/status", "r");
  while (in && fgets(line, sizeof line, in)) sscanf(line, "VmSize: %ld", &kilobytes);
  if (in) fclose(in);
  limit.rlim_cur = (rlim_t)(kilobytes + 2048) * 1024;
  if (rank == 1 && in) setrlimit(RLIMIT_AS, &limit);
  expect(MPI_File_write_at_all(file, rank * kBlock, data, 1, type, &status) == MPI_SUCCESS, "write without memory");
  setrlimit(RLIMIT_AS, &old);
  MPI_File_read_at_all(file, rank * kBlock, back, 1, type, &status);
  for (int i = 0; i < kBlock; i += 2) expect(back[i] == data[i], "data written without memory");
  MPI_Type_free(&type);
  MPI_File_close(&file);
}

/* Some MPI libraries take "ufs:" for the name of a file system. The collective write must use the same file as they. */
static void prefixed(void) {
  int data[kInts], back[kInts];
  MPI_Status status;
  for (int i = 0; rank == 0 && i < 2; ++i) {
    FILE* out = fopen(i == 0 ? "ufs:prefixed" : "prefixed", "w");
    if (out) fclose(out);
  }
  MPI_File file = open_file("ufs:prefixed", MPI_MODE_RDWR, "tutti_plan", "resonant");
  fill(data, 0);
  memset(back, 0, sizeof back);
  expect(MPI_File_write_at_all(file, (MPI_Offset)rank * kBlock, data, kInts, MPI_INT, &status) == MPI_SUCCESS, "write");
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_read_at(file, (MPI_Offset)rank * kBlock, back, kInts, MPI_INT, &status); /* independent */
  expect(memcmp(data, back, sizeof data) == 0, "the file of a name with a prefix");
  MPI_File_close(&file);
}

/* The library cannot open the file a second time: MPI carries out the call. */
static void replaced(const char* name) {
  MPI_File file = open_file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, "tutti_plan", "resonant");
  int data[kInts], back[kInts];
  MPI_Status status;
  MPI_Offset bytes = 0;
  if (rank == 0) unlink(name);
  MPI_Barrier(MPI_COMM_WORLD);
  fill(data, 0);
  for (int round = 0; round < 2; ++round)
    expect(MPI_File_write_all(file, data, kInts, MPI_INT, &status) == MPI_SUCCESS, "write of a removed file");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_get_size(file, &bytes);
  expect(bytes == 2 * kBlock, "the size of a removed file");
  MPI_File_read_at_all(file, kBlock, back, kInts, MPI_INT, &status);
  MPI_File_close(&file);
}

int main(int argc, char** argv) {
  mallopt(M_MMAP_THRESHOLD, 1 << 20); /* for no_memory(): large memory is not taken from what was freed */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char name[2048];
  if (argc < 2 || chdir(argv[1]) != 0) return 2;
  snprintf(name, sizeof name, "%s/semantics", argv[1]);
  pointers(name);
  ordered(name);
  memories(name);
  wrong_hints(name);
  wrong_views(name);
  failed_split(name);
  large_messages(name);
  no_memory(name, "independent");
  no_memory(name, "timed");
  prefixed();
  if (!getenv("TUTTI_ROUTE")) { /* limits of this process do not hold for nodes; nodes open files by name */
    failed_write(name, "resonant");
    failed_write(name, "timed");
    failed_write(name, "two-phase");
    replaced(name);
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) puts("all calls behave as MPI says");
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
