/* The threads that read requests, so that the server's threads, which answer probes and carry
 * streams, never work for long: what a body costs is not known before it has been read, since a
 * schema of 600 bytes may take as long as a text of 600 KB.
 *
 *     submit() --> waits --> runs --> on_end() --> leave()
 *                    \--------\--------------------/        at any time
 *
 * There are two kinds of readers. The quick ones read what is small, of clients who have lately
 * used little of the readers' time, one request of each client at a time; the slow ones, which have
 * a lower priority, read the rest. So an ordinary request waits for no large body and for no form
 * of a client whose forms take long. Both go by turns: of the clients that wait, the one who has
 * lately used least time goes first.
 *
 * Each client has a share of processor time (gateway/auth/reading_ledger.h), to which all that is
 * read for it is charged, whatever comes of it and whether it is there to hear of it or not. Who
 * has used up his share is refused until time has passed.
 *
 * Whoever leaves before his turn gives up his place; once it runs it runs to its end, for nobody.
 * When the slow ones rest for a moment, memory that was freed is given back to the system.
 * Thread: any, but for create and destroy. */
#pragma once

#include "common/base/status.h"
#include "gateway/auth/reading_ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_reader_pool lh_reader_pool;
typedef struct lh_reader_work lh_reader_work;

typedef struct lh_reader_pool_options {
    uint32_t threads;     /* of each kind */
    size_t bytes_max;     /* that may wait in all */
    uint32_t waiting_max; /* tasks that may */
} lh_reader_pool_options;

typedef struct lh_reader_task {
    lh_reading_share share; /* whose it is */
    size_t bytes;           /* that it holds while it waits */
    bool is_large;          /* it takes long, whosever it is */
    /* A thread of the pool; one of the two, once, or none at all. refuse: by the time of its turn,
     * its client had used up its share, and will have time again after wait_us. */
    void (*run)(void *context);
    void (*refuse)(void *context, int64_t wait_us);
    /* It has run, or was refused, and nobody has left. A thread of the pool, which is locked: must
     * not block, nor call back. */
    void (*on_end)(void *context);
    /* The last call, on any thread. */
    void (*discard)(void *context);
    void *context;
} lh_reader_task;

/* LH_ERR_NO_MEMORY, LH_ERR_IO. */
lh_status lh_reader_pool_create(const lh_reader_pool_options *options, lh_reader_pool **pool,
                                lh_error *error);
/* Waits for what runs; everybody has left. NULL is allowed. */
void lh_reader_pool_destroy(lh_reader_pool *pool);

/* Until something may be read for the client again; 0: it may now. */
int64_t lh_reader_pool_wait_us(lh_reader_pool *pool, const lh_reading_share *share);
/* So much processor time was spent for the client elsewhere, for what his requests say. */
void lh_reader_pool_charge(lh_reader_pool *pool, const lh_reading_share *share, uint64_t used_us);
/* *work is the submitter's until he leaves. LH_ERR_BUSY: too much waits, in all or of this client,
 * who always finds as much room left for others as he takes; LH_ERR_NO_MEMORY. Then the task is
 * still the caller's. */
lh_status lh_reader_pool_submit(lh_reader_pool *pool, const lh_reader_task *task,
                                lh_reader_work **work, lh_error *error);
/* It was run or refused. */
bool lh_reader_pool_has_run(lh_reader_pool *pool, const lh_reader_work *work);
/* Discards the task, now or as soon as it has run. Afterwards on_end comes no more. */
void lh_reader_pool_leave(lh_reader_pool *pool, lh_reader_work *work);

/* Large blocks were freed, or are about to be, by others than the pool: so there is memory to give
 * back. */
void lh_reader_pool_note_memory(lh_reader_pool *pool);

/* Tasks that wait. */
size_t lh_reader_pool_waiting(lh_reader_pool *pool);
