// SPDX-License-Identifier: Apache-2.0
// Reads MPI datatypes.
#pragma once

#include <mpi.h>
#include <tutti/base.h>

#include "mpi/core/flat.h"

namespace tutti::mpi {

// Flattens a datatype through MPI_Type_get_envelope() and MPI_Type_get_contents(). The result does not depend on the
// datatype any more: programs free their types right after use.
// kInvalid: MPI_DATATYPE_NULL or a datatype that MPI cannot describe. kFull: more than kMostBlocks blocks.
Result<Flat> flatten(MPI_Datatype type);

// True if the datatype is made from one that is not predefined.
bool nested(MPI_Datatype type);

// The same bytes as a committed datatype that is not nested. The caller frees it. MPI_DATATYPE_NULL: MPI refused.
MPI_Datatype unnested(const Flat& flat);

}  // namespace tutti::mpi
