/* What an operator is told of a worker. a and b serve two layers each, ready since 0; c has come at
 * 5 s. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/fleet/worker_role.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>
#include <string.h>

typedef struct bench {
    lh_fleet_options options;
    lh_handover handover;
    lh_link_avoidance avoidance;
    lh_live_planner planner;
    lh_hop_trial_report first_trial;
    lh_registry *registry;
    lh_worker_report c;
    lh_chain chain;
} bench;

static void create(bench *b) {
    const lh_layout plan = {2, {{0, {0, 2}}, {1, {2, 4}}}};
    const lh_worker_report a = report_of("a"), second = report_of("b");
    *b =
        (bench){.options = fleet_of_four_layers(0), .c = report_of("c"), .chain = {.name = "main"}};
    lh_log_set_level(LH_LOG_ERROR);
    b->options.rebalance_delay_us = 10000 * MS;
    b->handover.options = &b->options;
    assert_int_equal(lh_registry_create(300000 * MS, &b->registry, NULL), LH_OK);
    register_report(b->registry, &a, 0);
    register_report(b->registry, &second, 0);
    const lh_worker *members[] = {lh_registry_at(b->registry, 0), lh_registry_at(b->registry, 1)};
    assert_int_equal(lh_chain_form(&b->chain, &plan, members, &b->options.origin, 7, 0, NULL),
                     LH_OK);
    lh_chain_note_ready(&b->chain, 0);
    register_report(b->registry, &b->c, 5000 * MS);
}

static void destroy(bench *b) {
    lh_registry_destroy(b->registry);
}

static void assert_role(const bench *b, const char *worker, int64_t ms, lh_worker_role expected,
                        const char *expected_reason) {
    const lh_handover_view view = {&b->chain,       b->registry, &b->avoidance,
                                   &b->first_trial, 0,           &b->planner};
    char reason[LH_ERROR_MESSAGE_BYTES];
    lh_role_inquiry roles = lh_role_inquiry_begin(&b->handover, &view, ms * MS);
    lh_worker_role role = lh_worker_role_of(&roles, lh_registry_find(b->registry, worker), reason);
    assert_string_equal(lh_worker_role_name(role), lh_worker_role_name(expected));
    assert_string_equal(reason, expected_reason);
}

static void each_has_a_place_or_none(void **state) {
    (void)state;
    bench b;
    create(&b);
    assert_role(&b, "a", 6000, LH_ROLE_STAGE, "");
    assert_role(&b, "c", 6001, LH_ROLE_SPARE,
                "it has just come: the chain may change for it in 9 s");
    const lh_handover_view view = {&b.chain,       b.registry, &b.avoidance,
                                   &b.first_trial, 1,          &b.planner};
    lh_worker_report leaver = report_of("b");
    leaver.leaving = true;
    register_report(b.registry, &leaver, 0);
    b.options.aim.stages = 2;
    lh_handover_review(&b.handover, &view, 9, 15000 * MS);
    assert_role(&b, "c", 15000, LH_ROLE_NEXT, "");
    lh_chain_drop(&b.chain);
    assert_role(&b, "a", 15000, LH_ROLE_WAITING, "");
    destroy(&b);
}

/* Of the present team and of the next one. */
static void followers_have_a_place_too(void **state) {
    (void)state;
    bench b;
    create(&b);
    lh_chain_team team = {.follower_count = 1, .weights = {1, 1}};
    strcpy(team.followers[0].name, "c");
    b.chain.stages[1].team = team;
    assert_role(&b, "c", 6000, LH_ROLE_STAGE, "");
    b.handover.cause = LH_HANDOVER_BETTER;
    b.handover.chain = b.chain;
    b.chain.stages[1].team.follower_count = 0;
    assert_role(&b, "c", 6000, LH_ROLE_NEXT, "");
    destroy(&b);
}

static void what_bars_a_spare_is_said_first(void **state) {
    (void)state;
    bench b;
    create(&b);
    lh_passed_list_add(&b.avoidance.passed, "c", "worker a does not reach worker c", 6000 * MS);
    assert_role(&b, "c", 6000, LH_ROLE_SPARE,
                "worker a does not reach worker c; it is tried again in 10 s");
    snprintf(b.c.prepared.error, sizeof b.c.prepared.error, "no memory");
    register_report(b.registry, &b.c, 6000 * MS);
    lh_registry_exclude(b.registry, "c", 8500 * MS);
    assert_role(&b, "c", 6000, LH_ROLE_SPARE,
                "it could not load its stage: no memory; it is planned with again in 3 s");
    b.c.leaving = true;
    register_report(b.registry, &b.c, 6000 * MS);
    assert_role(&b, "c", 6000, LH_ROLE_SPARE, "it leaves");
    destroy(&b);
}

static void a_spare_is_told_what_would_make_it_used(void **state) {
    (void)state;
    bench b;
    create(&b);
    b.options.rebalance_delay_us = 0;
    assert_role(&b, "c", 6000, LH_ROLE_SPARE,
                "--rebalance off: it stands in when a worker of the chain goes");
    b.options.rebalance_delay_us = 10000 * MS;
    assert_role(&b, "c", 15000, LH_ROLE_SPARE,
                "with it the chain would be 1.00 times as fast, and changes from 1.25 times on; it "
                "stands in when a worker of the chain goes");
    b.options.aim.stages = 1; /* two are more than that, so nothing compares */
    assert_role(&b, "c", 15000, LH_ROLE_SPARE,
                "with it the chain would be 0.50 times as fast, and changes from 1.25 times on; it "
                "stands in when a worker of the chain goes");
    lh_passed_list_add(&b.avoidance.passed, "a", "", 15000 * MS);
    assert_role(&b, "c", 15000, LH_ROLE_SPARE, "it stands in when a worker of the chain goes");
    destroy(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_a_place_or_none),
        cmocka_unit_test(followers_have_a_place_too),
        cmocka_unit_test(what_bars_a_spare_is_said_first),
        cmocka_unit_test(a_spare_is_told_what_would_make_it_used),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
