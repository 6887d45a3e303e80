/* SPDX-License-Identifier: Apache-2.0
 * MPICH waits by polling. With more ranks than cores this takes a thousand times longer than needed. Preloaded, this
 * gives the core to another rank if a poll found nothing. For tests only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void* worker);

unsigned ucp_worker_progress(void* worker) {
  static unsigned (*next)(void*);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "ucp_worker_progress");
  const unsigned found = next(worker);
  if (found == 0) sched_yield();
  return found;
}
