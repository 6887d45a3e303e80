/* SPDX-License-Identifier: Apache-2.0
 * network_file_system DIRECTORY: a collective write to a file that seems to be on NFS. */
#define _GNU_SOURCE
#include <linux/magic.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Replaces the function of the C library, also for the preloaded library. */
int statfs(const char* path, struct statfs* status) {
  const int result = (int)syscall(SYS_statfs, path, status);
  if (result == 0 && strstr(path, "shared")) status->f_type = NFS_SUPER_MAGIC;
  return result;
}

int main(int argc, char** argv) {
  char name[4096], data[1000], back[1000];
  int rank = 0, failures = 0, all = 0;
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 2) return 2;
  snprintf(name, sizeof name, "%s/shared", argv[1]);
  memset(data, 'a' + rank, sizeof data);
  failures += MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != 0;
  failures += MPI_File_write_at_all(file, rank * 1000, data, 1000, MPI_BYTE, MPI_STATUS_IGNORE) != 0;
  failures += MPI_File_read_at_all(file, rank * 1000, back, 1000, MPI_BYTE, MPI_STATUS_IGNORE) != 0;
  failures += memcmp(data, back, sizeof data) != 0;
  failures += MPI_File_close(&file) != 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
