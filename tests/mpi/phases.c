/* SPDX-License-Identifier: Apache-2.0
 * phases FILE SECONDS: two collective writes with a pause between them. Prints when each has ended. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBytes = 20000 };

int main(int argc, char** argv) {
  char data[kBytes];
  int rank = 0, size = 0, failures = 0, all = 0;
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3) return 2;
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
