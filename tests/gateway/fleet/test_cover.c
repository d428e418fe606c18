/* What workers fetch before one of them is lost, and the chain that is formed then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>
#include <string.h>

#define SETTLED_MS 3000 /* three times the delay of the options below */
#define REVIEW_MS  2000

enum { A, B, C, WORKERS };

/* Workers a, b and c have the four layers of "ours", each those of its stage alone on its disk. The
 * chain is ready at 2,000 ms. */
typedef struct bench {
    lh_fleet *fleet;
    lh_link_matrix *links;
    lh_worker_report reports[WORKERS];
    int64_t now_ms;
} bench;

static const char *const names[WORKERS] = {"a", "b", "c"};

static lh_fleet_answer put(bench *b, int worker) {
    return put_report(b->fleet, &b->reports[worker], b->now_ms * MS);
}

static void set_disk(bench *b, int worker, uint32_t first_layer, uint32_t last_layer) {
    b->reports[worker].cached_count = 1;
    b->reports[worker].cached[0] = (lh_cached_layers){"ours", 1, {{first_layer, last_layer}}};
}

static const lh_chain_stage *stage_of(const bench *b, int worker) {
    const lh_chain *chain = lh_fleet_chain(b->fleet);
    int index = lh_chain_find(chain, names[worker]);
    return index >= 0 ? &chain->stages[index] : NULL;
}

/* All report twice a second until then. */
static void run_until(bench *b, int64_t ms) {
    for (; b->now_ms < ms; b->now_ms += 500)
        for (int i = 0; i < WORKERS; i++)
            put(b, i);
}

static bench create(double share) {
    bench b = {.now_ms = 1000};
    lh_fleet_options options = fleet_of_four_layers(WORKERS);
    assert_int_equal(lh_link_matrix_create(&b.links, NULL), LH_OK);
    options.links = b.links;
    options.cover_share = share;
    options.rebalance_delay_us = 1000 * MS;
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_fleet_create(&options, 0, &b.fleet, NULL), LH_OK);
    for (int i = 0; i < WORKERS; i++) {
        b.reports[i] = report_of(names[i]);
        put(&b, i);
    }
    lh_fleet_first_hop(b.fleet, true, false, 1500 * MS, "");
    for (int i = 0; i < WORKERS; i++) {
        make_ready(&b.reports[i], lh_fleet_chain(b.fleet)->epoch);
        set_disk(&b, i, stage_of(&b, i)->first_layer, stage_of(&b, i)->last_layer);
    }
    b.now_ms = 2000;
    for (int i = 0; i < WORKERS; i++)
        put(&b, i);
    assert_int_equal(lh_fleet_chain(b.fleet)->state, LH_CHAIN_READY);
    return b;
}

static void destroy(bench *b) {
    lh_fleet_destroy(b->fleet);
    lh_link_matrix_destroy(b->links);
}

static void a_chain_that_is_new_is_not_covered(void **state) {
    (void)state;
    bench b = create(0.1);
    run_until(&b, 2000 + SETTLED_MS);
    assert_int_equal(lh_fleet_cover(b.fleet)->plan_count, 0);
    run_until(&b, 2500 + SETTLED_MS);
    assert_int_equal(lh_fleet_cover(b.fleet)->plan_count, 1);
    assert_false(put(&b, A).has_prepare); /* the run may still become wider */
    destroy(&b);
}

/* Of each plan the others hold all layers, and each worker is asked for all that it has in one. */
static void each_loss_has_a_plan_and_each_worker_its_share(void **state) {
    (void)state;
    bench b = create(0.1);
    run_until(&b, 2000 + SETTLED_MS + WORKERS * REVIEW_MS);
    for (int i = 0; i < WORKERS; i++) {
        const lh_cover_plan *plan = lh_cover_find(lh_fleet_cover(b.fleet), names[i]);
        uint32_t layers = 0;
        assert_non_null(plan);
        assert_int_equal(plan->part_count, 2);
        for (uint32_t k = 0; k < plan->part_count; k++) {
            assert_string_not_equal(plan->parts[k].worker, names[i]);
            assert_int_equal(plan->parts[k].first_layer, layers);
            layers = plan->parts[k].last_layer;
        }
        assert_int_equal(layers, 4);
    }
    int asked = 0;
    for (int i = 0; i < WORKERS; i++) {
        const lh_fleet_answer answer = put(&b, i);
        assert_false(answer.prepare_holds);
        asked += answer.has_prepare;
        for (int k = 0; answer.has_prepare && k < WORKERS; k++) {
            const lh_cover_plan *plan = lh_cover_find(lh_fleet_cover(b.fleet), names[k]);
            for (uint32_t p = 0; p < plan->part_count; p++) {
                if (strcmp(plan->parts[p].worker, names[i]) != 0)
                    continue;
                assert_true(answer.prepare.stage.first_layer <= plan->parts[p].first_layer);
                assert_true(answer.prepare.stage.last_layer >= plan->parts[p].last_layer);
            }
        }
    }
    assert_true(asked >= 2); /* one has all that it would need in its stage */
    destroy(&b);
}

