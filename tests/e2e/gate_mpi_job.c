/* SPDX-License-Identifier: Apache-2.0
 * Splits MPI_COMM_WORLD into two jobs at the gate and checks that their phases never overlap: each rank creates a file
 * during its phase and checks that no file of the other job exists. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/gate_mpi.h>
#include <unistd.h>

static void name_of(char* name, size_t size, const char* directory, int half, int rank) {
  snprintf(name, size, "%s/half%d.rank%d", directory, half, rank);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, failures = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int half = rank % 2;
  MPI_Comm mine;
  MPI_Comm_split(MPI_COMM_WORLD, half, rank, &mine);
  for (int phase = 0; phase < 20; ++phase) {
    char name[512];
    if (tutti_mpi_phase_begin(mine, "*", 1 << 20) != TUTTI_TURN) ++failures;
    name_of(name, sizeof(name), argv[1], half, rank);
    const int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file < 0) ++failures;
    for (int other = 0; other < size; ++other) {
      char theirs[512];
      name_of(theirs, sizeof(theirs), argv[1], 1 - half, other);
      if (access(theirs, F_OK) == 0) ++failures;
    }
    close(file);
    unlink(name);
    tutti_mpi_phase_end(mine);
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_free(&mine);
  MPI_Finalize();
  if (rank == 0) printf("%d failures\n", all);
  return all == 0 ? 0 : 1;
}
