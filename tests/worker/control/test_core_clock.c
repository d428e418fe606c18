/* The clock goes on with work and with sleep, and not while others have the core. */
#include "worker/control/core_clock.h"

#include "common/base/clock.h"
#include "tests/support/failing_malloc.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const lh_slowdown no_slowdown;

static int64_t processor_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void work_for(int64_t us) {
    for (int64_t end = processor_us() + us; processor_us() < end;) {
    }
}

static void stay_on_one_core(void) {
    cpu_set_t one, all;
    sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    }
    sched_setaffinity(0, sizeof(one), &one);
}

static atomic_bool is_over;

static void *take_the_core(void *unused) {
    (void)unused;
    while (!atomic_load(&is_over))
        work_for(1000);
    return NULL;
}

static void test_work_and_sleep_count(void **state) {
    (void)state;
    lh_core_clock clock;
    lh_core_clock_open(&clock, &no_slowdown);
    int64_t begin_us = lh_core_clock_us(&clock);
    work_for(20000);
    usleep(30000);
    assert_in_range(lh_core_clock_us(&clock) - begin_us, 49000, 2000000);
    lh_core_clock_close(&clock);
}

/* Two threads on one core: each waits as long as it works. */
static void test_a_core_that_others_have_does_not_count(void **state) {
    (void)state;
    lh_core_clock clock;
    lh_core_clock_open(&clock, &no_slowdown);
    if (clock.file < 0)
        skip();
    stay_on_one_core();
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, take_the_core, NULL), 0);
    int64_t begin_us = lh_core_clock_us(&clock), wall_us = lh_clock_us(),
            worked_us = processor_us();
    work_for(100000);
    int64_t took_us = lh_core_clock_us(&clock) - begin_us;
    wall_us = lh_clock_us() - wall_us;
    worked_us = processor_us() - worked_us;
    atomic_store(&is_over, true);
    pthread_join(other, NULL);
    assert_true(wall_us > worked_us * 5 / 4); /* else the other had another core */
    assert_in_range(took_us, worked_us * 9 / 10, worked_us * 5 / 4);
    lh_core_clock_close(&clock);
}

/* Pieces of work too short for their debt to be slept at once: each takes the slower machine's
 * time. */
static void test_a_slower_machine_takes_longer(void **state) {
    (void)state;
    lh_slowdown slowdown = {0};
    lh_slowdown_set(&slowdown, 3);
    lh_core_clock clock;
    lh_core_clock_open(&clock, &slowdown);
    for (int i = 0; i < 100; i++) {
        lh_slowdown_mark mark;
        work_for(50); /* so that the piece begins where it says, and not where the last one ended */
        int64_t begin_us = lh_core_clock_us(&clock), worked_us = processor_us();
        lh_slowdown_begin(&slowdown, &mark);
        work_for(50);
        lh_slowdown_end(&slowdown, &mark);
        worked_us = processor_us() - worked_us;
        assert_in_range(lh_core_clock_us(&clock) - begin_us, 140, worked_us * 7 / 2 + 20);
    }
    lh_core_clock_close(&clock);
}

static void test_without_the_kernels_account_it_is_the_clock(void **state) {
    (void)state;
    const lh_core_clock clock = {.file = -1};
    int64_t before_us = lh_clock_us(), now_us = lh_core_clock_us(&clock);
    assert_in_range(now_us, before_us, lh_clock_us());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_and_sleep_count),
        cmocka_unit_test(test_a_core_that_others_have_does_not_count),
        cmocka_unit_test(test_a_slower_machine_takes_longer),
        cmocka_unit_test(test_without_the_kernels_account_it_is_the_clock),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
