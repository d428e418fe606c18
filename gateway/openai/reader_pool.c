/* Two lines with threads of their own, one lock, and the ledger of what clients have used.
 *
 * A client's requests wait with the quick readers as long as what it has used settles within
 * LIGHT_SETTLES_US; when it has used more, all of its requests that wait are moved to the slow
 * ones. So a client that nobody knows may hold up a quick reader once, by one request, before it is
 * known; and never more than one of the quick readers, since they take one request of a client at a
 * time.
 *
 * A large document is half a million small blocks, and glibc keeps what is freed of such: measured,
 * 8 bodies of 1.5 MB left 340 MiB behind. So when nothing large has been read for a moment, the
 * pool gives back what lies free; gateway/main.c sets the allocator so that most of it can be. */
#include "gateway/openai/reader_pool.h"

#include "common/base/clock.h"
#include "gateway/openai/reader_line.h"

#include <assert.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* Then what was freed is given back: a few milliseconds of work, ten times a second at most. */
#define REST_US 100000
/* A tenth of a second of processor time: a thousand ordinary requests, or the one slowest form. */
#define LIGHT_SETTLES_US (100000 * LH_READING_SETTLES_IN)
/* A slow reader's, on top of the program's own: beside another of its threads a slow reader gets a
 * tenth of a processor, and all that others leave. */
#define SLOW_NICENESS 10

typedef enum progress { WAITS, RUNS, HAS_RUN } progress;
typedef enum lane_kind { QUICK, SLOW, LANES } lane_kind;

struct lh_reader_work {
    lh_reader_place place; /* first: what a line gives is the work */
    lh_reader_task task;
    progress progress;
    bool is_left;
};

/* The readers of one kind, and what waits for them. */
typedef struct lane {
    lh_reader_pool *pool;
    lane_kind kind;
    lh_reader_line line;
    pthread_cond_t changed;
    pthread_t *threads;
    uint32_t thread_count;
    uint32_t running;
} lane;

struct lh_reader_pool {
    lh_reader_pool_options options;
    lh_reading_ledger *ledger;
    pthread_mutex_t mutex; /* guards the rest, and all works */
    bool is_ending;
    bool keeps_memory; /* something large has run since it was given back, or others told so */
    lane lanes[LANES];
};

/* ---- What waits; with the pool locked. ---- */

static lh_reader_waiting waiting_of(const lh_reader_pool *pool, uint64_t client) {
    lh_reader_waiting quick = lh_reader_line_waiting(&pool->lanes[QUICK].line, client),
                      slow = lh_reader_line_waiting(&pool->lanes[SLOW].line, client);
    return (lh_reader_waiting){quick.count + slow.count, quick.bytes + slow.bytes};
}

static lh_reader_waiting waiting_in_all(const lh_reader_pool *pool) {
    const lh_reader_line *quick = &pool->lanes[QUICK].line, *slow = &pool->lanes[SLOW].line;
    return (lh_reader_waiting){quick->count + slow->count, quick->bytes + slow->bytes};
}

/* Whether `more` fits, so that as much is left as one client has then. */
static bool leaves_room(size_t max, size_t all, size_t own, size_t more) {
    size_t left = max - all;
    return more <= left && own + more <= left;
}

static bool has_room(const lh_reader_pool *pool, const lh_reader_task *task) {
    uint64_t client = task->share.client;
    lh_reader_waiting all = waiting_in_all(pool), own = waiting_of(pool, client);
    return leaves_room(pool->options.bytes_max, all.bytes, own.bytes, task->bytes) &&
           leaves_room(pool->options.waiting_max, all.count, own.count, 1);
}

static bool is_light(int64_t settled_us, int64_t now_us) {
    return settled_us - now_us <= LIGHT_SETTLES_US;
}

