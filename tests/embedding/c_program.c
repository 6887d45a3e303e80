/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain C program that links both libraries through their C headers only, and uses them side by side: two schedulers
 * of libtutti and the one of libagios in one process. Exit status 0: all went as promised.
 */
#include <agios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#define REQUESTS 1000

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, tutti_last_error()); \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

static char seen[2][REQUESTS]; /* per user: each id is served once; each array is written by one thread only */

static void process(const tutti_request* requests, size_t count, void* arg) {
  char* mine = arg;
  for (size_t i = 0; i < count; i++) mine[requests[i].id]++;
}

static void dropped(const tutti_request* requests, size_t count, void* arg) {
  (void)requests;
  (void)arg;
  CHECK(count == 0); /* we only drain */
}

static void* agios_process(int64_t id) {
  seen[1][id]++;
  return NULL;
}

static void* agios_process_list(int64_t* ids, int32_t n) {
  for (int32_t i = 0; i < n; i++) seen[1][ids[i]]++;
  return NULL;
}

static tutti_request request_number(uint64_t number) {
  tutti_request request;
  memset(&request, 0, sizeof request);
  request.id = number;
  request.file = number % 10;
  request.offset = number * 4096;
  request.length = 4096;
  return request;
}

static void check_all_seen(const char* counts) {
  for (int i = 0; i < REQUESTS; i++) CHECK(counts[i] == 1);
}

static tutti_scheduler* start(void) {
  const tutti_option options[] = {{"width", "250ms"}};
  tutti_config config = {0};
  tutti_callbacks callbacks = {0};
  tutti_scheduler* scheduler = NULL;
  config.policy = "window";
  config.options = options;
  config.option_count = 1;
  callbacks.process = process;
  callbacks.dropped = dropped;
  callbacks.arg = seen[0];
  CHECK(tutti_create_with_callbacks(&config, &callbacks, &scheduler) == TUTTI_OK);
  return scheduler;
}

static void pull_everything(tutti_scheduler* scheduler) {
  tutti_batch batch;
  size_t served = 0;
  CHECK(tutti_stop(scheduler, TUTTI_DRAIN) == TUTTI_OK);
  while (tutti_next(scheduler, -1, &batch) == TUTTI_OK) {
    served += batch.count;
    CHECK(tutti_complete(scheduler, batch.requests, batch.count) == TUTTI_OK);
  }
  CHECK(served == REQUESTS);
}

int main(void) {
  tutti_scheduler* called = start();
  tutti_scheduler* pulled = NULL;
  tutti_statistics statistics;
  char file[] = "file";
  char configuration[] = "/nonexistent/agios.conf";
  char* json = NULL;

  CHECK(tutti_create(NULL, &pulled) == TUTTI_OK);
  CHECK(!agios_init(agios_process, agios_process_list, configuration, 0));
  CHECK(agios_init(agios_process, agios_process_list, NULL, 0));

  for (int i = 0; i < REQUESTS; i++) {
    tutti_request request = request_number((uint64_t)i);
    CHECK(tutti_add(called, &request) == TUTTI_OK);
    CHECK(tutti_add(pulled, &request) == TUTTI_OK);
    CHECK(agios_add_request(file, RT_WRITE, (int64_t)i * 8192, 4096, i, 0));
  }
  CHECK(tutti_stop(called, TUTTI_DRAIN) == TUTTI_OK);
  check_all_seen(seen[0]);
  agios_exit();
  check_all_seen(seen[1]);
  pull_everything(pulled);

  CHECK(tutti_get_statistics(called, &statistics) == TUTTI_OK);
  CHECK(statistics.completed == REQUESTS);
  CHECK(tutti_get_statistics_json(pulled, &json) == TUTTI_OK);
  CHECK(strstr(json, "\"completed\":1000") != NULL);
  tutti_free(json);
  CHECK(tutti_create(NULL, NULL) == TUTTI_INVALID);
  CHECK(strstr(tutti_last_error(), "NULL") != NULL);
  CHECK(tutti_destroy(called) == TUTTI_OK);
  CHECK(tutti_destroy(pulled) == TUTTI_OK);
  CHECK(strlen(tutti_version()) > 0);
  return 0;
}
