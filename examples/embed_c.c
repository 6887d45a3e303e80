/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A storage server in C: Tutti's dispatcher thread calls process() with batches to serve, in the order of a policy.
 * Small writes that adjoin reach the storage as large ones.
 */
#include <inttypes.h>
#include <stdio.h>
#include <tutti/tutti.h>

struct storage {
  uint64_t bytes;     /* written so far */
  uint64_t next_byte; /* where the last write ended */
  int in_order;
};

/* A real server does its I/O here: one vectored operation. The batch is complete when this returns. */
static void process(const tutti_request* requests, size_t count, void* arg) {
  struct storage* storage = arg;
  for (size_t i = 0; i < count; i++) {
    if (requests[i].offset != storage->next_byte) storage->in_order = 0;
    storage->next_byte = requests[i].offset + requests[i].length;
    storage->bytes += requests[i].length;
  }
}

/* Requests that are not served because the server stops: report this to their clients. */
static void dropped(const tutti_request* requests, size_t count, void* arg) {
  (void)arg;
  for (size_t i = 0; i < count; i++) printf("request %" PRIu64 ": sorry, shutting down\n", requests[i].id);
}

static tutti_request small_write(uint64_t number) {
  tutti_request request = {0};
  request.id = number;
  request.file = 7;
  request.offset = number * 4096;
  request.length = 4096;
  request.direction = TUTTI_WRITE;
  request.stamp.application = 1;
  return request;
}

int main(void) {
  const tutti_option options[] = {{"max_bytes", "1MiB"}};
  struct storage storage = {0, 0, 1};
  tutti_config config = {0};
  tutti_callbacks callbacks = {0};
  tutti_scheduler* scheduler;
  tutti_statistics statistics;

  config.policy = "to";
  config.options = options;
  config.option_count = 1;
  callbacks.process = process;
  callbacks.dropped = dropped;
  callbacks.arg = &storage;
  if (tutti_create_with_callbacks(&config, &callbacks, &scheduler) != TUTTI_OK) {
    fprintf(stderr, "%s\n", tutti_last_error());
    return 1;
  }

  for (uint64_t number = 0; number < 1000; number++) {
    tutti_request request = small_write(number);
    if (tutti_add(scheduler, &request) != TUTTI_OK) fprintf(stderr, "%s\n", tutti_last_error());
  }
  /* Wrong input gives an error, never a crash. */
  tutti_request empty = small_write(2000);
  empty.length = 0;
  if (tutti_add(scheduler, &empty) == TUTTI_INVALID) printf("refused: %s\n", tutti_last_error());

  tutti_stop(scheduler, TUTTI_DRAIN); /* returns when everything is served */
  tutti_get_statistics(scheduler, &statistics);
  printf("%" PRIu64 " requests served, %" PRIu64 " bytes, %s\n", statistics.completed, storage.bytes,
         storage.in_order ? "in order" : "out of order");
  tutti_destroy(scheduler);
  return 0;
}