/* NULL: no memory. */
static lane *push(lh_reader_pool *pool, lh_reader_work *work) {
    int64_t now_us = lh_clock_us();
    uint64_t client = work->task.share.client;
    int64_t settled_us = lh_reading_ledger_settled_us(pool->ledger, client, now_us);
    bool is_quick = !work->task.is_large && is_light(settled_us, now_us);
    lane *into = &pool->lanes[is_quick ? QUICK : SLOW];
    work->place.bytes = work->task.bytes;
    return lh_reader_line_push(&into->line, client, settled_us, &work->place) ? into : NULL;
}

/* What the client has used decides when it is its turn, and who reads for it. */
static void charge(lh_reader_pool *pool, const lh_reading_share *share, uint64_t used_us) {
    int64_t now_us = lh_clock_us();
    lh_reading_ledger_spend(pool->ledger, share, used_us, now_us);
    int64_t settled_us = lh_reading_ledger_settled_us(pool->ledger, share->client, now_us);
    for (size_t i = 0; i < LANES; i++)
        lh_reader_line_set_turn(&pool->lanes[i].line, share->client, settled_us);
    bool has_moved =
        !is_light(settled_us, now_us) &&
        lh_reader_line_move(&pool->lanes[QUICK].line, &pool->lanes[SLOW].line, share->client);
    if (has_moved)
        pthread_cond_broadcast(&pool->lanes[SLOW].changed);
}

/* ---- The threads. ---- */

static void discard(lh_reader_work *work) {
    work->task.discard(work->task.context);
    free(work);
}

/* Unlocked. Gives the processor time that it took. */
static uint64_t run_task(const lh_reader_task *task, int64_t wait_us) {
    int64_t begun_us = lh_clock_thread_us();
    if (wait_us > 0)
        task->refuse(task->context, wait_us);
    else
        task->run(task->context);
    return (uint64_t)(lh_clock_thread_us() - begun_us);
}

/* With the pool locked, as it is again afterwards. */
static void run_work(lane *own, lh_reader_work *work) {
    lh_reader_pool *pool = own->pool;
    const lh_reading_share share = work->task.share;
    int64_t wait_us = lh_reading_ledger_wait_us(pool->ledger, &share, lh_clock_us());
    work->progress = RUNS;
    own->running++;
    pthread_mutex_unlock(&pool->mutex);
    uint64_t took_us = run_task(&work->task, wait_us);
    pthread_mutex_lock(&pool->mutex);
    work->progress = HAS_RUN;
    own->running--;
    lh_reader_line_end(&own->line, share.client);
    charge(pool, &share, took_us);
    pool->keeps_memory |= own->kind == SLOW;
    bool is_left = work->is_left;
    if (!is_left)
        work->task.on_end(work->task.context);
    else {
        pthread_mutex_unlock(&pool->mutex);
        discard(work);
        pthread_mutex_lock(&pool->mutex);
    }
}

/* The same: until there may be something to do. */
static void rest(lane *own) {
    lh_reader_pool *pool = own->pool;
    if (own->kind == QUICK || own->running > 0 || !pool->keeps_memory) {
        pthread_cond_wait(&own->changed, &pool->mutex);
        return;
    }
    int64_t until_us = lh_clock_us() + REST_US;
    const struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
    if (pthread_cond_timedwait(&own->changed, &pool->mutex, &until) == 0 || own->running > 0 ||
        own->line.count > 0 || !pool->keeps_memory)
        return;
    pool->keeps_memory = false;
    pthread_mutex_unlock(&pool->mutex);
    malloc_trim(0);
    pthread_mutex_lock(&pool->mutex);
}

static lh_reader_work *take_next(lane *own) {
    uint64_t client;
    return (lh_reader_work *)lh_reader_line_take(&own->line, &client);
}

