/* SPDX-License-Identifier: Apache-2.0
 * The gate for MPI jobs, header-only: one rank asks, all wait in a barrier on the communicator given (thesis, figures
 * 3.2, 3.6 and 3.7, which know only MPI_COMM_WORLD). Collective over `communicator`; every rank gets rank 0's answer.
 *
 *   tutti_mpi_phase_begin(communicator, "0-3", bytes);
 *   MPI_File_write_all(...);
 *   tutti_mpi_phase_end(communicator); */
#ifndef TUTTI_GATE_MPI_H
#define TUTTI_GATE_MPI_H

#include <mpi.h>
#include <tutti/gate.h>

/* As tutti_phase_begin(); `targets` and `bytes` (of all ranks together) count on rank 0 only. The broadcast is the
 * barrier: no rank leaves it before rank 0 has its turn. */
static inline int tutti_mpi_phase_begin(MPI_Comm communicator, const char* targets, uint64_t bytes) {
  int rank = 0, answer = 0;
  MPI_Comm_rank(communicator, &rank);
  if (rank == 0) answer = tutti_phase_begin(targets, bytes);
  MPI_Bcast(&answer, 1, MPI_INT, 0, communicator);
  return answer;
}

/* As tutti_phase_end(), once all ranks have come here. */
static inline int tutti_mpi_phase_end(MPI_Comm communicator) {
  int rank = 0, answer = 0;
  MPI_Barrier(communicator);
  MPI_Comm_rank(communicator, &rank);
  if (rank == 0) answer = tutti_phase_end();
  return answer;
}

/* As tutti_probe(), by rank 0. */
static inline int tutti_mpi_probe(MPI_Comm communicator, const char* path) {
  int rank = 0, answer = 0;
  MPI_Comm_rank(communicator, &rank);
  if (rank == 0) answer = tutti_probe(path);
  MPI_Bcast(&answer, 1, MPI_INT, 0, communicator);
  return answer;
}

#endif
