/* SPDX-License-Identifier: Apache-2.0
 * phases FILE SECONDS: two collective writes with a pause between them. Prints when each has ended.
 * phases FILE SECONDS fail: the begin of a split write that fails, and a pause. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBytes = 20000 };

/* Open MPI refuses to write to a file that is open for reading. */
static void fail_to_begin(const char* name, double seconds) {
  MPI_File file;
  char data = 'a';
  MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  if (MPI_File_write_at_all_begin(file, 0, &data, 1, MPI_BYTE) != MPI_SUCCESS) puts("the begin has failed");
  fflush(stdout);
  usleep((unsigned)(seconds * 1e6));
  MPI_File_close(&file);
}

int main(int argc, char** argv) {
  char data[kBytes];
  int rank = 0, size = 0, failures = 0, all = 0;
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3) return 2;
  if (argc > 3) {
    fail_to_begin(argv[1], atof(argv[2]));
    MPI_Finalize();
    return 0;
  }
  memset(data, 'a' + rank, sizeof data);
  failures += MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != 0;
  for (int i = 0; i < 2; ++i) {
    const MPI_Offset offset = ((MPI_Offset)i * size + rank) * kBytes;
    failures += MPI_File_write_at_all(file, offset, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE) != 0;
    if (rank == 0) printf("write %d of %s has ended\n", i + 1, argv[1]);
    fflush(stdout);
    if (i == 0) usleep((unsigned)(atof(argv[2]) * 1e6));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  failures += MPI_File_close(&file) != 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
