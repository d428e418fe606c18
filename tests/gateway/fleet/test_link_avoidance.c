/* A hop that does not come up, and the worker that is passed over because of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/link_avoidance.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

/* Workers a and b, which hold their stages under epoch 7, planned in that epoch. The hop from a to
 * b is down. */
typedef struct bench {
    lh_link_avoidance avoidance;
    lh_registry *registry;
    lh_worker_report a, b;
    lh_chain chain;
} bench;

static bench create(void) {
    const lh_layout plan = {2, {{0, {0, 2}}, {1, {2, 4}}}};
    const lh_chain_origin origin = {.site = "home", .has_tls = true};
    bench b = {.a = report_of("a"), .b = report_of("b"), .chain = {.name = "main"}};
    assert_int_equal(lh_registry_create(3000 * MS, &b.registry, NULL), LH_OK);
    make_ready(&b.a, 7);
    make_ready(&b.b, 7);
    b.a.next.connected = false;
    register_report(b.registry, &b.a, 0);
    register_report(b.registry, &b.b, 0);
    const lh_worker *workers[] = {lh_registry_at(b.registry, 0), lh_registry_at(b.registry, 1)};
    assert_int_equal(lh_chain_form(&b.chain, &plan, workers, &origin, 7, 0, NULL), LH_OK);
    return b;
}

static void destroy(bench *b) {
    lh_registry_destroy(b->registry);
}

static int overdue(bench *b, int64_t ms) {
    return lh_link_avoidance_overdue_hop(&b->avoidance, &b->chain, b->registry, true, ms * MS);
}

static void renew(bench *b, uint32_t epoch) {
    const lh_chain_origin origin = {.site = "home", .has_tls = true};
    assert_int_equal(lh_chain_renew(&b->chain, b->registry, &origin, epoch, 0, NULL), LH_OK);
    make_ready(&b->a, epoch);
    make_ready(&b->b, epoch);
    b->a.next.connected = false;
    register_report(b->registry, &b->a, 0);
    register_report(b->registry, &b->b, 0);
}

static void a_new_hop_has_five_seconds(void **state) {
    (void)state;
    bench b = create();
    assert_int_equal(overdue(&b, 1000), -1);
    assert_int_equal(overdue(&b, 5999), -1);
    assert_int_equal(overdue(&b, 6000), 1);
    destroy(&b);
}

/* Seven tenths of a second, and eight round trips as the near end measures them. */
static void one_that_was_up_has_some_round_trips(void **state) {
    (void)state;
    bench b = create();
    b.a.next.round_trip_us = 10 * MS;
    renew(&b, 8);
    assert_int_equal(overdue(&b, 1000), -1);
    assert_int_equal(overdue(&b, 1779), -1);
    assert_int_equal(overdue(&b, 1780), 1);
    destroy(&b);
}

static void the_gateways_own_hop_has_no_near_end(void **state) {
    (void)state;
    bench b = create();
    b.a.next.round_trip_us = 10 * MS;
    renew(&b, 8);
    assert_int_equal(
        lh_link_avoidance_overdue_hop(&b.avoidance, &b.chain, b.registry, false, 1000 * MS), -1);
    assert_int_equal(
        lh_link_avoidance_overdue_hop(&b.avoidance, &b.chain, b.registry, false, 1699 * MS), -1);
    assert_int_equal(
        lh_link_avoidance_overdue_hop(&b.avoidance, &b.chain, b.registry, false, 1700 * MS), 0);
    destroy(&b);
}

/* Loading is no time that the hop has had, and neither is another epoch. */
static void waiting_counts_from_when_the_hop_is_all_that_is_awaited(void **state) {
    (void)state;
    bench b = create();
    b.b.assignment.state = LH_WORKER_LOADING;
    register_report(b.registry, &b.b, 0);
    assert_int_equal(overdue(&b, 0), -1);
    assert_int_equal(overdue(&b, 9000), -1);
    b.b.assignment.state = LH_WORKER_READY;
    register_report(b.registry, &b.b, 0);
    assert_int_equal(overdue(&b, 10000), -1);
    assert_int_equal(overdue(&b, 14999), -1);
    renew(&b, 8);
    assert_int_equal(overdue(&b, 15000), -1);
    assert_int_equal(overdue(&b, 15699), -1);
    assert_int_equal(overdue(&b, 15700), 1);
    destroy(&b);
}

static void it_is_named_every_two_seconds(void **state) {
    (void)state;
    bench b = create();
    overdue(&b, 0);
    assert_int_equal(overdue(&b, 5000), 1);
    assert_int_equal(overdue(&b, 5001), -1);
    assert_int_equal(overdue(&b, 6999), -1);
    assert_int_equal(overdue(&b, 7000), 1);
    destroy(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_hop_has_five_seconds),
        cmocka_unit_test(one_that_was_up_has_some_round_trips),
        cmocka_unit_test(the_gateways_own_hop_has_no_near_end),
        cmocka_unit_test(waiting_counts_from_when_the_hop_is_all_that_is_awaited),
        cmocka_unit_test(it_is_named_every_two_seconds),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
