// SPDX-License-Identifier: Apache-2.0
// The MPI calls behind this library, and which calls it intercepts.
#pragma once

#include <mpi.h>

namespace tutti::mpi {

// name, parameters, arguments
#define TUTTI_MPI_FILE_CALLS(CALL)                                                                              \
  CALL(File_open, (MPI_Comm comm, const char* path, int amode, MPI_Info info, MPI_File* file),                  \
       (comm, path, amode, info, file))                                                                         \
  CALL(File_close, (MPI_File * file), (file))                                                                   \
  CALL(File_set_view,                                                                                           \
       (MPI_File file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep, \
        MPI_Info info),                                                                                         \
       (file, displacement, etype, filetype, datarep, info))                                                    \
  CALL(File_set_info, (MPI_File file, MPI_Info info), (file, info))                                             \
  CALL(File_set_atomicity, (MPI_File file, int flag), (file, flag))                                             \
  CALL(File_sync, (MPI_File file), (file))                                                                      \
  CALL(Finalize, (void), ())

// Collective data access. `Count` is the type of the count: int, or MPI_Count for the calls with suffix _c.
#define TUTTI_MPI_DATA_CALLS(CALL, suffix, Count)                                                                  \
  CALL(File_read_all##suffix, (MPI_File file, void* buffer, Count count, MPI_Datatype type, MPI_Status* status),   \
       (file, buffer, count, type, status))                                                                        \
  CALL(File_write_all##suffix,                                                                                     \
       (MPI_File file, const void* buffer, Count count, MPI_Datatype type, MPI_Status* status),                    \
       (file, buffer, count, type, status))                                                                        \
  CALL(File_read_at_all##suffix,                                                                                   \
       (MPI_File file, MPI_Offset offset, void* buffer, Count count, MPI_Datatype type, MPI_Status* status),       \
       (file, offset, buffer, count, type, status))                                                                \
  CALL(File_write_at_all##suffix,                                                                                  \
       (MPI_File file, MPI_Offset offset, const void* buffer, Count count, MPI_Datatype type, MPI_Status* status), \
       (file, offset, buffer, count, type, status))                                                                \
  CALL(File_read_all_begin##suffix, (MPI_File file, void* buffer, Count count, MPI_Datatype type),                 \
       (file, buffer, count, type))                                                                                \
  CALL(File_write_all_begin##suffix, (MPI_File file, const void* buffer, Count count, MPI_Datatype type),          \
       (file, buffer, count, type))                                                                                \
  CALL(File_read_at_all_begin##suffix,                                                                             \
       (MPI_File file, MPI_Offset offset, void* buffer, Count count, MPI_Datatype type),                           \
       (file, offset, buffer, count, type))                                                                        \
  CALL(File_write_at_all_begin##suffix,                                                                            \
       (MPI_File file, MPI_Offset offset, const void* buffer, Count count, MPI_Datatype type),                     \
       (file, offset, buffer, count, type))

// Data access of one rank alone.
#define TUTTI_MPI_INDEPENDENT_CALLS(CALL, suffix, Count)                                                            \
  CALL(File_read##suffix, (MPI_File file, void* buffer, Count count, MPI_Datatype type, MPI_Status* status),        \
       (file, buffer, count, type, status))                                                                         \
  CALL(File_write##suffix, (MPI_File file, const void* buffer, Count count, MPI_Datatype type, MPI_Status* status), \
       (file, buffer, count, type, status))                                                                         \
  CALL(File_read_at##suffix,                                                                                        \
       (MPI_File file, MPI_Offset offset, void* buffer, Count count, MPI_Datatype type, MPI_Status* status),        \
       (file, offset, buffer, count, type, status))                                                                 \
  CALL(File_write_at##suffix,                                                                                       \
       (MPI_File file, MPI_Offset offset, const void* buffer, Count count, MPI_Datatype type, MPI_Status* status),  \
       (file, offset, buffer, count, type, status))

#define TUTTI_MPI_END_CALLS(CALL)                                                                           \
  CALL(File_read_all_end, (MPI_File file, void* buffer, MPI_Status* status), (file, buffer, status))        \
  CALL(File_write_all_end, (MPI_File file, const void* buffer, MPI_Status* status), (file, buffer, status)) \
  CALL(File_read_at_all_end, (MPI_File file, void* buffer, MPI_Status* status), (file, buffer, status))     \
  CALL(File_write_at_all_end, (MPI_File file, const void* buffer, MPI_Status* status), (file, buffer, status))

// MPI 4 adds calls whose count is an MPI_Count.
#if MPI_VERSION >= 4
#define TUTTI_MPI_LARGE_CALLS(CALL)         \
  TUTTI_MPI_DATA_CALLS(CALL, _c, MPI_Count) \
  TUTTI_MPI_INDEPENDENT_CALLS(CALL, _c, MPI_Count)
#else
#define TUTTI_MPI_LARGE_CALLS(CALL)
#endif

#define TUTTI_MPI_CALLS(CALL)              \
  TUTTI_MPI_FILE_CALLS(CALL)               \
  TUTTI_MPI_DATA_CALLS(CALL, , int)        \
  TUTTI_MPI_INDEPENDENT_CALLS(CALL, , int) \
  TUTTI_MPI_END_CALLS(CALL)                \
  TUTTI_MPI_LARGE_CALLS(CALL)

// The functions of the MPI library itself.
struct Calls {
#define TUTTI_MPI_MEMBER(name, parameters, arguments) int(*name) parameters = nullptr;
  TUTTI_MPI_CALLS(TUTTI_MPI_MEMBER)
#undef TUTTI_MPI_MEMBER
};

// PMPI_*, as the next library in search order defines them. Found once, at the first call.
const Calls& next();

// The same for MPI_*, of a library behind this one that intercepts them as well (a profiler, Darshan). A member is null
// if there is no such library. Its function calls PMPI_*, which is this library again.
const Calls& tool();

}  // namespace tutti::mpi
