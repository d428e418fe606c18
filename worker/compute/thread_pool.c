/* One word says it all: the number of the job, whether it is closed, and how many helpers have
 * joined it.
 *
 *   caller   publishes the job with an open word, takes parts until none is left, closes the word,
 *            and waits
 * until nobody is joined helper   finds a word that is open, joins by adding 1 (compare-and-swap,
 * so never a closed one), takes parts until none is left, and leaves by subtracting 1
 *
 * So a helper that sleeps, or whose processor somebody else has, is not waited for: it comes too
 * late and finds the word closed. Whoever waits spins for some microseconds first, because the next
 * op of a layer follows at once, and then sleeps in the kernel (futex(2)). The job's number keeps a
 * helper from joining one twice; that it wraps does no harm, since an equal word is an open job. */
#include "worker/compute/thread_pool.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Some 20 to 60 us on current machines: longer than the serial work between two ops of a layer,
 * short beside the wait for a network. */
#define SPINS 1500u

#define JOINED_MASK 0xffffu
#define CLOSED      0x10000u
#define JOB_SHIFT   17

typedef struct lh_pool_helper {
    lh_thread_pool *pool;
    uint32_t number;
    pthread_t thread;
} lh_pool_helper;

struct lh_thread_pool {
    _Alignas(64) _Atomic uint32_t word;
    _Atomic uint32_t helpers_asleep;
    _Atomic bool caller_asleep, stopping;
    lh_thread_function *function; /* written while nobody is joined */
    void *context;
    uint32_t parts;
    _Alignas(64) _Atomic uint32_t next_part;
    uint32_t threads;
    lh_slowdown slowdown;
    lh_pool_helper helpers[]; /* [threads - 1] */
};

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    /* YIELD is free on most cores; this waits some ten cycles, as x86's PAUSE does */
    __asm__ volatile("isb");
#endif
}