static void who_has_its_cover_is_left_alone(void **state) {
    (void)state;
    bench b = create(0.1);
    run_until(&b, 2000 + SETTLED_MS + WORKERS * REVIEW_MS);
    const lh_cover_plan *plan = lh_cover_find(lh_fleet_cover(b.fleet), "b");
    assert_true(lh_cover_missing(plan, lh_fleet_registry(b.fleet), "ours") > 0);
    for (int i = 0; i < WORKERS; i++) {
        set_disk(&b, i, 0, 4);
        assert_false(put(&b, i).has_prepare);
    }
    assert_int_equal(lh_cover_missing(plan, lh_fleet_registry(b.fleet), "ours"), 0);
    assert_true(lh_cover_missing(plan, lh_fleet_registry(b.fleet), "another model") > 0);
    destroy(&b);
}

/* A tenth of what the link to its site carries; of one that is not known, of 10 MB/s. */
static void it_comes_with_a_share_of_the_link(void **state) {
    (void)state;
    bench b = create(0.1);
    run_until(&b, 2000 + SETTLED_MS + WORKERS * REVIEW_MS);
    assert_int_equal(put(&b, A).prepare_bytes_per_s, 1000000);
    const lh_link_value link = {.bytes_per_us = 12.5, .source = LH_LINK_HOP};
    lh_link_matrix_note(b.links, "home", "home", &link, b.now_ms * MS);
    assert_int_equal(put(&b, A).prepare_bytes_per_s, 1250000);
    destroy(&b);
}

static void without_a_share_nobody_fetches(void **state) {
    (void)state;
    bench b = create(0);
    run_until(&b, 2000 + SETTLED_MS + 2 * WORKERS * REVIEW_MS);
    assert_int_equal(lh_fleet_cover(b.fleet)->plan_count, 0);
    assert_false(put(&b, A).has_prepare);
    destroy(&b);
}

/* b is lost after c has turned out to be slow: a plan made now gives a more than it has fetched.
 * The stand-in plan is formed, since for it everything lies on the disks. */
static void what_was_fetched_is_used(void **state, bool is_fetched) {
    (void)state;
    bench b = create(0.1);
    run_until(&b, 2000 + SETTLED_MS + WORKERS * REVIEW_MS);
    const lh_cover_plan plan = *lh_cover_find(lh_fleet_cover(b.fleet), "b");
    assert_int_equal(plan.part_count, 2);
    assert_int_equal(plan.parts[0].last_layer, 2);
    if (is_fetched)
        set_disk(&b, A, 0, 2);
    else
        b.reports[C].cached_count = 0; /* then each plan lacks two layers of one worker */
    b.reports[A].speed = (lh_machine_speed){100, 100};
    b.reports[C].speed = (lh_machine_speed){400, 400};
    put(&b, A);
    put(&b, C);
    lh_fleet_forget(b.fleet, "b", b.now_ms * MS);
    const lh_chain *chain = lh_fleet_chain(b.fleet);
    for (int64_t end_ms = b.now_ms + 6000; b.now_ms < end_ms && chain->stage_count == WORKERS;
         b.now_ms += 500) {
        put(&b, A);
        put(&b, C);
    }
    assert_int_equal(chain->stage_count, 2);
    assert_int_equal(stage_of(&b, A)->last_layer, is_fetched ? 2 : 3);
    destroy(&b);
}

static void the_stand_in_plan_serves_soonest(void **state) {
    what_was_fetched_is_used(state, true);
}

/* Where both would have to fetch, the better one is formed. */
static void without_its_layers_it_is_no_better(void **state) {
    what_was_fetched_is_used(state, false);
}

static void another_chain_is_covered_anew(void **state) {
    (void)state;
    bench b = create(0.1);
    run_until(&b, 2000 + SETTLED_MS + WORKERS * REVIEW_MS);
    assert_int_equal(lh_fleet_cover(b.fleet)->plan_count, WORKERS);
    lh_fleet_forget(b.fleet, "b", b.now_ms * MS);
    for (int64_t end_ms = b.now_ms + 6000; b.now_ms < end_ms; b.now_ms += 500) {
        put(&b, A);
        put(&b, C);
    }
    assert_int_equal(lh_fleet_chain(b.fleet)->stage_count, 2);
    assert_int_equal(lh_fleet_cover(b.fleet)->plan_count, 0);
    assert_null(lh_cover_find(lh_fleet_cover(b.fleet), "b"));
    destroy(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_that_is_new_is_not_covered),
        cmocka_unit_test(each_loss_has_a_plan_and_each_worker_its_share),
        cmocka_unit_test(who_has_its_cover_is_left_alone),
        cmocka_unit_test(it_comes_with_a_share_of_the_link),
        cmocka_unit_test(without_a_share_nobody_fetches),
        cmocka_unit_test(the_stand_in_plan_serves_soonest),
        cmocka_unit_test(without_its_layers_it_is_no_better),
        cmocka_unit_test(another_chain_is_covered_anew),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
