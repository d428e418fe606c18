/* The worker's compute threads: the caller and threads - 1 helpers run the same function over the parts of a
 * range, and all have finished when lh_thread_pool_run returns. No allocation, no queue: one barrier a run.
 * Helpers spin briefly and then sleep, so that an idle worker costs nothing. */
#pragma once

#include "common/status.h"

#include <stdint.h>

typedef struct lh_thread_pool lh_thread_pool;

/* thread: 0 .. threads - 1, 0 is the caller. */
typedef void lh_thread_function(void *context, uint32_t thread, uint32_t threads);

/* threads >= 1, the caller included. LH_ERR_NO_MEMORY, LH_ERR_IO (a thread could not be started). */
lh_status lh_thread_pool_create(uint32_t threads, lh_thread_pool **pool, lh_error *error);
/* Joins the helpers. NULL is allowed. */
void lh_thread_pool_destroy(lh_thread_pool *pool);
uint32_t lh_thread_pool_size(const lh_thread_pool *pool);
/* One thread at a time may call. */
void lh_thread_pool_run(lh_thread_pool *pool, lh_thread_function *function, void *context);
