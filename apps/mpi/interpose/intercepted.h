// SPDX-License-Identifier: Apache-2.0
// What this library does in place of the calls that it intercepts. entry.cc exports them as MPI_* and PMPI_*.
#pragma once

#include "mpi/interpose/calls.h"

namespace tutti::mpi {

#define TUTTI_MPI_DECLARE(name, parameters, arguments) int name parameters;
TUTTI_MPI_CALLS(TUTTI_MPI_DECLARE)
#undef TUTTI_MPI_DECLARE

}  // namespace tutti::mpi
