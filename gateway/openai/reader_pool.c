/* Start-time fair queueing over a list of clients: each has a clock that advances by the bytes that
 * were read for it, and the client whose clock is least goes first. One that comes back starts at
 * the clock of whoever was served last, so that nobody saves up a past in which he asked for
 * nothing.
 *
 * A large document is half a million small blocks, and glibc keeps what is freed of such: measured,
 * 8 bodies of 1.5 MB left 340 MiB behind. So when nothing has been read for a moment, the pool
 * gives back what lies free; gateway/main.c sets the allocator so that most of it can be. */
#include "gateway/openai/reader_pool.h"

#include "common/base/clock.h"

#include <assert.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* Then what was freed is given back: a few milliseconds of work, ten times a second at most. */
#define REST_US 100000

typedef enum progress { WAITS, RUNS, HAS_RUN } progress;

typedef struct client client;

struct lh_reader_work {
    lh_reader_task task;
    progress progress;
    bool is_left;
    client *owner; /* while it waits */
    lh_reader_work *next, *previous;
};

/* Of whom something waits. */
struct client {
    client *next;
    uint64_t id;
    uint64_t clock; /* bytes */
    size_t waiting_bytes;
    lh_reader_work *first, *last;
};

struct lh_reader_pool {
    size_t bytes_max;
    uint32_t thread_count;
    pthread_t *threads;
    pthread_mutex_t mutex; /* guards the rest, and all works */
    pthread_cond_t changed;
    bool is_ending;
    uint32_t running;
    bool keeps_memory; /* something has run since it was given back, or others told so */
    client *clients;
    uint64_t clock; /* of the client that was served last */
    size_t waiting_bytes, waiting;
};

/* ---- The queue; with the pool locked. ---- */

static client *find_client(lh_reader_pool *pool, uint64_t id) {
    client *at = pool->clients;
    while (at && at->id != id)
        at = at->next;
    return at;
}

static client *add_client(lh_reader_pool *pool, uint64_t id) {
    client *added = calloc(1, sizeof *added);
    if (!added)
        return NULL;
    added->id = id;
    added->clock = pool->clock;
    added->next = pool->clients;
    pool->clients = added;
    return added;
}

static void remove_client(lh_reader_pool *pool, client *gone) {
    client **link = &pool->clients;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    free(gone);
}

/* The one whose turn it is; of equals the one who came last to the list, which is who waits
 * longest: new clients are put in front. */
static client *next_client(const lh_reader_pool *pool) {
    client *least = pool->clients;
    for (client *at = least; at; at = at->next)
        if (at->clock <= least->clock)
            least = at;
    return least;
}

static bool has_room(const lh_reader_pool *pool, uint64_t id, size_t own_bytes, size_t more) {
    size_t left = pool->bytes_max - pool->waiting_bytes;
    return more <= left && (id == 0 || own_bytes + more <= left);
}

static void push(lh_reader_pool *pool, client *owner, lh_reader_work *work) {
    work->owner = owner;
    work->previous = owner->last;
    if (owner->last)
        owner->last->next = work;
    else
        owner->first = work;
    owner->last = work;
    owner->waiting_bytes += work->task.bytes;
    pool->waiting_bytes += work->task.bytes;
    pool->waiting++;
}

/* The client goes with the last of what it waits for. */
static void remove_work(lh_reader_pool *pool, lh_reader_work *work) {
    client *owner = work->owner;
    assert(work->progress == WAITS && pool->waiting > 0);
    assert(owner->waiting_bytes >= work->task.bytes && pool->waiting_bytes >= work->task.bytes);
    *(work->previous ? &work->previous->next : &owner->first) = work->next;
    *(work->next ? &work->next->previous : &owner->last) = work->previous;
    work->owner = NULL;
    work->next = work->previous = NULL;
    owner->waiting_bytes -= work->task.bytes;
    pool->waiting_bytes -= work->task.bytes;
    pool->waiting--;
    if (!owner->first)
        remove_client(pool, owner);
}

static lh_reader_work *take_next(lh_reader_pool *pool) {
    client *turn = next_client(pool);
    if (!turn)
        return NULL;
    lh_reader_work *work = turn->first;
    pool->clock = turn->clock;
    turn->clock += work->task.bytes;
    remove_work(pool, work);
    work->progress = RUNS;
    pool->running++;
    return work;
}

/* ---- The threads. ---- */

static void discard(lh_reader_work *work) {
    work->task.discard(work->task.context);
    free(work);
}