static void *run(void *argument) {
    lane *own = argument;
    lh_reader_pool *pool = own->pool;
    /* Of this thread alone; to give way is allowed to everybody. */
    if (own->kind == SLOW)
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + SLOW_NICENESS);
    pthread_mutex_lock(&pool->mutex);
    while (!pool->is_ending) {
        lh_reader_work *work = take_next(own);
        if (work)
            run_work(own, work);
        else
            rest(own);
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

static void init_lane(lane *made, lh_reader_pool *pool, lane_kind kind) {
    made->pool = pool;
    made->kind = kind;
    made->line.running_max = kind == QUICK ? 1 : UINT32_MAX;
    init_condition(&made->changed);
}

static lh_status start_lane(lane *own, uint32_t threads, lh_error *error) {
    own->threads = calloc(threads, sizeof *own->threads);
    if (!own->threads)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the threads that read requests");
    while (own->thread_count < threads &&
           pthread_create(&own->threads[own->thread_count], NULL, run, own) == 0)
        own->thread_count++;
    return own->thread_count == threads
               ? LH_OK
               : lh_fail(error, LH_ERR_IO, "cannot start the threads that read requests");
}

lh_status lh_reader_pool_create(const lh_reader_pool_options *options, lh_reader_pool **out,
                                lh_error *error) {
    assert(options->threads > 0 && options->waiting_max > 0);
    lh_reader_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the threads that read requests");
    pool->options = *options;
    pthread_mutex_init(&pool->mutex, NULL);
    for (size_t i = 0; i < LANES; i++)
        init_lane(&pool->lanes[i], pool, (lane_kind)i);
    lh_status status = lh_reading_ledger_create(&pool->ledger, error);
    for (size_t i = 0; i < LANES && !status; i++)
        status = start_lane(&pool->lanes[i], options->threads, error);
    if (status) {
        lh_reader_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return LH_OK;
}

static void end_lane(lane *own) {
    for (uint32_t i = 0; i < own->thread_count; i++)
        pthread_join(own->threads[i], NULL);
    pthread_cond_destroy(&own->changed);
    free(own->threads);
}

void lh_reader_pool_destroy(lh_reader_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    assert(waiting_in_all(pool).count == 0);
    pool->is_ending = true;
    for (size_t i = 0; i < LANES; i++)
        pthread_cond_broadcast(&pool->lanes[i].changed);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < LANES; i++)
        end_lane(&pool->lanes[i]);
    pthread_mutex_destroy(&pool->mutex);
    lh_reading_ledger_destroy(pool->ledger);
    free(pool);
}

/* ---- Submitters. ---- */

int64_t lh_reader_pool_wait_us(lh_reader_pool *pool, const lh_reading_share *share) {
    pthread_mutex_lock(&pool->mutex);
    int64_t wait_us = lh_reading_ledger_wait_us(pool->ledger, share, lh_clock_us());
    pthread_mutex_unlock(&pool->mutex);
    return wait_us;
}

void lh_reader_pool_charge(lh_reader_pool *pool, const lh_reading_share *share, uint64_t used_us) {
    pthread_mutex_lock(&pool->mutex);
    charge(pool, share, used_us);
    pthread_mutex_unlock(&pool->mutex);
}

static lh_status submit_locked(lh_reader_pool *pool, lh_reader_work *work, lh_error *error) {
    if (!has_room(pool, &work->task)) {
        lh_reader_waiting all = waiting_in_all(pool);
        return lh_fail(error, LH_ERR_BUSY, "%zu requests of %zu bytes wait to be read", all.count,
                       all.bytes);
    }
    lane *into = push(pool, work);
    if (!into)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request to be read");
    pthread_cond_signal(&into->changed);
    return LH_OK;
}

lh_status lh_reader_pool_submit(lh_reader_pool *pool, const lh_reader_task *task,
                                lh_reader_work **out, lh_error *error) {
    lh_reader_work *work = calloc(1, sizeof *work);
    if (!work)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a request to be read");
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
        lh_reader_line_remove(&work->place);
    pthread_mutex_unlock(&pool->mutex);
    if (!is_running)
        discard(work);
}

void lh_reader_pool_note_memory(lh_reader_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    if (!pool->keeps_memory)
        pthread_cond_signal(&pool->lanes[SLOW].changed);
    pool->keeps_memory = true;
    pthread_mutex_unlock(&pool->mutex);
}

size_t lh_reader_pool_waiting(lh_reader_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    size_t waiting = waiting_in_all(pool).count;
    pthread_mutex_unlock(&pool->mutex);
    return waiting;
}
