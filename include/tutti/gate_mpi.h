/* SPDX-License-Identifier: Apache-2.0
 * The gate for MPI jobs, header-only. Rank 0 of the communicator asks the gate, the other ranks wait (thesis, figures
 * 3.2, 3.6 and 3.7). All calls are collective over `communicator`; every rank gets rank 0's answer.
 *
 *   tutti_mpi_phase_begin(communicator, "0-3", bytes);
 *   MPI_File_write_all(...);
 *   tutti_mpi_phase_end(communicator); */
#ifndef TUTTI_GATE_MPI_H
#define TUTTI_GATE_MPI_H

#include <mpi.h>
#include <tutti/gate.h>

/* As tutti_phase_begin(). `targets` and `bytes` (the total of all ranks) are read on rank 0 only. No rank returns
 * before rank 0 has its answer: the broadcast acts as a barrier. */
static inline int tutti_mpi_phase_begin(MPI_Comm communicator, const char* targets, uint64_t bytes) {
  int rank = 0, answer = 0;
  MPI_Comm_rank(communicator, &rank);
  if (rank == 0) answer = tutti_phase_begin(targets, bytes);
  MPI_Bcast(&answer, 1, MPI_INT, 0, communicator);
  return answer;
}

/* As tutti_phase_end(), after all ranks have called it. Only rank 0 gets the result; the others get 0. */
static inline int tutti_mpi_phase_end(MPI_Comm communicator) {
  int rank = 0, answer = 0;
  MPI_Barrier(communicator);
  MPI_Comm_rank(communicator, &rank);
  if (rank == 0) answer = tutti_phase_end();
  return answer;
}

/* As tutti_probe(). Rank 0 probes. */
static inline int tutti_mpi_probe(MPI_Comm communicator, const char* path) {
  int rank = 0, answer = 0;
  MPI_Comm_rank(communicator, &rank);
  if (rank == 0) answer = tutti_probe(path);
  MPI_Bcast(&answer, 1, MPI_INT, 0, communicator);
  return answer;
}

#endif
