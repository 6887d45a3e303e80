/* SPDX-License-Identifier: Apache-2.0
 * pnetcdf_blocks DIRECTORY: two variables written collectively by PnetCDF, one with strides. Every element is read by
 * every rank and compared. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRows = 30, kColumns = 48 };

static int rank, size, failures;

static void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("FAILED on rank %d: %s\n", rank, what);
}

/* Rank i writes the columns i, i + size, i + 2 * size, .. */
static void write_columns(int file, int variable) {
  const MPI_Offset start[2] = {0, rank}, count[2] = {kRows, kColumns / size}, stride[2] = {1, size};
  const int columns = kColumns / size;
  int* data = malloc(sizeof(int) * kRows * (size_t)columns);
  for (int y = 0; y < kRows; ++y)
    for (int x = 0; x < columns; ++x) data[y * columns + x] = y * kColumns + rank + x * size;
  expect(ncmpi_put_vars_int_all(file, variable, start, count, stride, data) == NC_NOERR, "strided write");
  free(data);
}

static void write_rows(int file, int variable) {
  const MPI_Offset first = (MPI_Offset)kRows * rank / size, last = (MPI_Offset)kRows * (rank + 1) / size;
  const MPI_Offset start[2] = {first, 0}, count[2] = {last - first, kColumns};
  int data[kRows * kColumns];
  for (MPI_Offset i = 0; i < count[0] * kColumns; ++i) data[i] = (int)(first * kColumns + i);
  expect(ncmpi_put_vara_int_all(file, variable, start, count, data) == NC_NOERR, "write of rows");
}

static void check(int file, int variable) {
  int data[kRows * kColumns] = {0}, wrong = 0;
  expect(ncmpi_get_var_int_all(file, variable, data) == NC_NOERR, "read");
  for (int i = 0; i < kRows * kColumns; ++i) wrong += data[i] != i;
  expect(wrong == 0, "elements of a variable");
}

int main(int argc, char** argv) {
  char path[4096];
  int file = 0, dimensions[2], columns = 0, rows = 0, all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2) return 2;
  snprintf(path, sizeof path, "%s/blocks.nc", argv[1]);
  expect(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file) == NC_NOERR, "create");
  ncmpi_def_dim(file, "y", kRows, &dimensions[0]);
  ncmpi_def_dim(file, "x", kColumns, &dimensions[1]);
  ncmpi_def_var(file, "columns", NC_INT, 2, dimensions, &columns);
  ncmpi_def_var(file, "rows", NC_INT, 2, dimensions, &rows);
  ncmpi_enddef(file);
  write_columns(file, columns);
  write_rows(file, rows);
  ncmpi_sync(file);
  check(file, columns);
  check(file, rows);
  expect(ncmpi_close(file) == NC_NOERR, "close");
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) puts("every element was written and read");
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