static void word_sleep(lh_thread_pool *pool, uint32_t value) {
    syscall(SYS_futex, &pool->word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void word_wake(lh_thread_pool *pool, uint32_t count) {
    syscall(SYS_futex, &pool->word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void take_parts(lh_thread_pool *pool, uint32_t thread) {
    for (uint32_t part; (part = atomic_fetch_add(&pool->next_part, 1)) < pool->parts;)
        pool->function(pool->context, part, thread);
}

/* ---- Helper ---- */

static bool is_open_and_new(uint32_t word, uint32_t last_job) {
    return (word & CLOSED) == 0 && word >> JOB_SHIFT != last_job;
}

/* An open word of another job than the last; any word when the pool is stopping. */
static uint32_t wait_for_job(lh_thread_pool *pool, uint32_t last_job) {
    uint32_t word = atomic_load(&pool->word);
    for (unsigned i = 0; i < SPINS && !is_open_and_new(word, last_job); i++) {
        relax();
        word = atomic_load_explicit(&pool->word, memory_order_acquire);
    }
    if (is_open_and_new(word, last_job))
        return word;
    atomic_fetch_add(&pool->helpers_asleep, 1);
    while (!is_open_and_new(word = atomic_load(&pool->word), last_job) &&
           !atomic_load(&pool->stopping)) {
        word_sleep(pool, word);
    }
    atomic_fetch_sub(&pool->helpers_asleep, 1);
    return word;
}

static void leave(lh_thread_pool *pool) {
    uint32_t word = atomic_fetch_sub(&pool->word, 1) - 1;
    if ((word & CLOSED) != 0 && (word & JOINED_MASK) == 0 && atomic_load(&pool->caller_asleep))
        word_wake(pool, INT_MAX);
}

static void *helper_main(void *argument) {
    lh_pool_helper *helper = argument;
    lh_thread_pool *pool = helper->pool;
    uint32_t last_job = 0;
    while (!atomic_load(&pool->stopping)) {
        uint32_t word = wait_for_job(pool, last_job);
        if (is_open_and_new(word, last_job) &&
            atomic_compare_exchange_strong(&pool->word, &word, word + 1)) {
            last_job = word >> JOB_SHIFT;
            take_parts(pool, helper->number);
            leave(pool);
        }
    }
    return NULL;
}

/* ---- Caller ---- */

static void job_open(lh_thread_pool *pool) {
    uint32_t job = (atomic_load_explicit(&pool->word, memory_order_relaxed) >> JOB_SHIFT) + 1;
    atomic_store(&pool->next_part, 0);
    atomic_store(&pool->word, job << JOB_SHIFT);
    if (atomic_load(&pool->helpers_asleep) > 0)
        word_wake(pool, pool->parts - 1);
}

static void job_close(lh_thread_pool *pool) {
    uint32_t word = atomic_fetch_or(&pool->word, CLOSED) | CLOSED;
    for (unsigned i = 0; i < SPINS && (word & JOINED_MASK) != 0; i++) {
        relax();
        word = atomic_load_explicit(&pool->word, memory_order_acquire);
    }
    if ((word & JOINED_MASK) == 0)
        return;
    atomic_store(&pool->caller_asleep, true);
    while (((word = atomic_load(&pool->word)) & JOINED_MASK) != 0)
        word_sleep(pool, word);
    atomic_store(&pool->caller_asleep, false);
}

static void run_parts(lh_thread_pool *pool, uint32_t parts, lh_thread_function *function,
                      void *context) {
    if (pool->threads == 1 || parts <= 1) {
        for (uint32_t part = 0; part < parts; part++)
            function(context, part, 0);
        return;
    }
    assert(parts <= INT_MAX);
    pool->function = function;
    pool->context = context;
    pool->parts = parts;
    job_open(pool);
    take_parts(pool, 0);
    job_close(pool);
}

void lh_thread_pool_run(lh_thread_pool *pool, uint32_t parts, lh_thread_function *function,
                        void *context) {
    lh_slowdown_mark mark;
    lh_slowdown_begin(&pool->slowdown, &mark);
    run_parts(pool, parts, function, context);
    lh_slowdown_end(&pool->slowdown, &mark);
}

/* ---- Life ---- */

/* Ends the helpers that have been started. */
static void pool_destroy(lh_thread_pool *pool, uint32_t helpers) {
    atomic_store(&pool->stopping, true);
    atomic_fetch_add(&pool->word,
                     /* another word, so that nobody falls asleep on the old one */
                     1u << JOB_SHIFT);
    word_wake(pool, INT_MAX);
    for (uint32_t i = 0; i < helpers; i++)
        pthread_join(pool->helpers[i].thread, NULL);
    free(pool);
}

lh_status lh_thread_pool_create(uint32_t threads, lh_thread_pool **out, lh_error *error) {
    assert(threads >= 1);
    if (threads > LH_THREADS_MAX) {
        return lh_fail(error, LH_ERR_LIMIT, "thread pool: %u threads are over %u", threads,
                       LH_THREADS_MAX);
    }
    size_t bytes = sizeof(lh_thread_pool) + (threads - 1) * sizeof(lh_pool_helper);
    lh_thread_pool *pool = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!pool) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "thread pool: out of memory for %u threads",
                       threads);
    }
    memset(pool, 0, bytes);
    pool->word = CLOSED;
    pool->threads = threads;
    for (uint32_t i = 0; i + 1 < threads; i++) {
        lh_pool_helper *helper = &pool->helpers[i];
        *helper = (lh_pool_helper){.pool = pool, .number = i + 1};
        int failure = pthread_create(&helper->thread, NULL, helper_main, helper);
        if (failure != 0) {
            pool_destroy(pool, i);
            return lh_fail(error, LH_ERR_IO,
                           "thread pool: thread %u of %u could not be started: %s", i + 1, threads,
                           strerror(failure));
        }
    }
    *out = pool;
    return LH_OK;
}

void lh_thread_pool_destroy(lh_thread_pool *pool) {
    if (pool)
        pool_destroy(pool, pool->threads - 1);
}

uint32_t lh_thread_pool_size(const lh_thread_pool *pool) {
    return pool->threads;
}

lh_slowdown *lh_thread_pool_slowdown(lh_thread_pool *pool) {
    return &pool->slowdown;
}
