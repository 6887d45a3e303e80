/* SPDX-License-Identifier: Apache-2.0
 * Take turns for checkpoints. Plain C, link with -ltutti_gate.
 *
 *   tutti_phase_begin("0-3", bytes);    // returns when it is this job's turn
 *   write_checkpoint();
 *   tutti_phase_end();
 *
 * No call blocks a job forever. If the gate cannot be reached, does not answer, or does not grant the turn within the
 * limits set by the environment, the job continues without a turn and prints one warning on standard error.
 * docs/gate.md lists the environment variables (TUTTI_GATE, TUTTI_GATE_ANSWER, TUTTI_GATE_MAX_WAIT, TUTTI_PROBE, ...).
 *
 * All calls are thread-safe. A process has one phase at a time: a begin inside an open phase joins it if the phase
 * covers its targets, else it waits for the end of that phase. A child made by fork() does not inherit the parent's
 * phase. For MPI see tutti/gate_mpi.h. */
#ifndef TUTTI_GATE_H
#define TUTTI_GATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TUTTI_TURN = 0,       /* the job has its turn; for tutti_probe: the file system is idle */
  TUTTI_WENT_AHEAD = 1, /* no turn granted, or not idle within the limits: continue without */
};

/* Begins a phase. `targets`: "*" or NULL for all, or a list such as "0,4-7". `bytes`: size of the phase, 0 if unknown.
 * Returns TUTTI_TURN or TUTTI_WENT_AHEAD; -EINVAL if `targets` is not a valid list or an environment variable is wrong
 * (then no phase has begun: do not call tutti_phase_end()). */
int tutti_phase_begin(const char* targets, uint64_t bytes);

/* Ends the phase and returns the turn. Does not wait. Returns 0, or -EINVAL if no phase is open. */
int tutti_phase_end(void);

/* Returns 1 while the open phase holds its turn, else 0. */
int tutti_phase_holds(void);

/* Backoff without a gate: probes the file system of `path` (a file or directory) and returns when it is idle, or after
 * the longest backoff. Returns TUTTI_TURN, TUTTI_WENT_AHEAD, or -errno if probing failed. */
int tutti_probe(const char* path);

/* The same without dummy data: uses the first part of `data` as the probe and writes it to `file` at `offset`. Returns
 * the number of bytes written (from 0 to `size`), or -errno. The caller must write the rest. */
ssize_t tutti_probe_data(int file, const void* data, size_t size, off_t offset);

#ifdef __cplusplus
}
#endif

#endif
