/* What a worker is told. Workers a and b serve two layers each under epoch 7; c is a spare. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/fleet/answer.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

typedef struct bench {
    lh_fleet_options options;
    lh_handover handover;
    lh_link_avoidance avoidance;
    lh_live_planner planner;
    lh_registry *registry;
    lh_worker_report a, b, c;
    lh_hop_trial_report first_trial;
    lh_chain chain;
} bench;

static void create(bench *b) {
    const lh_layout plan = {2, {{0, {0, 2}}, {1, {2, 4}}}};
    *b = (bench){.options = fleet_of_four_layers(0),
                 .a = report_of("a"),
                 .b = report_of("b"),
                 .c = report_of("c"),
                 .chain = {.name = "main"}};
    lh_log_set_level(LH_LOG_ERROR);
    b->options.aim.stages = 2;
    b->options.wire.type = LH_WIRE_Q8;
    b->handover.options = &b->options;
    assert_int_equal(lh_registry_create(3000 * MS, &b->registry, NULL), LH_OK);
    register_report(b->registry, &b->a, 0);
    register_report(b->registry, &b->b, 0);
    register_report(b->registry, &b->c, 0);
    const lh_worker *members[] = {lh_registry_at(b->registry, 0), lh_registry_at(b->registry, 1)};
    assert_int_equal(lh_chain_form(&b->chain, &plan, members, &b->options.origin, 7, 0, NULL),
                     LH_OK);
    lh_chain_inherit(&b->chain, &(lh_chain){0});
    b->chain.stages[0].wire = LH_WIRE_F16;
    b->chain.stages[0].kv_epoch = 5;
    lh_chain_note_ready(&b->chain, 0);
}

static void destroy(bench *b) {
    lh_registry_destroy(b->registry);
}

static lh_handover_view view_of(const bench *b, uint32_t sequences) {
    return (lh_handover_view){&b->chain,       b->registry, &b->avoidance,
                              &b->first_trial, sequences,   &b->planner};
}

static lh_fleet_answer answer_under_load(const bench *b, const lh_worker_report *report,
                                         uint32_t sequences) {
    const lh_handover_view view = view_of(b, sequences);
    lh_fleet_answer made;
    lh_answer_make(&b->options, &b->handover, &view, report, &made);
    return made;
}

static lh_fleet_answer answer(const bench *b, const lh_worker_report *report) {
    return answer_under_load(b, report, 0);
}

/* `one` leaves, and the handover has looked. */
static void leave(bench *b, lh_worker_report *one, uint32_t sequences) {
    const lh_handover_view view = view_of(b, sequences);
    one->leaving = true;
    register_report(b->registry, one, 0);
    lh_handover_review(&b->handover, &view, 9, 0);
}

static void a_member_is_told_its_stage(void **state) {
    (void)state;
    bench b;
    create(&b);
    lh_fleet_answer made = answer(&b, &b.a);
    assert_int_equal(made.renew_us, 500 * MS);
    assert_int_equal(made.lease_us, 3000 * MS);
    assert_true(made.is_planned && made.has_assignment);
    assert_false(made.is_urgent || made.has_prepare || made.is_leaving || made.may_go);
    assert_string_equal(made.assignment.chain, "main");
    assert_int_equal(made.assignment.epoch, 7);
    assert_int_equal(made.assignment.stage.kv_epoch, 5);
    assert_int_equal(made.assignment.stage.first_layer, 0);
    assert_int_equal(made.assignment.stage.last_layer, 2);
    assert_ptr_equal(made.options, &b.options);
    assert_int_equal(made.assignment.stage.wire, LH_WIRE_F16);
    assert_false(made.assignment.next.is_gateway);
    assert_string_equal(made.assignment.next.worker, "b");
    made = answer(&b, &b.b);
    assert_int_equal(made.assignment.stage.kv_epoch, 7);
    assert_true(made.assignment.next.is_gateway);
    destroy(&b);
}

static void a_spare_is_told_that_there_is_a_plan(void **state) {
    (void)state;
    bench b;
    create(&b);
    lh_fleet_answer made = answer(&b, &b.c);
    assert_true(made.is_planned);
    assert_false(made.has_assignment || made.has_prepare);
    assert_int_equal(made.renew_us, 500 * MS);
    assert_false(answer_under_load(&b, &b.c, 1).is_urgent);
    assert_true(answer_under_load(&b, &b.a, 1).is_urgent);
    lh_chain_drop(&b.chain);
    made = answer(&b, &b.a);
    assert_false(made.is_planned || made.has_assignment);
    assert_int_equal(made.renew_us, 500 * MS);
    destroy(&b);
}

