/* SPDX-License-Identifier: Apache-2.0
 * Reads and writes by libtutti-mpi-*.so take 10 ms longer, those of the MPI library do not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

typedef ssize_t (*Vectored)(int, const struct iovec*, int, off_t);

static void delay(const void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libtutti-mpi")) usleep(10000);
}

ssize_t preadv64(int file, const struct iovec* buffers, int count, off_t offset) {
  delay(__builtin_return_address(0));
  return ((Vectored)dlsym(RTLD_NEXT, "preadv64"))(file, buffers, count, offset);
}
ssize_t preadv(int file, const struct iovec* buffers, int count, off_t offset) {
  delay(__builtin_return_address(0));
  return ((Vectored)dlsym(RTLD_NEXT, "preadv"))(file, buffers, count, offset);
}
ssize_t pwritev64(int file, const struct iovec* buffers, int count, off_t offset) {
  delay(__builtin_return_address(0));
  return ((Vectored)dlsym(RTLD_NEXT, "pwritev64"))(file, buffers, count, offset);
}
ssize_t pwritev(int file, const struct iovec* buffers, int count, off_t offset) {
  delay(__builtin_return_address(0));
  return ((Vectored)dlsym(RTLD_NEXT, "pwritev"))(file, buffers, count, offset);
}
