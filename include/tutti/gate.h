/* SPDX-License-Identifier: Apache-2.0
 * Take turns for checkpoints: plain C, link with -ltutti_gate.
 *
 *   tutti_phase_begin("0-3", bytes);    // returns when it is this job's turn
 *   write_checkpoint();
 *   tutti_phase_end();
 *
 * None of these calls ever stops a job: if the gate cannot be reached, does not answer or the turn does not come within
 * the bounds set by the environment, the job goes ahead and says so once on standard error. docs/gate.md lists the
 * environment variables (TUTTI_GATE, TUTTI_GATE_ANSWER, TUTTI_GATE_MAX_WAIT, TUTTI_PROBE, ...).
 *
 * All calls are thread-safe. A process has one phase at a time: a begin inside an open phase joins it if the phase
 * covers its targets, else waits for its end. In a child made by fork() the parent's phase is not the child's.
 * For MPI see tutti/gate_mpi.h. */
#ifndef TUTTI_GATE_H
#define TUTTI_GATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TUTTI_TURN = 0,       /* it is this job's turn; for tutti_probe: the file system is quiet */
  TUTTI_WENT_AHEAD = 1, /* no turn, or not quiet within the bounds: go ahead all the same */
};

/* `targets`: "*" or NULL for all, or a list such as "0,4-7"; `bytes`: size of the phase, 0 if unknown.
 * TUTTI_TURN, TUTTI_WENT_AHEAD, or -EINVAL: no list of targets, or a wrong environment variable (nothing has begun,
 * and no tutti_phase_end() is due). */
int tutti_phase_begin(const char* targets, uint64_t bytes);

/* 0, or -EINVAL if no phase is open. Does not wait. */
int tutti_phase_end(void);

/* 1 while the open phase holds its turn, else 0. */
int tutti_phase_holds(void);

/* Backoff without a gate: probes the file system that `path` (a file or directory) is on and returns when it is quiet,
 * or after the longest backoff. TUTTI_TURN, TUTTI_WENT_AHEAD, or -errno if it cannot be probed. */
int tutti_probe(const char* path);

/* The same without dummy data: writes the first part of `data` to `file` at `offset` as its probe and returns how many
 * bytes it has written (perhaps 0, perhaps all); the rest is the caller's to write. -errno if that failed. */
ssize_t tutti_probe_data(int file, const void* data, size_t size, off_t offset);

#ifdef __cplusplus
}
#endif

#endif
