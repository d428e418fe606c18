/* A round is one call of lh_thread_pool_run: the caller publishes the function, adds one to `round`, takes
 * part 0 itself and waits until `unfinished` is zero. Both words are waited for in the same way: spin for
 * some microseconds, because the next op of a layer follows at once, then sleep in the kernel (futex(2)). */
#include "worker/thread_pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Some 20 to 60 us on current machines: longer than the serial work between two ops of a layer, short beside
 * the wait for a network. */
#define SPINS 1500u

/* A word on its own cache line, and whether somebody sleeps on it. */
typedef struct lh_wait_word {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} lh_wait_word;

typedef struct lh_pool_helper {
    lh_thread_pool *pool;
    uint32_t number;
    pthread_t thread;
} lh_pool_helper;

struct lh_thread_pool {
    lh_wait_word round, unfinished;
    lh_thread_function *function;
    void *context;
    uint32_t threads;
    bool stopping; /* published by `round`, as function and context are */
    lh_pool_helper *helpers;
};

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits until the word is not `old`; returns what it is. */
static uint32_t word_wait_change(lh_wait_word *word, uint32_t old) {
    for (unsigned i = 0; i < SPINS; i++) {
        uint32_t now = atomic_load_explicit(&word->value, memory_order_acquire);
        if (now != old) {
            return now;
        }
        relax();
    }
    atomic_fetch_add(&word->sleepers, 1);
    uint32_t now;
    while ((now = atomic_load(&word->value)) == old) {
        syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    }
    atomic_fetch_sub(&word->sleepers, 1);
    return now;
}

static void word_wake(lh_wait_word *word) {
    if (atomic_load(&word->sleepers) > 0) {
        syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

static void *helper_main(void *argument) {
    lh_pool_helper *helper = argument;
    lh_thread_pool *pool = helper->pool;
    for (uint32_t seen = 0;;) {
        seen = word_wait_change(&pool->round, seen);
        if (pool->stopping) {
            return NULL;
        }
        pool->function(pool->context, helper->number, pool->threads);
        if (atomic_fetch_sub(&pool->unfinished.value, 1) == 1) {
            word_wake(&pool->unfinished);
        }
    }
}

static void pool_next_round(lh_thread_pool *pool) {
    atomic_fetch_add(&pool->round.value, 1);
    word_wake(&pool->round);
}

static void pool_stop(lh_thread_pool *pool, uint32_t helpers) {
    pool->stopping = true;
    pool_next_round(pool);
    for (uint32_t i = 0; i < helpers; i++) {
        pthread_join(pool->helpers[i].thread, NULL);
    }
}

lh_status lh_thread_pool_create(uint32_t threads, lh_thread_pool **out, lh_error *error) {
    assert(threads >= 1);
    lh_thread_pool *pool = aligned_alloc(64, sizeof *pool);
    lh_pool_helper *helpers = calloc(threads, sizeof *helpers); /* never of size 0 */
    if (pool == NULL || helpers == NULL) {
        free(helpers);
        free(pool);
        return lh_fail(error, LH_ERR_NO_MEMORY, "thread pool: out of memory for %u threads", threads);
    }
    memset(pool, 0, sizeof *pool);
    pool->threads = threads;
    pool->helpers = helpers;
    for (uint32_t i = 0; i + 1 < threads; i++) {
        helpers[i] = (lh_pool_helper){.pool = pool, .number = i + 1};
        int failure = pthread_create(&helpers[i].thread, NULL, helper_main, &helpers[i]);
        if (failure != 0) {
            pool_stop(pool, i);
            free(helpers);
            free(pool);
            return lh_fail(error, LH_ERR_IO, "thread pool: thread %u of %u could not be started: %s", i + 1,
                           threads, strerror(failure));
        }
    }
    *out = pool;
    return LH_OK;
}

void lh_thread_pool_destroy(lh_thread_pool *pool) {
    if (pool == NULL) {
        return;
    }
    pool_stop(pool, pool->threads - 1);
    free(pool->helpers);
    free(pool);
}

uint32_t lh_thread_pool_size(const lh_thread_pool *pool) {
    return pool->threads;
}

void lh_thread_pool_run(lh_thread_pool *pool, lh_thread_function *function, void *context) {
    if (pool->threads == 1) {
        function(context, 0, 1);
        return;
    }
    pool->function = function;
    pool->context = context;
    atomic_store(&pool->unfinished.value, pool->threads - 1);
    pool_next_round(pool);
    function(context, 0, pool->threads);
    for (uint32_t left; (left = atomic_load_explicit(&pool->unfinished.value, memory_order_acquire)) != 0;) {
        word_wait_change(&pool->unfinished, left);
    }
}
