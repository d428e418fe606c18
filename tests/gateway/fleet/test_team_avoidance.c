/* Teams whose members wait for each other and do not meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>

enum { WORKERS_MAX = 3 };

typedef struct bench {
    lh_fleet *fleet;
    uint32_t count;
    lh_worker_report workers[WORKERS_MAX]; /* a, b, c */
} bench;

static void put(bench *b, int64_t ms) {
    for (uint32_t i = 0; i < b->count; i++)
        put_report(b->fleet, &b->workers[i], ms * MS);
}

/* So many workers that hold so many bytes each; their team has been planned at 1,000 ms. */
static bench create(uint32_t count, uint64_t memory_bytes) {
    static const char *const names[WORKERS_MAX] = {"a", "b", "c"};
    lh_fleet_options options = fleet_of_four_layers(count);
    bench b = {.count = count};
    options.teams.size = count;
    options.lease_us = 1000000 * MS;
    options.rebalance_delay_us = 1000 * MS;
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_fleet_create(&options, 0, &b.fleet, NULL), LH_OK);
    for (uint32_t i = 0; i < count; i++) {
        b.workers[i] = report_of(names[i]);
        snprintf(b.workers[i].member_address, LH_ADDRESS_BYTES, "%s:2", names[i]);
        b.workers[i].memory_bytes = memory_bytes;
    }
    lh_fleet_first_hop(b.fleet, true, false, 0, "");
    put(&b, 1000);
    assert_int_equal(lh_fleet_chain(b.fleet)->stages[0].team.follower_count + 1, count);
    return b;
}

static const lh_chain *chain_of(const bench *b) {
    return lh_fleet_chain(b->fleet);
}

static uint32_t members_of(const lh_chain *chain) {
    return chain->stage_count > 0 ? chain->stages[0].team.follower_count + 1 : 0;
}

static void wait_in_team(lh_worker_report *report, uint32_t epoch) {
    report->assignment.state = LH_WORKER_LOADING;
    report->assignment.generation = epoch;
    report->assignment.is_joining = true;
}

static void all_wait(bench *b, int64_t ms) {
    for (uint32_t i = 0; i < b->count; i++)
        wait_in_team(&b->workers[i], chain_of(b)->epoch);
    put(b, ms);
}

static void all_serve(bench *b, int64_t ms) {
    for (uint32_t i = 0; i < b->count; i++)
        make_ready(&b->workers[i], chain_of(b)->epoch);
    put(b, ms);
    assert_int_equal(chain_of(b)->state, LH_CHAIN_READY);
}

/* Five seconds after both have their parts they are two stages. */
static void serve_without_team(bench *b) {
    all_wait(b, 2000);
    lh_fleet_tick(b->fleet, 6999 * MS);
    assert_int_equal(members_of(chain_of(b)), 2);
    lh_fleet_tick(b->fleet, 7000 * MS);
    assert_int_equal(members_of(chain_of(b)), 1);
    assert_int_equal(chain_of(b)->stage_count, 2);
    all_serve(b, 8000);
}

static void a_chain_goes_on_without_a_team_that_does_not_form(void **state) {
    (void)state;
    bench b = create(2, 1000);
    serve_without_team(&b);
    lh_fleet_destroy(b.fleet);
}

static void who_loads_is_waited_for(void **state) {
    (void)state;
    bench b = create(2, 1000);
    const uint32_t epoch = chain_of(&b)->epoch;
    wait_in_team(&b.workers[0], epoch);
    b.workers[1].assignment.state = LH_WORKER_LOADING;
    b.workers[1].assignment.generation = epoch;
    for (int64_t ms = 2000; ms <= 60000; ms += 2000)
        put(&b, ms);
    assert_int_equal(chain_of(&b)->epoch, epoch);
    b.workers[1].assignment.is_joining = true;
    put(&b, 62000);
    lh_fleet_tick(b.fleet, 66000 * MS);
    assert_int_equal(chain_of(&b)->epoch, epoch);
    all_serve(&b, 66500); /* in time */
    assert_int_equal(members_of(chain_of(&b)), 2);
    lh_fleet_destroy(b.fleet);
}

