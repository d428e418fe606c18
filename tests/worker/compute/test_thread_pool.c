#include "worker/compute/thread_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PARTS_MAX 1000u

/* Plain memory on purpose: the sanitizer must see that the pool orders the accesses. */
typedef struct job {
    uint32_t threads;
    unsigned counts[PARTS_MAX];
    bool thread_busy[64];
    unsigned faults;
} job;

static void count_part(void *context, uint32_t part, uint32_t thread) {
    job *j = context;
    j->counts[part]++;
    if (thread >= j->threads || j->thread_busy[thread]) {
        j->faults++;
        return;
    }
    j->thread_busy[thread] = true;
    j->counts[part] += 0; /* time for another to meet us */
    j->thread_busy[thread] = false;
}

static lh_thread_pool *create(uint32_t threads) {
    lh_thread_pool *pool;
    assert_int_equal(lh_thread_pool_create(threads, &pool, NULL), LH_OK);
    assert_int_equal(lh_thread_pool_size(pool), threads);
    return pool;
}

static void check_job(lh_thread_pool *pool, uint32_t parts) {
    job j = {.threads = lh_thread_pool_size(pool)};
    lh_thread_pool_run(pool, parts, count_part, &j);
    for (uint32_t i = 0; i < PARTS_MAX; i++)
        assert_int_equal(j.counts[i], i < parts);
    assert_int_equal(j.faults, 0);
}

static void test_each_part_once(void **state) {
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 8}, parts[] = {0, 1, 2, 7, 64, PARTS_MAX};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        lh_thread_pool *pool = create(threads[i]);
        for (size_t j = 0; j < sizeof parts / sizeof parts[0]; j++)
            check_job(pool, parts[j]);
        lh_thread_pool_destroy(pool);
    }
}

/* More jobs than the job's number can count. */
static void test_many_short_jobs(void **state) {
    (void)state;
    lh_thread_pool *pool = create(3);
    for (unsigned i = 0; i < 70000; i++) {
        job j = {.threads = 3};
        lh_thread_pool_run(pool, 4, count_part, &j);
        assert_int_equal(j.counts[0] + j.counts[1] + j.counts[2] + j.counts[3], 4);
    }
    lh_thread_pool_destroy(pool);
}

static void nap(long milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

static void test_jobs_after_sleep(void **state) {
    (void)state;
    lh_thread_pool *pool = create(4);
    for (int i = 0; i < 20; i++) {
        nap(3); /* helpers have gone to sleep */
        check_job(pool, 50);
    }
    lh_thread_pool_destroy(pool);
}

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void test_idle_costs_nothing(void **state) {
    (void)state;
    lh_thread_pool *pool = create(4);
    check_job(pool, 50);
    nap(20);
    double before = processor_seconds();
    nap(200);
    assert_true(processor_seconds() - before < 0.02);
    lh_thread_pool_destroy(pool);
}

typedef struct meeting {
    _Atomic unsigned arrived;
} meeting;

/* Waits (bounded) for another thread to come: shows that parts run side by side. */
static void meet(void *context, uint32_t part, uint32_t thread) {
    meeting *m = context;
    (void)part;
    (void)thread;
    atomic_fetch_add(&m->arrived, 1);
    for (int i = 0; i < 5000 && atomic_load(&m->arrived) < 3; i++)
        nap(1);
}

static void test_helpers_take_part(void **state) {
    (void)state;
    lh_thread_pool *pool = create(3);
    meeting m = {0};
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    lh_thread_pool_run(pool, 3, meet, &m);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_int_equal(m.arrived, 3);
    assert_true(end.tv_sec - begin.tv_sec < 4);
    lh_thread_pool_destroy(pool);
}

static void test_create_and_destroy(void **state) {
    (void)state;
    lh_error error;
    lh_thread_pool *pool;
    for (uint32_t i = 1; i < 20; i++)
        lh_thread_pool_destroy(create(i));
    lh_thread_pool_destroy(NULL);
    assert_int_equal(lh_thread_pool_create(LH_THREADS_MAX + 1, &pool, &error), LH_ERR_LIMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_part_once),    cmocka_unit_test(test_many_short_jobs),
        cmocka_unit_test(test_jobs_after_sleep),  cmocka_unit_test(test_idle_costs_nothing),
        cmocka_unit_test(test_helpers_take_part), cmocka_unit_test(test_create_and_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
