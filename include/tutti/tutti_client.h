/* SPDX-License-Identifier: Apache-2.0
 * Read and write files through a Tutti cluster: tutti/client.h in plain C, link with -ltutti_client.
 *
 *   tutti_client* client;
 *   tutti_file* file;
 *   if (tutti_client_connect(NULL, &client) < 0) { fprintf(stderr, "%s\n", tutti_client_error()); ... }
 *   tutti_client_open(client, "run/checkpoint.0", O_WRONLY | O_CREAT, 0644, &file);
 *   tutti_client_begin_phase(client, bytes, 0);        // optional: servers use the size for their order
 *   tutti_file_write(file, data, size, 0);
 *   tutti_file_sync(file, 0);
 *   tutti_client_end_phase(client);
 *   tutti_file_close(file);
 *   tutti_client_close(client);
 *
 * Calls return 0 or a count, or -errno. All are thread-safe, but a client or file must not be used while or after
 * another thread closes it. Where NULL is not mentioned it gives -EFAULT. No C++ exception leaves a call. */
#ifndef TUTTI_CLIENT_C_H
#define TUTTI_CLIENT_C_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_client tutti_client;
typedef struct tutti_file tutti_file;

/* The error message of this thread's last failed call. Valid until the thread's next failed call. */
const char* tutti_client_error(void);

/* `cluster`: path of a cluster.toml; NULL: TUTTI_CLUSTER, else tutti-data/cluster.toml. */
int tutti_client_connect(const char* cluster, tutti_client** client);
/* Pending operations fail with -ESHUTDOWN. Open files must still be closed, but every other call on them fails. */
void tutti_client_close(tutti_client* client);

/* `total`: bytes that all processes of this application will read and write in the phase, 0 if unknown. `kind`:
 * separates phases that repeat with different sizes. */
int tutti_client_begin_phase(tutti_client* client, uint64_t total, uint64_t kind);
/* The same, with `files`: do all processes use the same files (as above), or has each process its own files? */
enum { TUTTI_SHARED_FILES = 0, TUTTI_ONE_FILE_PER_PROCESS = 1 };
int tutti_client_begin_phase_files(tutti_client* client, uint64_t total, uint64_t kind, int files);
/* The same for a phase that uses only this open file: turn and size apply to the targets of its layout. */
int tutti_client_begin_phase_on(tutti_client* client, tutti_file* file, uint64_t total, uint64_t kind, int files);
void tutti_client_end_phase(tutti_client* client);

/* `flags`: O_RDONLY, O_WRONLY or O_RDWR with O_CREAT, O_EXCL, O_TRUNC; others are -EINVAL. */
int tutti_client_open(tutti_client* client, const char* path, int flags, mode_t mode, tutti_file** file);
int tutti_file_close(tutti_file* file);

/* Return the bytes transferred. A read returns fewer than `size` only at the end of the file. */
ssize_t tutti_file_read(tutti_file* file, void* data, size_t size, uint64_t offset);
ssize_t tutti_file_write(tutti_file* file, const void* data, size_t size, uint64_t offset);

/* All parts are one operation. */
struct tutti_part {
  uint64_t offset;
  void* data; /* not changed by a write */
  size_t size;
};
ssize_t tutti_file_read_list(tutti_file* file, const struct tutti_part* parts, size_t count);
ssize_t tutti_file_write_list(tutti_file* file, const struct tutti_part* parts, size_t count);

/* `done` is called once, on a thread of the client, and must not block. Keep the data valid and unchanged until then;
 * `parts` itself is copied. */
typedef void (*tutti_done)(void* context, ssize_t result);
void tutti_file_read_async(tutti_file* file, const struct tutti_part* parts, size_t count, tutti_done done,
                           void* context);
void tutti_file_write_async(tutti_file* file, const struct tutti_part* parts, size_t count, tutti_done done,
                            void* context);

int tutti_file_sync(tutti_file* file, int data_only);
int tutti_file_truncate(tutti_file* file, uint64_t size);
int tutti_file_stat(tutti_file* file, struct stat* status);

int tutti_client_stat(tutti_client* client, const char* path, int follow, struct stat* status);
int tutti_client_mkdir(tutti_client* client, const char* path, mode_t mode);
int tutti_client_rmdir(tutti_client* client, const char* path);
/* Makes the names in a directory durable, for example after a rename. */
int tutti_client_sync_directory(tutti_client* client, const char* path);
int tutti_client_unlink(tutti_client* client, const char* path);
int tutti_client_rename(tutti_client* client, const char* from, const char* to);
int tutti_client_link(tutti_client* client, const char* from, const char* to);
int tutti_client_symlink(tutti_client* client, const char* target, const char* path);
/* As readlink(2): not null-terminated, truncated to `size`. */
ssize_t tutti_client_readlink(tutti_client* client, const char* path, char* target, size_t size);
int tutti_client_chmod(tutti_client* client, const char* path, mode_t mode);
/* Calls `entry` for every name but "." and ".." until it returns something other than 0, and returns that. */
typedef int (*tutti_entry)(void* context, const char* name, unsigned char type);
int tutti_client_readdir(tutti_client* client, const char* path, tutti_entry entry, void* context);

#ifdef __cplusplus
}
#endif

#endif
