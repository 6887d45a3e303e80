/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tutti's scheduler for servers written in C: hand in requests, get them back in batches, in the order of a policy.
 * Link with -ltutti. docs/embedding.md has worked examples; `tutti policies` lists the policies and their options.
 *
 * Two ways to get the batches, chosen when the scheduler is made:
 *   pull      tutti_create(): your threads call tutti_next() and, when the batch is served, tutti_complete().
 *   callback  tutti_create_with_callbacks(): the library runs one dispatcher thread that calls your functions.
 *
 * The promise: every request that tutti_add() accepted comes back exactly once, to be served or, after
 * tutti_stop(TUTTI_DROP), marked as dropped; unless tutti_cancel() took it back. Also while the policy is switched.
 *
 * Thread safety: every function may be called from any thread at any time, also from inside a callback, except that
 * nobody may use a scheduler that is being destroyed. Any number of schedulers live in one process, independently.
 *
 * Errors: functions that return int give TUTTI_OK (0) or one of the negative codes below; tutti_last_error() then
 * says what was wrong and what would be right. After any error the scheduler goes on; unless said otherwise,
 * as if the call had not been made.
 *
 * Ownership: what you pass in is copied before the call returns. What the library hands out belongs to the library,
 * except for text that says it is to be freed with tutti_free().
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
  TUTTI_INVALID = -1,    /* an argument is wrong: null, length 0, past 2^63, an option or value the policy does not take */
  TUTTI_NOT_FOUND = -2,  /* no such policy, or no such request */
  TUTTI_DUPLICATE = -3,  /* a request with that id is waiting or being served */
  TUTTI_FULL = -4,       /* the bound on waiting requests or bytes is reached: try again later */
  TUTTI_STOPPED = -5,    /* the scheduler was stopped; tutti_next(): and nothing is left to hand out */
  TUTTI_TIMEOUT = -6,    /* nothing to serve came up in the time given */
  TUTTI_NO_MEMORY = -7,
  TUTTI_INTERNAL = -8    /* the library's or the operating system's fault, not the caller's */
};

enum { TUTTI_READ = 0, TUTTI_WRITE = 1 };

/*
 * Made by the client, the same on every server, and the whole coordination channel: servers that order by stamps
 * alone agree without talking to each other. A policy uses what it needs; everything may be 0.
 * The sizes are bytes on one target, the busiest: of all targets for the phase, because that one decides when it is
 * over, and for the operation of those it goes to.
 */
typedef struct tutti_stamp {
  uint32_t application; /* the job */
  uint32_t phase;       /* counts the job's bursts of I/O */
  int64_t issued;       /* when the client issued the operation; 0: the time of tutti_add() */
  int64_t phase_start;  /* when it issued the first operation of the phase; 0: the same as `issued` */
  uint64_t attained;    /* issued in this phase before this operation */
  uint64_t phase_total; /* all of the phase; 0: unknown */
  uint64_t operation;   /* requests that complete together share it */
  uint64_t bottleneck;  /* the operation's largest share on one target */
} tutti_stamp;

/* One contiguous piece of one file on one target. */
typedef struct tutti_request {
  uint64_t id;       /* chosen by you; unique among the requests a scheduler holds */
  uint64_t file;     /* the same for all requests to one file */
  uint64_t offset;   /* in bytes */
  uint64_t length;   /* in bytes, at least 1; offset + length at most 2^63 */
  uint32_t target;   /* the device or server behind you that holds it; 0 if there is one only */
  int32_t direction; /* TUTTI_READ or TUTTI_WRITE */
  tutti_stamp stamp;
} tutti_request;

/* An option of a policy as text, e.g. {"width", "250ms"}. */
typedef struct tutti_option {
  const char* name;
  const char* value;
} tutti_option;

/* How to make a scheduler. Start from all zeros, `tutti_config config = {0};`: 0 and NULL mean the default. */
typedef struct tutti_config {
  const char* policy;          /* default "concert" */
  const tutti_option* options; /* of the policy */
  size_t option_count;
  size_t max_requests;  /* waiting, past which tutti_add() says TUTTI_FULL; default 2^20 */
  uint64_t max_bytes;   /* the same in bytes; default 2^40 */
  size_t max_in_flight; /* batches handed out before one is completed; default no limit */
} tutti_config;

/*
 * Callback mode: your functions, called by the scheduler's dispatcher thread, one call at a time. The requests of one
 * call are of the same file and direction, adjoining, in ascending offset order: serve them as one operation.
 * A call that takes long holds up this scheduler only. A C++ exception that leaves a callback is caught and counted
 * (tutti_statistics.callback_failures); its requests count as completed.
 */
typedef struct tutti_callbacks {
  /* Serve these. `requests` stay valid until the call returns or, with explicit_completion, until all are completed. */
  void (*process)(const tutti_request* requests, size_t count, void* arg);
  /* Do not serve these: answer that the server stops. Need no completion; valid until the call returns. */
  void (*dropped)(const tutti_request* requests, size_t count, void* arg);
  void* arg; /* passed along; may be NULL */
  /* 0: a batch is completed when process() returns. Else: when tutti_complete() was called for all its requests. */
  int explicit_completion;
} tutti_callbacks;

