// SPDX-License-Identifier: Apache-2.0
// The exported symbols. Both MPI_* and PMPI_* are defined: the Fortran bindings of Open MPI and some of MPICH call
// PMPI_* only.
//
// No call comes here twice: the bodies use next(), which are the functions of the MPI library. If another library
// behind this one intercepts MPI_*, it is called first, and calls PMPI_* in turn.
#include "mpi/interpose/calls.h"
#include "mpi/interpose/intercepted.h"

extern "C" {

#define TUTTI_MPI_EXPORT(name, parameters, arguments)                       \
  __attribute__((visibility("default"))) int PMPI_##name parameters try {   \
    return tutti::mpi::name arguments;                                      \
  } catch (...) { /* out of memory */                                       \
    return MPI_ERR_NO_MEM;                                                  \
  }                                                                         \
  __attribute__((visibility("default"))) int MPI_##name parameters {        \
    if (const auto other = tutti::mpi::tool().name) return other arguments; \
    return PMPI_##name arguments;                                           \
  }
TUTTI_MPI_CALLS(TUTTI_MPI_EXPORT)
#undef TUTTI_MPI_EXPORT

}  // extern "C"
