/* Who reads what, what may wait, who is charged and who is told: with one thread of each kind,
 * which a test holds up, so that all orders are the test's. */
#include "gateway/openai/reader_pool.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/processor_time.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define BYTES_MAX   1000
#define WAITING_MAX 10
#define JOBS_MAX    64

static const lh_reader_pool_options options = {
    .threads = 1, .bytes_max = BYTES_MAX, .waiting_max = WAITING_MAX};

typedef struct job {
    const char *name;
    lh_reader_work *work;
    sem_t *begun, *may_end; /* NULL: it does not wait */
    sem_t ended, discarded;
    atomic_int runs, refusals, ends, discards;
    int64_t works_us; /* processor time that it takes */
    int niceness;     /* of the thread that ran it */
} job;

static lh_reader_pool *pool;
static job jobs[JOBS_MAX];
static size_t job_count;
static char order[256]; /* names of those that ran */

static void run(void *context) {
    job *j = context;
    atomic_fetch_add(&j->runs, 1);
    j->niceness = getpriority(PRIO_PROCESS, 0);
    double until_s = processor_time_s() + (double)j->works_us / 1e6;
    while (processor_time_s() < until_s)
        ;
    if (j->begun) {
        sem_post(j->begun);
        sem_wait(j->may_end);
    } else {
        strcat(order, j->name); /* one thread */
    }
}

static void refuse(void *context, int64_t wait_us) {
    assert_true(wait_us > 0);
    atomic_fetch_add(&((job *)context)->refusals, 1);
}

static void on_end(void *context) {
    job *j = context;
    atomic_fetch_add(&j->ends, 1);
    sem_post(&j->ended);
}

static void discard(void *context) {
    job *j = context;
    atomic_fetch_add(&j->discards, 1);
    sem_post(&j->discarded);
}

static int open_pool(void **state) {
    (void)state;
    memset(jobs, 0, sizeof jobs);
    job_count = 0;
    order[0] = '\0';
    return lh_reader_pool_create(&options, &pool, NULL) != LH_OK;
}

static int close_pool(void **state) {
    (void)state;
    lh_reader_pool_destroy(pool);
    for (size_t i = 0; i < job_count; i++) {
        assert_int_equal(jobs[i].discards, 1);
        sem_destroy(&jobs[i].ended);
        sem_destroy(&jobs[i].discarded);
    }
    return 0;
}

static job *new_job(const char *name) {
    assert_true(job_count < JOBS_MAX);
    job *j = &jobs[job_count++];
    j->name = name;
    sem_init(&j->ended, 0, 0);
    sem_init(&j->discarded, 0, 0);
    return j;
}

/* As large as its name says: 'L...' are large. */
static lh_status submit_share(job *j, lh_reading_share share, size_t bytes) {
    const lh_reader_task task = {share, bytes, j->name[0] == 'L', run, refuse, on_end, discard, j};
    lh_error error;
    return lh_reader_pool_submit(pool, &task, &j->work, &error);
}

static lh_status submit(job *j, uint64_t client, size_t bytes) {
    return submit_share(j, (lh_reading_share){.client = client}, bytes);
}

static job *wait_in_line(const char *name, uint64_t client, size_t bytes) {
    job *j = new_job(name);
    assert_int_equal(submit(j, client, bytes), LH_OK);
    return j;
}

/* It does not wait: somebody else's is put in its place in the test's books. */
static void expect_busy(uint64_t client, size_t bytes) {
    job j = {.name = ""};
    assert_int_equal(submit(&j, client, bytes), LH_ERR_BUSY);
    assert_int_equal(j.discards, 0);
}

/* Holds the thread up until release(). */
typedef struct gate {
    sem_t begun, may_end;
    job *holder;
} gate;

static void hold_as(gate *g, const char *name) {
    sem_init(&g->begun, 0, 0);
    sem_init(&g->may_end, 0, 0);
    g->holder = new_job(name);
    g->holder->begun = &g->begun;
    g->holder->may_end = &g->may_end;
    assert_int_equal(submit(g->holder, 999, 0), LH_OK);
    sem_wait(&g->begun);
}

static void hold(gate *g) {
    hold_as(g, "");
}

static void release(gate *g) {
    sem_post(&g->may_end);
}

static void end_gate(gate *g) {
    sem_destroy(&g->begun);
    sem_destroy(&g->may_end);
}

static void finish(job *j) {
    sem_wait(&j->ended);
    assert_true(lh_reader_pool_has_run(pool, j->work));
    lh_reader_pool_leave(pool, j->work);
    assert_int_equal(j->runs, 1);
}

