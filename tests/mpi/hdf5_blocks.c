/* SPDX-License-Identifier: Apache-2.0
 * hdf5_blocks DIRECTORY: a three-dimensional dataset in blocks, written and read collectively by parallel HDF5. Every
 * element is compared, also by a process that reads the whole file without MPI. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSide = 24 };

static int rank, failures;

static void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("FAILED on rank %d: %s\n", rank, what);
}

static int value(hsize_t x, hsize_t y, hsize_t z) {
  return (int)((x * kSide + y) * kSide + z);
}

/* The block of this rank: the array is divided in two dimensions; chunked: in chunks that do not match the blocks. */
static void dataset(hid_t file, const char* name, int chunked) {
  const hsize_t whole[3] = {kSide, kSide, kSide}, chunk[3] = {7, 24, 11}, block[3] = {kSide / 2, kSide, kSide / 2};
  const hsize_t start[3] = {(hsize_t)(rank / 2) * kSide / 2, 0, (hsize_t)(rank % 2) * kSide / 2};
  const size_t count = (size_t)kSide / 2 * kSide * kSide / 2;
  int *data = malloc(count * sizeof *data), *back = calloc(count, sizeof *back), *at = data;
  for (hsize_t x = 0; x < block[0]; ++x)
    for (hsize_t y = 0; y < block[1]; ++y)
      for (hsize_t z = 0; z < block[2]; ++z) *at++ = value(start[0] + x, start[1] + y, start[2] + z);
  hid_t space = H5Screate_simple(3, whole, NULL), memory = H5Screate_simple(3, block, NULL);
  hid_t creation = H5Pcreate(H5P_DATASET_CREATE), transfer = H5Pcreate(H5P_DATASET_XFER);
  if (chunked) H5Pset_chunk(creation, 3, chunk);
  H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
  hid_t set = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, block, NULL);
  expect(H5Dwrite(set, H5T_NATIVE_INT, memory, space, transfer, data) >= 0, "H5Dwrite");
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  expect(H5Dread(set, H5T_NATIVE_INT, memory, space, transfer, back) >= 0, "H5Dread");
  for (size_t i = 0; i < count; ++i)
    if (data[i] != back[i]) {
      expect(0, name);
      break;
    }
  H5Dclose(set);
  H5Pclose(creation);
  H5Pclose(transfer);
  H5Sclose(space);
  H5Sclose(memory);
  free(data);
  free(back);
}

static void check_serially(const char* path, const char* name) {
  static int all[kSide][kSide][kSide];
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
  expect(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) >= 0, "serial read");
  int wrong = 0;
  for (hsize_t x = 0; x < kSide; ++x)
    for (hsize_t y = 0; y < kSide; ++y)
      for (hsize_t z = 0; z < kSide; ++z) wrong += all[x][y][z] != value(x, y, z);
  expect(wrong == 0, "elements of the file");
  H5Dclose(set);
  H5Fclose(file);
}

int main(int argc, char** argv) {
  char path[4096];
  int all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 2) return 2;
  snprintf(path, sizeof path, "%s/blocks.h5", argv[1]);
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  dataset(file, "contiguous", 0);
  dataset(file, "chunked", 1);
  expect(H5Fclose(file) >= 0, "H5Fclose");
  H5Pclose(access);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    check_serially(path, "contiguous");
    check_serially(path, "chunked");
  }
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) puts("every element was written and read");
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
