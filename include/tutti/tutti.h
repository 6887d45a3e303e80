/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tutti's scheduler for servers written in C: add requests, get them back in batches, in the order of a policy.
 * Link with -ltutti. docs/embedding.md has worked examples; `tutti policies` lists the policies and their options.
 *
 * Two ways to get the batches, chosen when the scheduler is created:
 *   pull      tutti_create(): your threads call tutti_next() and, when the batch is served, tutti_complete().
 *   callback  tutti_create_with_callbacks(): the library runs one dispatcher thread that calls your functions.
 *
 * Guarantee: every request that tutti_add() accepted is returned exactly once, to be served or, after
 * tutti_stop(TUTTI_DROP), marked as dropped, unless tutti_cancel() removed it. This also holds while the policy is
 * switched.
 *
 * Thread safety: every function may be called from any thread at any time, also from inside a callback, except that
 * no thread may use a scheduler that is being destroyed. A process may have any number of independent schedulers.
 *
 * Errors: functions that return int give TUTTI_OK (0) or one of the negative codes below; tutti_last_error() then
 * says what was wrong and what would be accepted. After an error the scheduler keeps working; unless stated otherwise,
 * a failed call has no effect.
 *
 * Ownership: arguments are copied before the call returns. Returned memory belongs to the library, except text that
 * must be freed with tutti_free().
 *
 * All times are in nanoseconds; points in time count from 1970 (wall clock), so that servers can compare them.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes. */
enum {
  TUTTI_OK = 0,
  TUTTI_INVALID = -1, /* wrong argument: null, length 0, end past 2^63, an option or value the policy does not accept */
  TUTTI_NOT_FOUND = -2, /* no such policy, or no such request */
  TUTTI_DUPLICATE = -3, /* a request with that id is waiting or being served */
  TUTTI_FULL = -4,      /* the limit of waiting requests or bytes is reached: try again later */
  TUTTI_STOPPED = -5,   /* the scheduler was stopped; from tutti_next(): and no request is left */
  TUTTI_TIMEOUT = -6,   /* no batch was ready within the timeout */
  TUTTI_NO_MEMORY = -7,
  TUTTI_INTERNAL = -8 /* an error of the library or the operating system, not of the caller */
};

enum { TUTTI_READ = 0, TUTTI_WRITE = 1 };

/*
 * Made by the client, the same on every server. Servers that order by stamps alone use the same order without messages
 * between them. A policy uses the fields it needs; every field may be 0.
 * The sizes are bytes on the phase's busiest target, because that target decides when the phase ends.
 */
typedef struct tutti_stamp {
  uint32_t application; /* the job */
  uint32_t phase;       /* number of the job's burst of I/O */
  int64_t issued;       /* when the client issued the operation; 0: the time of tutti_add() */
  int64_t phase_start;  /* when the client issued the first operation of the phase; 0: the same as `issued` */
  uint64_t attained;    /* issued in this phase before this operation */
  uint64_t phase_total; /* size of the phase; 0: unknown */
  uint64_t operation;   /* requests that complete together share it */
  uint64_t bottleneck;  /* what this operation adds to `attained` */
  uint32_t order;       /* if a policy must choose between jobs, the lowest is served first; jobs may share one */
} tutti_stamp;

/* One contiguous range of one file on one target. */
typedef struct tutti_request {
  uint64_t id;       /* chosen by the caller; unique among the requests a scheduler holds */
  uint64_t file;     /* the same for all requests to one file */
  uint64_t offset;   /* in bytes */
  uint64_t length;   /* in bytes, at least 1; offset + length at most 2^63 */
  uint32_t target;   /* the device or server that holds the range; 0 if there is only one */
  int32_t direction; /* TUTTI_READ or TUTTI_WRITE */
  tutti_stamp stamp;
} tutti_request;

/* An option of a policy as text, e.g. {"width", "250ms"}. */
typedef struct tutti_option {
  const char* name;
  const char* value;
} tutti_option;

/* Settings of a new scheduler. Start with `tutti_config config = {0};`: 0 and NULL mean the default. */
typedef struct tutti_config {
  const char* policy;          /* default "concert" */
  const tutti_option* options; /* of the policy */
  size_t option_count;
  size_t max_requests;  /* waiting requests; beyond it tutti_add() returns TUTTI_FULL; default 2^20 */
  uint64_t max_bytes;   /* the same limit in bytes; default 2^40 */
  size_t max_in_flight; /* batches that were returned and are not complete; default: no limit */
  /* Records every request in files PATH.NUMBER.trace, mode 0600, for `tutti trace`; NULL: nothing is recorded. A thread
   * of the library writes them; requests never wait for it. If it cannot write, it says so on standard error. */
  const char* trace;
  uint64_t trace_limit; /* bytes of these files together, the oldest are removed; default 256 MiB, at least 1 MiB */
  /* A trace file, or a directory of them, of earlier runs: what policies with the option `prediction` expect to arrive
   * (docs/prediction.md). NULL: nothing. Files must have names then, see tutti_name_file(). */
  const char* predict;
} tutti_config;

/*
 * Callback mode: your functions, called by the scheduler's dispatcher thread, one call at a time. The requests of one
 * call have the same file and direction, adjoin, and are in ascending offset order: serve them as one operation.
 * A slow call delays this scheduler only. A C++ exception that leaves a callback is caught and counted
 * (tutti_statistics.callback_failures); its requests count as completed.
 */
