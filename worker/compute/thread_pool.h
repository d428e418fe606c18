/* The worker's compute threads: the caller and threads - 1 helpers take the parts of a job one by
 * one, and all parts are done when lh_thread_pool_run returns. No allocation and no queue. Helpers
 * spin briefly for the next job and then sleep, so that an idle worker costs nothing; a job never
 * waits for a helper that is not awake. */
#pragma once

#include "common/base/status.h"
#include "worker/compute/slowdown.h"

#include <stdint.h>

typedef struct lh_thread_pool lh_thread_pool;

/* Does one part. thread: who does it, 0 .. size - 1, 0 is the caller: for scratch memory. */
typedef void lh_thread_function(void *context, uint32_t part, uint32_t thread);

/* threads >= 1, the caller included. LH_ERR_NO_MEMORY, LH_ERR_LIMIT (more than LH_THREADS_MAX),
 * LH_ERR_IO (a thread could not be started). */
#define LH_THREADS_MAX 1024u
lh_status lh_thread_pool_create(uint32_t threads, lh_thread_pool **pool, lh_error *error);
/* Joins the helpers. NULL is allowed. */
void lh_thread_pool_destroy(lh_thread_pool *pool);
uint32_t lh_thread_pool_size(const lh_thread_pool *pool);
/* Every job is made to last longer by this factor, which may be set at any time. The pool's. */
lh_slowdown *lh_thread_pool_slowdown(lh_thread_pool *pool);
/* Calls function(context, part, thread) once for each part in [0, parts); parts start in ascending
 * order, and those of one thread do not overlap. One thread at a time may call, and not from a
 * part. */
void lh_thread_pool_run(lh_thread_pool *pool, uint32_t parts, lh_thread_function *function,
                        void *context);