/* With the pool locked, as it is again afterwards. */
static void run_work(lh_reader_pool *pool, lh_reader_work *work) {
    pthread_mutex_unlock(&pool->mutex);
    work->task.run(work->task.context);
    pthread_mutex_lock(&pool->mutex);
    work->progress = HAS_RUN;
    pool->running--;
    pool->keeps_memory = true;
    bool is_left = work->is_left;
    if (!is_left)
        work->task.on_end(work->task.context);
    pthread_mutex_unlock(&pool->mutex);
    if (is_left)
        discard(work);
    pthread_mutex_lock(&pool->mutex);
}

/* The same: until there may be something to do. */
static void rest(lh_reader_pool *pool) {
    if (pool->running > 0 || !pool->keeps_memory) {
        pthread_cond_wait(&pool->changed, &pool->mutex);
        return;
    }
    int64_t until_us = lh_clock_us() + REST_US;
    const struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
    if (pthread_cond_timedwait(&pool->changed, &pool->mutex, &until) == 0 || pool->running > 0 ||
        pool->waiting > 0 || !pool->keeps_memory)
        return;
    pool->keeps_memory = false;
    pthread_mutex_unlock(&pool->mutex);
    malloc_trim(0);
    pthread_mutex_lock(&pool->mutex);
}

static void *run(void *argument) {
    lh_reader_pool *pool = argument;
    pthread_mutex_lock(&pool->mutex);
    while (!pool->is_ending) {
        lh_reader_work *work = take_next(pool);
        if (work)
            run_work(pool, work);
        else
            rest(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* Its clock is lh_clock_us's. */
static void init_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

lh_status lh_reader_pool_create(uint32_t threads, size_t bytes_max, lh_reader_pool **out,
                                lh_error *error) {
    assert(threads > 0);
    lh_reader_pool *pool = calloc(1, sizeof *pool);
    if (pool)
        pool->threads = calloc(threads, sizeof *pool->threads);
    if (!pool || !pool->threads) {
        free(pool);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the threads that read bodies");
    }
    pool->bytes_max = bytes_max;
    pthread_mutex_init(&pool->mutex, NULL);
    init_condition(&pool->changed);
    while (pool->thread_count < threads &&
           pthread_create(&pool->threads[pool->thread_count], NULL, run, pool) == 0)
        pool->thread_count++;
    if (pool->thread_count < threads) {
        lh_reader_pool_destroy(pool);
        return lh_fail(error, LH_ERR_IO, "cannot start the threads that read bodies");
    }
    *out = pool;
    return LH_OK;
}

void lh_reader_pool_destroy(lh_reader_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    assert(pool->waiting == 0);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->threads);
    free(pool);
}

/* ---- Submitters. ---- */

static lh_status submit_locked(lh_reader_pool *pool, lh_reader_work *work, lh_error *error) {
    client *owner = find_client(pool, work->task.client);
    if (!has_room(pool, work->task.client, owner ? owner->waiting_bytes : 0, work->task.bytes))
        return lh_fail(error, LH_ERR_BUSY, "%zu bodies of %zu bytes wait to be read", pool->waiting,
                       pool->waiting_bytes);
    if (!owner)
        owner = add_client(pool, work->task.client);
    if (!owner)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a body to be read");
    push(pool, owner, work);
    pthread_cond_signal(&pool->changed);
    return LH_OK;
}

lh_status lh_reader_pool_submit(lh_reader_pool *pool, const lh_reader_task *task,
                                lh_reader_work **out, lh_error *error) {
    lh_reader_work *work = calloc(1, sizeof *work);
    if (!work)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a body to be read");
    work->task = *task;
    pthread_mutex_lock(&pool->mutex);
    lh_status status = submit_locked(pool, work, error);
    if (!status)
        *out = work; /* before it can have ended */
    pthread_mutex_unlock(&pool->mutex);
    if (status)
        free(work);
    return status;
}

bool lh_reader_pool_has_run(lh_reader_pool *pool, const lh_reader_work *work) {
    pthread_mutex_lock(&pool->mutex);
    bool has_run = work->progress == HAS_RUN;
    pthread_mutex_unlock(&pool->mutex);
    return has_run;
}

void lh_reader_pool_leave(lh_reader_pool *pool, lh_reader_work *work) {
    pthread_mutex_lock(&pool->mutex);
    assert(!work->is_left);
    work->is_left = true;
    bool is_running = work->progress == RUNS;
    if (work->progress == WAITS)
        remove_work(pool, work);
    pthread_mutex_unlock(&pool->mutex);
    if (!is_running)
        discard(work);
}

void lh_reader_pool_note_memory(lh_reader_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    if (!pool->keeps_memory)
        pthread_cond_signal(&pool->changed);
    pool->keeps_memory = true;
    pthread_mutex_unlock(&pool->mutex);
}

size_t lh_reader_pool_waiting(lh_reader_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    size_t waiting = pool->waiting;
    pthread_mutex_unlock(&pool->mutex);
    return waiting;
}
