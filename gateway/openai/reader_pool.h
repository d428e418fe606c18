/* A few threads that read large bodies, so that the server's threads, which answer probes and carry
 * streams, never work for long. What is to be read waits here, within a bound, for its turn: the
 * client of whom the fewest bytes have been read goes first, and each client's own in the order in
 * which they came.
 *
 *     submit() --> waits --> runs --> on_end() --> leave()
 *                    \--------\--------------------/        at any time
 *
 * Whoever leaves before his turn gives up his place; once it runs it runs to its end, for nobody.
 * When it rests for a moment, memory that was freed is given back to the system.
 * Thread: any, but for create and destroy. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_reader_pool lh_reader_pool;
typedef struct lh_reader_work lh_reader_work;

typedef struct lh_reader_task {
    uint64_t client; /* whose it is; 0: of those who have no name, and whom nothing bounds */
    size_t bytes;    /* that it holds while it waits */
    /* A thread of the pool; once, or not at all. */
    void (*run)(void *context);
    /* It has run, and nobody has left. A thread of the pool, which is locked: must not block, nor
     * call back. */
    void (*on_end)(void *context);
    /* The last call, on any thread. */
    void (*discard)(void *context);
    void *context;
} lh_reader_task;

/* `threads` read; tasks of `bytes_max` in all may wait. LH_ERR_NO_MEMORY, LH_ERR_IO. */
lh_status lh_reader_pool_create(uint32_t threads, size_t bytes_max, lh_reader_pool **pool,
                                lh_error *error);
/* Waits for what runs; everybody has left. NULL is allowed. */
void lh_reader_pool_destroy(lh_reader_pool *pool);

/* *work is the submitter's until he leaves. LH_ERR_BUSY: too much waits, in all or of this client,
 * who always finds as much room left for others as he takes; LH_ERR_NO_MEMORY. Then the task is
 * still the caller's. */
lh_status lh_reader_pool_submit(lh_reader_pool *pool, const lh_reader_task *task,
                                lh_reader_work **work, lh_error *error);
bool lh_reader_pool_has_run(lh_reader_pool *pool, const lh_reader_work *work);
/* Discards the task, now or as soon as it has run. Afterwards on_end comes no more. */
void lh_reader_pool_leave(lh_reader_pool *pool, lh_reader_work *work);

/* Large blocks were freed, or are about to be, by others than the pool: so there is memory to give
 * back. */
void lh_reader_pool_note_memory(lh_reader_pool *pool);

/* Tasks that wait. */
size_t lh_reader_pool_waiting(lh_reader_pool *pool);