typedef struct tutti_callbacks {
  /* Serves these requests. `requests` is valid until the call returns or, with explicit_completion, until all of them
   * are completed. */
  void (*process)(const tutti_request* requests, size_t count, void* arg);
  /* Must not serve these requests, but report that the server stops. They need no completion. `requests` is valid until
   * the call returns. */
  void (*dropped)(const tutti_request* requests, size_t count, void* arg);
  void* arg; /* passed to the callbacks; may be NULL */
  /* 0: a batch is complete when process() returns. Else: when tutti_complete() was called for all its requests. */
  int explicit_completion;
} tutti_callbacks;

/* Pull mode: the result of tutti_next(). Adjoining requests of one file and direction, in ascending offset order. */
typedef struct tutti_batch {
  const tutti_request* requests; /* valid until all of them are completed */
  size_t count;
  int dropped;        /* not 0: do not serve, report that the server stops. tutti_complete() must still be called. */
  int64_t arrived;    /* when the longest-waiting request was added */
  int64_t dispatched; /* when tutti_next() returned the batch */
  int64_t held;       /* of the time between, how long the policy delayed the batch */
} tutti_batch;

typedef struct tutti_percentiles {
  int64_t p50, p90, p99, max;
} tutti_percentiles;

/* Counts since the scheduler was created, unless stated otherwise. */
typedef struct tutti_statistics {
  uint64_t added, dispatched, completed, cancelled, dropped; /* requests */
  uint64_t added_bytes, dispatched_bytes;
  tutti_percentiles waiting_time; /* from tutti_add() to dispatch */
  uint64_t batches, largest_batch;
  double mean_batch;               /* requests per batch */
  uint64_t waiting, waiting_bytes; /* now */
  uint64_t in_flight;              /* batches, now */
  uint64_t callback_failures;      /* C++ exceptions that left a callback */
} tutti_statistics;

typedef struct tutti_scheduler tutti_scheduler;

/* The error message of this thread's last failed call; "" if none failed. Valid until the thread's next failed call. */
const char* tutti_last_error(void);

/* The library's version, e.g. "0.1.0". */
const char* tutti_version(void);

/*
 * Creates a scheduler in *scheduler; on an error *scheduler is NULL. `config` may be NULL: all defaults.
 * TUTTI_NOT_FOUND: no such policy. TUTTI_INVALID: unknown option, value out of range, or null argument.
 * TUTTI_INTERNAL: traces cannot be written or read there.
 */
int tutti_create(const tutti_config* config, tutti_scheduler** scheduler);

/* The same in callback mode. Also TUTTI_INVALID if process or dropped is NULL. Callbacks may start before it returns.
 */
int tutti_create_with_callbacks(const tutti_config* config, const tutti_callbacks* callbacks,
                                tutti_scheduler** scheduler);

/*
 * Frees the scheduler. NULL is allowed. Callback mode: first stops with TUTTI_DROP unless already stopped, and returns
 * after the last callback; TUTTI_INVALID inside a callback of this scheduler.
 * Pull mode: no thread may be inside tutti_next(). Waiting requests are lost, so stop the scheduler and take out the
 * rest first.
 */
int tutti_destroy(tutti_scheduler* scheduler);

/* Adds a request. TUTTI_INVALID, TUTTI_DUPLICATE, TUTTI_FULL, TUTTI_STOPPED. */
int tutti_add(tutti_scheduler* scheduler, const tutti_request* request);

/*
 * Tells the name of a file, for traces and predictions: call it before the first request of the file. Runs of digits in
 * names count as equal, so that a file is recognised in the next run. A later call replaces the name.
 */
int tutti_name_file(tutti_scheduler* scheduler, uint64_t file, const char* name);

/* Removes a waiting request: TUTTI_OK, it will not be dispatched. TUTTI_NOT_FOUND: unknown, dispatched or completed. */
int tutti_cancel(tutti_scheduler* scheduler, uint64_t id);

/*
 * Pull mode: the next batch. `timeout` in nanoseconds; 0: does not wait; negative: waits without limit.
 * TUTTI_TIMEOUT: no batch yet. TUTTI_STOPPED: stopped, and no request is left. TUTTI_INVALID in callback mode.
 */
int tutti_next(tutti_scheduler* scheduler, int64_t timeout, tutti_batch* batch);

/*
 * Reports that these requests were served or have failed. Pass all or some of the requests of tutti_next() or process()
 * in any order; only their ids are used. A batch is complete when all its requests are.
 * TUTTI_NOT_FOUND: one was not dispatched or is already completed; the others are completed nevertheless.
 */
int tutti_complete(tutti_scheduler* scheduler, const tutti_request* requests, size_t count);

/*
 * Changes the policy or its options at run time. Waiting requests move to the new policy with their arrival times. On
 * an error the old policy stays. Errors as for tutti_create().
 */
int tutti_switch_policy(tutti_scheduler* scheduler, const char* policy, const tutti_option* options,
                        size_t option_count);

enum {
  TUTTI_DRAIN = 0, /* waiting requests are still served, in the policy's order */
  TUTTI_DROP = 1   /* waiting requests are returned at once, marked as dropped */
};

/*
 * Stops the scheduler: tutti_add() returns TUTTI_STOPPED from now on. Pull mode: does not wait; tutti_next() returns
 * the remaining requests. Callback mode: returns after the last callback, except inside a callback of this scheduler,
 * where it does not wait. May be called again, for example to drop requests that take too long to drain.
 */
int tutti_stop(tutti_scheduler* scheduler, int how);

int tutti_get_statistics(tutti_scheduler* scheduler, tutti_statistics* statistics);

/* The same, in total and per application, as one JSON object in *text. Free it with tutti_free(). Times in
 * nanoseconds. */
int tutti_get_statistics_json(tutti_scheduler* scheduler, char** text);

/* Frees text returned by this library. NULL is allowed. */
void tutti_free(void* text);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TUTTI_H */