/* Reports five times as often, of those whose word is waited for. */
static void haste_where_a_chain_waits(void **state) {
    (void)state;
    bench b;
    create(&b);
    lh_chain_break(&b.chain);
    assert_int_equal(answer(&b, &b.a).renew_us, 100 * MS);
    assert_int_equal(answer(&b, &b.c).renew_us, 500 * MS);
    lh_chain_note_ready(&b.chain, 0);
    leave(&b, &b.b, 1);
    assert_int_equal(answer(&b, &b.a).renew_us, 100 * MS);
    assert_int_equal(answer(&b, &b.b).renew_us, 100 * MS);
    assert_int_equal(answer(&b, &b.c).renew_us, 100 * MS);
    destroy(&b);
}

/* And then, when the hops are proven, what to prepare. */
static void whoever_follows_is_told_which_hop_to_try(void **state) {
    (void)state;
    bench b;
    create(&b);
    assert_false(answer(&b, &b.a).has_trial);
    leave(&b, &b.b, 1);
    const lh_chain *next = lh_handover_successor(&b.handover);
    lh_fleet_answer made = answer(&b, &b.a);
    assert_true(made.has_trial && !made.trial.next.is_gateway && made.has_assignment);
    assert_string_equal(made.trial.chain, "main");
    assert_string_equal(made.trial.next.worker, "c");
    assert_string_equal(made.trial.next.address, "c:1");
    assert_int_equal(made.trial.stage.wire, LH_WIRE_Q8);
    made = answer(&b, &b.c);
    assert_true(made.has_trial);
    assert_true(made.trial.next.is_gateway && !made.has_prepare);
    assert_int_equal(made.renew_us, 100 * MS);
    assert_false(answer(&b, &b.b).has_trial);
    b.a.trial = trial_of_hop(next, 1, LH_HOP_TRIAL_PROVEN);
    register_report(b.registry, &b.a, 0);
    b.c.trial = trial_of_hop(next, 2, LH_HOP_TRIAL_PROVEN);
    leave(&b, &b.b, 1);
    assert_false(answer(&b, &b.c).has_prepare);
    register_report(b.registry, &b.c, 0);
    leave(&b, &b.b, 1);
    made = answer(&b, &b.c);
    assert_true(made.has_trial);
    assert_true(made.has_prepare && made.prepare_holds);
    assert_false(made.has_assignment);
    assert_int_equal(made.prepare.stage.first_layer, 2);
    assert_int_equal(made.prepare.stage.last_layer, 4);
    assert_int_equal(made.prepare.stage.wire, LH_WIRE_Q8);
    assert_false(answer(&b, &b.a).has_prepare);
    destroy(&b);
}

static void a_leaver_is_told_why_it_stays(void **state) {
    (void)state;
    bench b;
    create(&b);
    leave(&b, &b.c, 1);
    lh_fleet_answer made = answer(&b, &b.c);
    assert_true(made.is_leaving && made.may_go);
    assert_string_equal(made.leave_reason, "it has no part in a chain");
    b.b.leaving = true;
    made = answer(&b, &b.b);
    assert_true(made.is_leaving);
    assert_false(made.may_go);
    assert_string_equal(made.leave_reason, "its chain is being formed");
    leave(&b, &b.b, 1); /* a alone holds all */
    assert_string_equal(answer(&b, &b.b).leave_reason, "others load what it holds");
    lh_handover_drop(&b.handover, "");
    leave(&b, &b.a, 1);
    made = answer(&b, &b.a);
    assert_false(made.may_go);
    assert_string_equal(made.leave_reason, b.handover.problem);
    assert_string_not_equal(made.leave_reason, "");
    destroy(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_is_told_its_stage),
        cmocka_unit_test(a_spare_is_told_that_there_is_a_plan),
        cmocka_unit_test(haste_where_a_chain_waits),
        cmocka_unit_test(whoever_follows_is_told_which_hop_to_try),
        cmocka_unit_test(a_leaver_is_told_why_it_stays),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