static void what_is_submitted_runs_once(void **state) {
    (void)state;
    job *one = wait_in_line("a", 0, 10);
    finish(one);
    assert_int_equal(one->ends, 1);
    assert_int_equal(one->discards, 1);
}

/* Whoever tells of memory holds nothing up, whether the pool works, rests or gives back. */
static void notes_come_at_any_time(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        lh_reader_pool_note_memory(pool);
        lh_reader_pool_note_memory(pool);
        finish(wait_in_line("a", 0, 10));
        lh_reader_pool_note_memory(pool);
    }
    gate g;
    hold(&g);
    lh_reader_pool_note_memory(pool);
    release(&g);
    finish(g.holder);
    end_gate(&g);
}

static job *work_for(const char *name, uint64_t client, int64_t works_us) {
    job *j = new_job(name);
    j->works_us = works_us;
    assert_int_equal(submit(j, client, 1), LH_OK);
    return j;
}

/* Unless there is nothing left to give. */
static bool gives_way(const job *slow, const job *quick) {
    return slow->niceness > quick->niceness || quick->niceness == 19;
}

/* What is large, or another's, is read by other threads, which give way to all others. */
static void what_is_small_waits_for_nothing_large(void **state) {
    (void)state;
    gate g;
    hold_as(&g, "L");
    job *small = wait_in_line("a", 1, 1);
    finish(small);
    assert_int_equal(g.holder->ends, 0);
    job *large = wait_in_line("L", 1, 1);
    release(&g);
    finish(g.holder);
    finish(large);
    assert_true(gives_way(large, small));
    end_gate(&g);
}

/* A client that has used more than a tenth of a second is read by the slow ones, also what waited
 * already. */
static void what_waits_moves_with_its_client(void **state) {
    (void)state;
    gate g;
    hold(&g);
    job *line[] = {work_for("a", 1, 150000), work_for("b", 1, 0), work_for("c", 1, 0)};
    release(&g);
    for (size_t i = 0; i < 3; i++)
        finish(line[i]);
    finish(g.holder);
    assert_true(gives_way(line[1], line[0]));
    assert_true(gives_way(line[2], line[0]));
    end_gate(&g);
}

/* Also those that were there when it was used up, and though whoever used it did not wait for the
 * end. */
static void a_share_that_is_used_up_refuses(void **state) {
    (void)state;
    const lh_reading_share share = {.client = 1, .ms_per_minute = 20};
    gate g;
    hold(&g);
    job *first = new_job("a"), *second = new_job("b");
    first->works_us = 30000;
    assert_int_equal(lh_reader_pool_wait_us(pool, &share), 0);
    assert_int_equal(submit_share(first, share, 1), LH_OK);
    assert_int_equal(submit_share(second, share, 1), LH_OK);
    release(&g);
    finish(first);
    sem_wait(&second->ended);
    assert_int_equal(second->runs, 0);
    assert_int_equal(second->refusals, 1);
    assert_true(lh_reader_pool_has_run(pool, second->work));
    lh_reader_pool_leave(pool, second->work);
    finish(g.holder);
    int64_t wait_us = lh_reader_pool_wait_us(pool, &share);
    assert_in_range(wait_us, 1000000, 120000000); /* 10 ms at 20 ms a minute: 30 s, or a bit more */
    assert_int_equal(lh_reader_pool_wait_us(pool, &(lh_reading_share){.client = 2}), 0);
    end_gate(&g);
}

static void only_so_many_wait(void **state) {
    (void)state;
    gate g;
    hold(&g);
    job *line[WAITING_MAX];
    for (size_t i = 0; i < WAITING_MAX / 2; i++)
        line[i] = wait_in_line("a", 1, 0);
    expect_busy(1, 0);
    for (size_t i = WAITING_MAX / 2; i < WAITING_MAX; i++)
        line[i] = wait_in_line("b", 100 + i, 0);
    expect_busy(3, 0);
    release(&g);
    for (size_t i = 0; i < WAITING_MAX; i++)
        finish(line[i]);
    finish(g.holder);
    end_gate(&g);
}

static void who_leaves_the_line_never_runs(void **state) {
    (void)state;
    gate g;
    hold(&g);
    job *first = wait_in_line("a", 1, 400), *second = wait_in_line("b", 1, 50),
        *third = wait_in_line("c", 1, 50);
    assert_false(lh_reader_pool_has_run(pool, second->work));
    lh_reader_pool_leave(pool, second->work);
    lh_reader_pool_leave(pool, first->work);
    assert_int_equal(first->discards, 1);
    assert_int_equal(second->discards, 1);
    assert_int_equal(lh_reader_pool_waiting(pool), 1);
    job *fourth = wait_in_line("d", 1, 400); /* the room is there again */
    release(&g);
    finish(third);
    finish(fourth);
    finish(g.holder);
    assert_string_equal(order, "cd");
    assert_int_equal(first->runs + second->runs + first->ends + second->ends, 0);
    end_gate(&g);
}