/* Pull mode: what tutti_next() hands out. Adjoining requests of one file and direction, in ascending offset order. */
typedef struct tutti_batch {
  const tutti_request* requests; /* valid until all of them are completed */
  size_t count;
  int dropped;        /* not 0: do not serve them, answer that the server stops. They need tutti_complete() as well. */
  int64_t arrived;    /* when the one that waited longest was added */
  int64_t dispatched; /* when the batch was handed out */
  int64_t held;       /* of the time between, how long the policy waited on purpose */
} tutti_batch;

typedef struct tutti_percentiles {
  int64_t p50, p90, p99, max;
} tutti_percentiles;

/* Counts since the scheduler was made, unless said otherwise. */
typedef struct tutti_statistics {
  uint64_t added, dispatched, completed, cancelled, dropped; /* requests */
  uint64_t added_bytes, dispatched_bytes;
  tutti_percentiles waiting_time; /* from tutti_add() to being handed out */
  uint64_t batches, largest_batch;
  double mean_batch;               /* requests per batch */
  uint64_t waiting, waiting_bytes; /* now */
  uint64_t in_flight;              /* batches, now */
  uint64_t callback_failures;      /* C++ exceptions that left a callback */
} tutti_statistics;

typedef struct tutti_scheduler tutti_scheduler;

/* What was wrong in this thread's last failed call; "" if none failed. Valid until the thread's next failed call. */
const char* tutti_last_error(void);

/* The library's version, e.g. "0.1.0". */
const char* tutti_version(void);

/*
 * Makes a scheduler into *scheduler; on an error *scheduler is NULL. `config` may be NULL: all defaults.
 * TUTTI_NOT_FOUND: no such policy. TUTTI_INVALID: an option it does not take, a value out of range, a null argument.
 */
int tutti_create(const tutti_config* config, tutti_scheduler** scheduler);

/* The same in callback mode. TUTTI_INVALID also if process or dropped is NULL. Callbacks may begin at once. */
int tutti_create_with_callbacks(const tutti_config* config, const tutti_callbacks* callbacks,
                                tutti_scheduler** scheduler);

/*
 * Frees the scheduler. NULL is allowed. Callback mode: first stops with TUTTI_DROP unless stopped already, and returns
 * after the last callback; inside one of its own callbacks that cannot be, so there it is TUTTI_INVALID.
 * Pull mode: nobody may be inside tutti_next(); what still waits is forgotten, so stop and empty it first.
 */
int tutti_destroy(tutti_scheduler* scheduler);

/* Hands in a request. TUTTI_INVALID, TUTTI_DUPLICATE, TUTTI_FULL, TUTTI_STOPPED. */
int tutti_add(tutti_scheduler* scheduler, const tutti_request* request);

/* TUTTI_OK: the request waited and will never be handed out. TUTTI_NOT_FOUND: unknown, handed out already, or done. */
int tutti_cancel(tutti_scheduler* scheduler, uint64_t id);

/*
 * Pull mode: the next batch. `timeout` in nanoseconds; 0: does not wait; negative: waits as long as it takes.
 * TUTTI_TIMEOUT: nothing yet. TUTTI_STOPPED: stopped, and everything was handed out. TUTTI_INVALID in callback mode.
 */
int tutti_next(tutti_scheduler* scheduler, int64_t timeout, tutti_batch* batch);

/*
 * These requests are served (or failed: the scheduler does not mind). Pass what tutti_next() or process() gave, or some
 * of it, in any order; only the ids are looked at. A batch is completed with the last of its requests.
 * TUTTI_NOT_FOUND: one was not handed out or is completed already; the others are completed all the same.
 */
int tutti_complete(tutti_scheduler* scheduler, const tutti_request* requests, size_t count);

/*
 * Changes the policy or its options under way; what waits moves over with its arrival times. On an error the old
 * policy goes on. Errors as for tutti_create().
 */
int tutti_switch_policy(tutti_scheduler* scheduler, const char* policy, const tutti_option* options,
                        size_t option_count);

enum {
  TUTTI_DRAIN = 0, /* what waits is still served, by the policy's rules */
  TUTTI_DROP = 1   /* what waits comes out at once, as dropped */
};

/*
 * tutti_add() says TUTTI_STOPPED from now on. Pull mode: does not wait; tutti_next() hands out the rest. Callback
 * mode: returns after the last callback, except inside a callback of this scheduler, where it does not wait.
 * May be called again, for instance to drop what takes too long to drain.
 */
int tutti_stop(tutti_scheduler* scheduler, int how);

int tutti_get_statistics(tutti_scheduler* scheduler, tutti_statistics* statistics);

/* The same and per application, as one JSON object, into *text: free it with tutti_free(). Times in nanoseconds. */
int tutti_get_statistics_json(tutti_scheduler* scheduler, char** text);

/* Frees text this library handed out. NULL is allowed. */
void tutti_free(void* text);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TUTTI_H */