/* Each holds one layer of the four, and together they hold them all. */
static void what_fits_a_team_alone_waits_for_it(void **state) {
    (void)state;
    bench b = create(3, 134);
    const uint32_t epoch = chain_of(&b)->epoch;
    all_wait(&b, 2000);
    lh_fleet_tick(b.fleet, 7000 * MS);
    assert_int_equal(chain_of(&b)->epoch, epoch);
    assert_string_equal(lh_fleet_reason(b.fleet), "worker a waits for those that compute with it");
    all_serve(&b, 30000);
    assert_int_equal(members_of(chain_of(&b)), 3);
    lh_fleet_destroy(b.fleet);
}

static const lh_chain *successor_of(const bench *b) {
    const char *cause;
    return lh_fleet_successor(b->fleet, &cause);
}

static void prepare(bench *b, lh_worker_report *report, lh_worker_stage_state state) {
    report->prepared.state = state;
    report->prepared.is_joining = state == LH_WORKER_LOADING;
    report->prepared.first_layer = 0;
    report->prepared.last_layer = 4;
    report->prepared.holds = true;
    report->prepared.team_epoch = successor_of(b)->stages[0].team.epoch;
}

static void no_more_is_prepared(bench *b) {
    b->workers[0].prepared.state = b->workers[1].prepared.state = LH_WORKER_IDLE;
}

/* The hop of the successor, which leads to the gateway from a, is there already. */
static void all_prepare(bench *b, lh_worker_stage_state state, int64_t ms) {
    b->workers[0].trial = trial_of_hop(successor_of(b), 1, LH_HOP_TRIAL_PROVEN);
    put(b, ms);
    prepare(b, &b->workers[0], state);
    prepare(b, &b->workers[1], state);
    put(b, ms);
}

static int64_t wait_for_successor(bench *b, int64_t ms, int64_t until_ms) {
    for (; ms <= until_ms && !successor_of(b); ms += 100)
        lh_fleet_tick(b->fleet, ms * MS);
    assert_int_equal(members_of(successor_of(b)), 2);
    return ms;
}

/* Beside the chain that serves: once it fails again, and it is longer until the next time. */
static void it_is_tried_again_beside_the_chain_that_serves(void **state) {
    (void)state;
    bench b = create(2, 1000);
    serve_without_team(&b);
    const uint32_t epoch = chain_of(&b)->epoch;
    lh_fleet_tick(b.fleet, 16900 * MS);
    assert_null(successor_of(&b));
    int64_t ms = wait_for_successor(&b, 17000, 20000);
    all_prepare(&b, LH_WORKER_LOADING, ms);
    lh_fleet_tick(b.fleet, (ms + 4999) * MS);
    assert_non_null(successor_of(&b));
    lh_fleet_tick(b.fleet, (ms + 5000) * MS);
    assert_null(successor_of(&b));
    no_more_is_prepared(&b);
    put(&b, ms + 5000);
    lh_fleet_tick(b.fleet, (ms + 24900) * MS);
    assert_null(successor_of(&b));
    assert_int_equal(chain_of(&b)->state, LH_CHAIN_READY);
    assert_int_equal(chain_of(&b)->epoch, epoch); /* nobody has noticed */
    ms = wait_for_successor(&b, ms + 25000, ms + 30000);
    all_prepare(&b, LH_WORKER_READY, ms);
    assert_int_equal(members_of(chain_of(&b)), 2);
    all_serve(&b, ms + 100);
    lh_fleet_destroy(b.fleet);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_goes_on_without_a_team_that_does_not_form),
        cmocka_unit_test(who_loads_is_waited_for),
        cmocka_unit_test(what_fits_a_team_alone_waits_for_it),
        cmocka_unit_test(it_is_tried_again_beside_the_chain_that_serves),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