static void who_leaves_while_it_runs_is_not_told(void **state) {
    (void)state;
    gate g;
    hold(&g);
    lh_reader_pool_leave(pool, g.holder->work);
    assert_int_equal(g.holder->discards, 0);
    release(&g);
    sem_wait(&g.holder->discarded);
    assert_int_equal(g.holder->runs, 1);
    assert_int_equal(g.holder->ends, 0);
    end_gate(&g);
}

static void a_client_leaves_room_for_others(void **state) {
    (void)state;
    gate g;
    hold(&g);
    job *line[4];
    line[0] = wait_in_line("a", 1, 500);
    expect_busy(1, 1);
    line[1] = wait_in_line("b", 2, 250);
    expect_busy(2, 1);
    expect_busy(3, 251);
    line[2] = wait_in_line("c", 3, 120);
    expect_busy(0, 131);
    line[3] = wait_in_line("d", 0, 65);
    expect_busy(0, 1);
    expect_busy(4, 66);
    release(&g);
    for (size_t i = 0; i < 4; i++)
        finish(line[i]);
    finish(g.holder);
    end_gate(&g);
}

static void memory_that_is_missing_is_told(void **state) {
    (void)state;
    gate g;
    hold(&g);
    for (size_t n = 1;; n++) {
        job j = {.name = ""};
        failing_malloc_arm(n);
        lh_status status = submit(&j, 5, 1);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            sem_init(&j.discarded, 0, 0);
            lh_reader_pool_leave(pool, j.work);
            assert_int_equal(j.discards, 1);
            sem_destroy(&j.discarded);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_int_equal(lh_reader_pool_waiting(pool), 0);
    }
    release(&g);
    finish(g.holder);
    end_gate(&g);
    for (size_t n = 1;; n++) {
        lh_reader_pool *other;
        failing_malloc_arm(n);
        lh_status status = lh_reader_pool_create(&options, &other, NULL);
        if (!failing_malloc_disarm()) {
            lh_reader_pool_destroy(other);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

/* ---- Threads of both kinds. ---- */

#define ROUNDS 2000

typedef struct counted {
    sem_t ended;
    atomic_int runs, discards;
} counted;

static void count_run(void *context) {
    atomic_fetch_add(&((counted *)context)->runs, 1);
}

static void count_end(void *context) {
    sem_post(&((counted *)context)->ended);
}

static void count_discard(void *context) {
    counted *c = context;
    atomic_fetch_add(&c->discards, 1);
}

/* Submits, and leaves at once, or after it has run. */
static void *submit_many(void *argument) {
    uint64_t client = *(uint64_t *)argument;
    for (int i = 0; i < ROUNDS; i++) {
        counted *c = calloc(1, sizeof *c);
        sem_init(&c->ended, 0, 0);
        lh_reader_work *work;
        const lh_reader_task task = {{.client = client}, 10, i % 2, count_run, NULL, count_end,
                                     count_discard,      c};
        assert_int_equal(lh_reader_pool_submit(pool, &task, &work, NULL), LH_OK);
        if (i % 3)
            sem_wait(&c->ended);
        if (i % 3)
            assert_int_equal(c->runs, 1);
        lh_reader_pool_leave(pool, work);
        while (atomic_load(&c->discards) == 0) /* it was running */
            sched_yield();
        sem_destroy(&c->ended);
        free(c);
    }
    return NULL;
}

static void many_come_and_go(void **state) {
    (void)state;
    pthread_t threads[4];
    uint64_t clients[4] = {0, 1, 2, 3};
    lh_reader_pool *one = pool;
    const lh_reader_pool_options more = {.threads = 3, .bytes_max = BYTES_MAX, .waiting_max = 100};
    assert_int_equal(lh_reader_pool_create(&more, &pool, NULL), LH_OK);
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, submit_many, &clients[i]);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lh_reader_pool_waiting(pool), 0);
    lh_reader_pool_destroy(pool);
    pool = one;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_submitted_runs_once, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(notes_come_at_any_time, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(what_is_small_waits_for_nothing_large, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(what_waits_moves_with_its_client, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(a_share_that_is_used_up_refuses, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(only_so_many_wait, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(who_leaves_the_line_never_runs, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(who_leaves_while_it_runs_is_not_told, open_pool,
                                        close_pool),
        cmocka_unit_test_setup_teardown(a_client_leaves_room_for_others, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(memory_that_is_missing_is_told, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(many_come_and_go, open_pool, close_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
