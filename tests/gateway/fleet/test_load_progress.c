/* How far a chain is with loading, and when it is likely to be ready. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/load_progress.h"
#include "tests/gateway/support/worker_reports.h"

#include <string.h>

#define MB 1000000u

static const lh_chain_origin at_home = {.site = "home", .has_tls = true};

/* Workers a and b with stages 0-2 and 2-4 under epoch 7: a has its own, b loads. */
typedef struct bench {
    lh_registry *registry;
    lh_worker_report reports[2];
    lh_chain chain;
    lh_load_progress progress;
} bench;

static void form(bench *b, uint32_t epoch) {
    const lh_layout plan = {2, {{0, {0, 2}}, {1, {2, 4}}}};
    const lh_worker *workers[] = {lh_registry_at(b->registry, 0), lh_registry_at(b->registry, 1)};
    assert_int_equal(lh_chain_form(&b->chain, &plan, workers, &at_home, epoch, 0, NULL), LH_OK);
    for (int i = 0; i < 2; i++)
        b->reports[i].assignment.generation = epoch;
    register_report(b->registry, &b->reports[0], 0);
}

static bench create(void) {
    bench b = {.chain = {.name = "main"}};
    assert_int_equal(lh_registry_create(3000 * MS, &b.registry, NULL), LH_OK);
    b.reports[0] = report_of("a");
    b.reports[1] = report_of("b");
    for (int i = 0; i < 2; i++) {
        make_ready(&b.reports[i], 7);
        register_report(b.registry, &b.reports[i], 0);
    }
    b.reports[1].assignment.state = LH_WORKER_FETCHING;
    b.reports[1].assignment.total_bytes = 100 * MB;
    form(&b, 7);
    return b;
}

static lh_load_estimate observe(bench *b, uint64_t done_bytes, int64_t now_us) {
    b->reports[1].assignment.done_bytes = done_bytes;
    register_report(b->registry, &b->reports[1], now_us);
    lh_load_progress_observe(&b->progress, &b->chain, b->registry, now_us);
    return lh_load_progress_estimate(&b->progress, now_us);
}

/* What was on the disk at first says nothing of how fast the rest comes. */
static void the_rest_comes_at_the_pace_seen(void **state) {
    (void)state;
    bench b = create();
    lh_load_estimate found = observe(&b, 40 * MB, 1000 * MS);
    assert_true(found.is_loading);
    assert_int_equal(found.percent, 40);
    assert_true(found.ready_us == INT64_MAX);
    assert_int_equal(b.progress.grown_us, 0);
    found = observe(&b, 50 * MB, 3000 * MS);
    assert_int_equal(found.percent, 50);
    assert_int_equal(found.ready_us, 13000 * MS);
    assert_int_equal(b.progress.grown_us, 3000 * MS);
    lh_registry_destroy(b.registry);
}

static void a_report_without_a_byte_is_no_progress(void **state) {
    (void)state;
    bench b = create();
    observe(&b, 40 * MB, 1000 * MS);
    observe(&b, 50 * MB, 3000 * MS);
    lh_load_estimate found = observe(&b, 50 * MB, 20000 * MS);
    assert_int_equal(b.progress.grown_us, 3000 * MS);
    assert_int_equal(found.ready_us, 20000 * MS); /* no earlier than now */
    lh_registry_destroy(b.registry);
}

/* The same bytes are counted once more while they are loaded. */
static void what_was_fetched_is_loaded(void **state) {
    (void)state;
    bench b = create();
    observe(&b, 0, 1000 * MS);
    observe(&b, 100 * MB, 11000 * MS);
    b.reports[1].assignment.state = LH_WORKER_LOADING;
    assert_true(observe(&b, 0, 12000 * MS).ready_us == INT64_MAX);
    assert_int_equal(observe(&b, 50 * MB, 14000 * MS).ready_us, 16000 * MS);
    b.reports[1].assignment.state = LH_WORKER_READY;
    assert_false(observe(&b, 100 * MB, 16000 * MS).is_loading);
    lh_registry_destroy(b.registry);
}

/* Another epoch begins anew, but when the last bytes came stays known. */
static void another_epoch_begins_anew(void **state) {
    (void)state;
    bench b = create();
    observe(&b, 40 * MB, 1000 * MS);
    observe(&b, 50 * MB, 3000 * MS);
    form(&b, 8);
    assert_true(observe(&b, 10 * MB, 4000 * MS).ready_us == INT64_MAX);
    assert_int_equal(b.progress.grown_us, 3000 * MS);
    observe(&b, 11 * MB, 5500 * MS);
    assert_int_equal(b.progress.grown_us, 5500 * MS);
    lh_registry_destroy(b.registry);
}

static void a_chain_that_serves_loads_nothing(void **state) {
    (void)state;
    bench b = create();
    lh_chain_note_ready(&b.chain, 0);
    lh_load_estimate found = observe(&b, 40 * MB, 1000 * MS);
    assert_false(found.is_loading);
    assert_int_equal(found.percent, 0);
    lh_registry_destroy(b.registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rest_comes_at_the_pace_seen),
        cmocka_unit_test(a_report_without_a_byte_is_no_progress),
        cmocka_unit_test(what_was_fetched_is_loaded),
        cmocka_unit_test(another_epoch_begins_anew),
        cmocka_unit_test(a_chain_that_serves_loads_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
