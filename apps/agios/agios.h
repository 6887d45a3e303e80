/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C interface of the AGIOS scheduling library, served by Tutti: a server written for AGIOS relinks unchanged
 * (docs/agios.md). New code does better with tutti/tutti.h, which has more than one scheduler per process, errors that
 * say what is wrong, and statistics.
 *
 * All functions may be called from any thread, also from inside the callbacks. Those that return bool return false,
 * and change nothing, when they cannot do what is asked; the reason goes to standard error, each reason once.
 */
#ifndef AGIOS_H
#define AGIOS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of requests. */
#define RT_READ 0
#define RT_WRITE 1

/*
 * Starts the library and its scheduling thread, which calls the callbacks, one call at a time:
 * process(id) for a single request, process_list(ids, n) for n adjoining requests of one file and type in ascending
 * offset order. Without process_list (NULL), process is called for each of them in that order. What they return is
 * ignored. `ids` stays valid until the last of these requests is released.
 *
 * config_file: NULL for /etc/agios.conf, or the defaults if there is no such file.
 * max_queue_id: queue ids go from 0 to max_queue_id - 1; 0: no bound.
 * False: already started, process is NULL, or the configuration is wrong.
 */
bool agios_init(void* (*process)(int64_t id), void* (*process_list)(int64_t* ids, int32_t n), char* config_file,
                int32_t max_queue_id);

/* Hands every queued request to the callbacks, then ends the scheduling thread. agios_init() may follow. */
void agios_exit(void);

/*
 * Queues a request. queue_id is the application (SW, WFQ) or the data server (TWINS) it belongs to.
 * False: not started, stopping, a wrong type, a null file, a negative offset, a length below 1, or a queue id out of
 * range.
 */
bool agios_add_request(char* file, int32_t type, int64_t offset, int64_t len, int64_t id, int32_t queue_id);

/* To be called once for each request the callbacks were given, when it is served. Mind the order: len, offset. */
bool agios_release_request(char* file, int32_t type, int64_t len, int64_t offset);

/* True: one request like that was queued and will not reach the callbacks. Mind the order: len, offset. */
bool agios_cancel_request(char* file, int32_t type, int64_t len, int64_t offset);

#ifdef __cplusplus
}
#endif

#endif /* AGIOS_H */
