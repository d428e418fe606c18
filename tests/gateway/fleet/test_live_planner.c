/* When a better chain is looked for, and when it is believed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/gateway/support/measured_fleet.h"
#include "tests/gateway/support/worker_reports.h"

#define DELAY_US (10000 * MS)

static const char *const a_b[] = {"a", "b"}, *const b_a[] = {"b", "a"};
static const uint32_t halves[] = {0, 6};

/* Two equal machines at two sites, each with half of the model, for the sake of prompts. */
static void create(measured_fleet *f) {
    lh_log_set_level(LH_LOG_ERROR);
    measured_fleet_create(f);
    f->options.aim.goal = LH_GOAL_THROUGHPUT;
    measured_fleet_add(f, "a", "east", 1000);
    measured_fleet_add(f, "b", "west", 1000);
    f->options.aim.sequences_max = 64;
    measured_fleet_link_all(f);
    measured_fleet_serve(f, 2, a_b, halves);
}

/* The study that is due now, which is run; NULL: none is. */
static const lh_plan_study *study(measured_fleet *f) {
    lh_plan_study *due =
        lh_live_planner_begin(&f->planner, &f->chain, f->registry, &f->avoidance, f->now_us);
    if (!due)
        return NULL;
    assert_null(lh_live_planner_begin(&f->planner, &f->chain, f->registry, &f->avoidance,
                                      f->now_us + 10 * DELAY_US));
    lh_plan_study_run(due);
    lh_live_planner_end(&f->planner, due, f->now_us);
    return due;
}

static const lh_plan_study *study_later(measured_fleet *f) {
    f->now_us += DELAY_US;
    return study(f);
}

static bool proposes(measured_fleet *f, lh_layout *plan) {
    lh_candidates candidates = measured_fleet_candidates(f);
    return lh_live_planner_proposes(&f->planner, &f->chain, &candidates, f->now_us, plan);
}

static void a_good_chain_is_left_alone(void **state) {
    (void)state;
    measured_fleet f;
    lh_layout plan;
    create(&f);
    const lh_plan_study *found = study(&f);
    assert_non_null(found);
    assert_int_equal(found->status, LH_OK);
    assert_true(lh_plan_study_is_content(found));
    assert_true(fabs(found->present_value / found->plan.value - 1) < 1e-9);
    assert_false(proposes(&f, &plan));
    assert_null(study_later(&f)); /* nothing is new */
    measured_fleet_destroy(&f);
}

/* b takes 20 % more than it was believed to: after two studies that agree it has a layer less. */
static void the_split_follows_the_meters(void **state) {
    (void)state;
    measured_fleet f;
    lh_layout plan;
    create(&f);
    assert_non_null(study(&f));
    f.layer_us[1] = 1250;
    measured_fleet_report(&f);
    assert_null(study(&f)); /* too soon */
    const lh_plan_study *found = study_later(&f);
    assert_non_null(found);
    assert_false(lh_plan_study_is_content(found));
    assert_true(found->plan.value < found->present_value);
    assert_false(proposes(&f, &plan)); /* one alone */
    assert_non_null(study_later(&f));
    assert_true(proposes(&f, &plan));
    assert_int_equal(plan.stage_count, 2);
    const lh_candidates candidates = measured_fleet_candidates(&f);
    for (uint32_t s = 0; s < 2; s++)
        assert_int_equal(
            plan.stages[s].layers.last - plan.stages[s].layers.first,
            strcmp(candidates.workers[plan.stages[s].machine]->report.name, "a") == 0 ? 7 : 5);
    assert_null(study_later(&f)); /* it has been said */
    assert_true(proposes(&f, &plan));
    measured_fleet_destroy(&f);
}

/* A stage that was slow in one sample alone moves nothing. */
static void a_single_bad_sample_moves_nothing(void **state) {
    (void)state;
    measured_fleet f;
    lh_layout plan;
    create(&f);
    assert_non_null(study(&f));
    f.layer_us[1] = 3000;
    measured_fleet_report(&f);
    assert_non_null(study_later(&f));
    f.layer_us[1] = 1000;
    measured_fleet_report(&f);
    const lh_plan_study *found = study_later(&f);
    assert_non_null(found);
    assert_true(lh_plan_study_is_content(found));
    assert_false(proposes(&f, &plan));
    measured_fleet_destroy(&f);
}

/* Links decide about the order: from home to east and west alike, but back from east alone is
 * quick. */
static void the_order_follows_the_links(void **state) {
    (void)state;
    measured_fleet f;
    lh_layout plan;
    create(&f);
    f.reports[0].memory_bytes = f.reports[1].memory_bytes = UINT64_C(9) << 20;
    for (uint32_t i = 0; i < 2; i++)
        register_report(f.registry, &f.reports[i], f.now_us);
    f.options.aim.goal = LH_GOAL_TPOT;
    const lh_link_value slow = {.bytes_per_us = 12.5,
                                .round_trip_us = 200 * MS,
                                .rate_at_us = f.now_us,
                                .source = LH_LINK_SURVEY};
    lh_link_matrix_note(f.links, "west", "home", &slow, f.now_us);
    assert_non_null(study(&f));
    assert_non_null(study_later(&f));
    assert_true(proposes(&f, &plan));
    const lh_candidates candidates = measured_fleet_candidates(&f);
    assert_string_equal(candidates.workers[plan.stages[0].machine]->report.name, "b");
    measured_fleet_serve(&f, 2, b_a, halves);
    assert_false(proposes(&f, &plan)); /* it is of another chain */
    const lh_plan_study *found = study_later(&f);
    assert_non_null(found);
    assert_true(lh_plan_study_is_content(found));
    measured_fleet_destroy(&f);
}

/* What fits one machine is quicker there, token by token; the other is told why it is not used. */
static void a_machine_that_brings_nothing_is_left_out(void **state) {
    (void)state;
    measured_fleet f;
    lh_layout plan;
    char reason[LH_ERROR_MESSAGE_BYTES];
    create(&f);
    f.options.aim.goal = LH_GOAL_TPOT;
    assert_non_null(study(&f));
    assert_non_null(study_later(&f));
    assert_true(proposes(&f, &plan));
    assert_int_equal(plan.stage_count, 1);
    const lh_candidates candidates = measured_fleet_candidates(&f);
    bool is_a = strcmp(candidates.workers[plan.stages[0].machine]->report.name, "a") == 0;
    assert_true(lh_live_planner_explain(&f.planner, is_a ? "b" : "a", reason));
    assert_non_null(strstr(reason, "a token would take"));
    assert_false(lh_live_planner_explain(&f.planner, is_a ? "a" : "b", reason));
    assert_false(lh_live_planner_explain(&f.planner, "nobody", reason));
    measured_fleet_destroy(&f);
}

static void a_site_without_links_is_said(void **state) {
    (void)state;
    measured_fleet f;
    char reason[LH_ERROR_MESSAGE_BYTES];
    create(&f);
    measured_fleet_add(&f, "c", "island", 1000);
    const lh_plan_study *found = study(&f);
    assert_non_null(found);
    assert_true(lh_plan_study_is_content(found));
    assert_true(lh_live_planner_explain(&f.planner, "c", reason));
    assert_non_null(strstr(reason, "no link"));
    measured_fleet_destroy(&f);
}

/* One of the plan's machines has restarted, or may not be planned any more. */
static void a_plan_of_the_gone_is_none(void **state) {
    (void)state;
    measured_fleet f;
    lh_layout plan;
    create(&f);
    f.layer_us[1] = 1500;
    measured_fleet_report(&f);
    assert_non_null(study(&f));
    assert_non_null(study_later(&f));
    assert_true(proposes(&f, &plan));
    lh_candidates fewer = measured_fleet_candidates(&f);
    fewer.count = 1;
    assert_false(lh_live_planner_proposes(&f.planner, &f.chain, &fewer, f.now_us, &plan));
    f.reports[1].instance = 2;
    register_report(f.registry, &f.reports[1], f.now_us);
    assert_false(proposes(&f, &plan));
    measured_fleet_destroy(&f);
}

/* Nothing is looked for without an aim, without rebalancing, or while the chain is young or down.
 */
static void there_is_a_time_for_it(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    const lh_goal goal = f.options.aim.goal;
    f.options.aim.goal = LH_GOAL_EVEN;
    assert_null(study(&f));
    f.options.aim.goal = goal;
    f.options.rebalance_delay_us = 0;
    assert_null(study(&f));
    f.options.rebalance_delay_us = DELAY_US;
    f.chain.state = LH_CHAIN_FORMING;
    assert_null(study(&f));
    f.chain.state = LH_CHAIN_READY;
    f.chain.ready_us = f.now_us - 1;
    assert_null(study(&f));
    f.chain.ready_us = f.now_us - DELAY_US;
    assert_non_null(study(&f));
    measured_fleet_destroy(&f);
}

/* A stage that has not measured anything, of which the machine's start said nothing either. */
static void what_is_not_measured_is_not_planned(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    f.planner.speeds.count = 0;
    assert_null(study(&f));
    measured_fleet_report(&f);
    assert_null(study(&f)); /* not so soon */
    assert_non_null(study_later(&f));
    measured_fleet_destroy(&f);
}

/* It may be as good as any: nobody knows. */
static void a_chain_over_an_unknown_link_is_left_alone(void **state) {
    (void)state;
    measured_fleet f;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "east", 1000);
    measured_fleet_add(&f, "b", "west", 1000);
    measured_fleet_link(&f, "home", "east", 125, 2 * MS);
    measured_fleet_link(&f, "home", "west", 125, 2 * MS);
    measured_fleet_serve(&f, 2, a_b, halves);
    assert_null(study(&f));
    measured_fleet_link(&f, "east", "west", 125, 2 * MS);
    assert_non_null(study_later(&f));
    measured_fleet_destroy(&f);
}

/* After enough of them have ended, and again when they have become others. */
static void the_aim_is_for_requests_as_they_are(void **state) {
    (void)state;
    measured_fleet f;
    create(&f);
    for (uint32_t i = 0; i + 1 < LH_REQUEST_MIX_MIN; i++)
        lh_request_mix_note(&f.planner.mix, 4000, 100, 3);
    assert_int_equal(study(&f)->aim.prompt_rows, f.options.aim.prompt_rows);
    lh_request_mix_note(&f.planner.mix, 4000, 100, 3);
    const lh_plan_study *found = study_later(&f);
    assert_non_null(found);
    assert_int_equal(found->aim.prompt_rows, 4000);
    assert_int_equal(found->aim.position, 4050);
    assert_int_equal(found->aim.sequences_max, 64); /* as the options say, at least */
    lh_request_mix_note(&f.planner.mix, 3000, 100, 3);
    assert_null(study_later(&f));
    for (int i = 0; i < 500; i++)
        lh_request_mix_note(&f.planner.mix, 500, 100, 100);
    found = study_later(&f);
    assert_non_null(found);
    assert_int_equal(found->aim.sequences_max, 100);
    measured_fleet_destroy(&f);
}

/* Neither the names nor who came first decides; here the same fleet under other names. */
static void names_change_nothing(void **state) {
    (void)state;
    double values[2];
    for (int turn = 0; turn < 2; turn++) {
        measured_fleet f;
        lh_log_set_level(LH_LOG_ERROR);
        measured_fleet_create(&f);
        f.options.aim.goal = LH_GOAL_TTFT;
        measured_fleet_add(&f, turn ? "z" : "a", turn ? "x" : "y", 700);
        measured_fleet_add(&f, turn ? "b" : "m", turn ? "y" : "x", 1900);
        measured_fleet_link_all(&f);
        const char *const names[] = {f.reports[0].name, f.reports[1].name};
        measured_fleet_serve(&f, 2, names, halves);
        values[turn] = study(&f)->plan.value;
        measured_fleet_destroy(&f);
    }
    assert_true(values[0] == values[1]);
}

/* ---- Teams ---- */

/* Four machines of one site, behind each other, for the sake of tokens. */
static void create_room(measured_fleet *f, double bytes_per_us, int64_t round_trip_us) {
    static const char *const names[] = {"a", "b", "c", "d"};
    static const uint32_t quarters[] = {0, 3, 6, 9};
    lh_log_set_level(LH_LOG_ERROR);
    measured_fleet_create(f);
    for (int i = 0; i < 4; i++)
        measured_fleet_add(f, names[i], "home", 4000);
    measured_fleet_let_join(f);
    measured_fleet_link(f, "home", "home", bytes_per_us, round_trip_us);
    measured_fleet_serve(f, 4, names, quarters);
}

static void machines_of_a_fast_network_compute_together(void **state) {
    (void)state;
    measured_fleet f;
    lh_layout plan;
    create_room(&f, 125, 100);
    const lh_plan_study *found = study(&f);
    assert_non_null(found);
    assert_int_equal(found->status, LH_OK);
    assert_true(found->plan.value * 3 < found->present_value);
    assert_int_equal(lh_plan_study_machine(found, "a"), lh_plan_study_machine(found, "d"));
    assert_non_null(study_later(&f));
    lh_candidates candidates = measured_fleet_candidates(&f);
    assert_true(lh_live_planner_proposes(&f.planner, &f.chain, &candidates, f.now_us, &plan));
    assert_int_equal(plan.stage_count, 1);
    assert_int_equal(candidates.count, 1);
    assert_int_equal(candidates.teams[0].follower_count, 3);
    assert_string_equal(candidates.workers[0]->report.name, "a");
    assert_string_equal(candidates.teams[0].followers[2]->report.name, "d");
    f.reports[2].instance = 7; /* one of them is another process now */
    register_report(f.registry, &f.reports[2], f.now_us);
    candidates = measured_fleet_candidates(&f);
    assert_false(lh_live_planner_proposes(&f.planner, &f.chain, &candidates, f.now_us, &plan));
    assert_int_equal(candidates.count, 4);
    measured_fleet_destroy(&f);
}

static void on_a_slow_network_they_stay_alone(void **state) {
    (void)state;
    measured_fleet f;
    create_room(&f, 12.5, 4 * MS);
    const lh_plan_study *found = study(&f);
    assert_non_null(found);
    assert_int_equal(found->status, LH_OK);
    for (uint32_t m = 0; m < found->map->map.machine_count; m++)
        assert_int_equal(found->map->teams[m].count, 1);
    measured_fleet_destroy(&f);
}

/* Two that compute together take longer than was believed, which their meter says: nobody knows
 * what each of them takes alone but by what they measured at their start. */
static void a_team_that_does_not_pay_is_dissolved(void **state) {
    (void)state;
    measured_fleet f;
    lh_layout plan;
    lh_log_set_level(LH_LOG_ERROR);
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "home", 4000);
    measured_fleet_add(&f, "b", "home", 4000);
    f.reports[0].speed = f.reports[1].speed = (lh_machine_speed){1000, 4000};
    measured_fleet_let_join(&f);
    measured_fleet_link(&f, "home", "home", 125, 100);
    measured_fleet_follow(&f, 0, "b");
    f.layer_us[0] = 2300;
    measured_fleet_serve(&f, 1, a_b, halves);
    const lh_plan_study *found = study(&f);
    assert_non_null(found);
    assert_int_equal(found->status, LH_OK);
    assert_true(lh_plan_study_is_content(found)); /* as was to be expected */
    f.layer_us[0] = 9000;
    measured_fleet_report(&f);
    found = study_later(&f);
    assert_non_null(found);
    assert_int_equal(found->status, LH_OK);
    assert_true(found->plan.value < found->present_value);
    assert_non_null(study_later(&f));
    lh_candidates candidates = measured_fleet_candidates(&f);
    assert_true(lh_live_planner_proposes(&f.planner, &f.chain, &candidates, f.now_us, &plan));
    assert_int_equal(candidates.count, 2);
    measured_fleet_destroy(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_chain_is_left_alone),
        cmocka_unit_test(the_split_follows_the_meters),
        cmocka_unit_test(a_single_bad_sample_moves_nothing),
        cmocka_unit_test(the_order_follows_the_links),
        cmocka_unit_test(a_machine_that_brings_nothing_is_left_out),
        cmocka_unit_test(a_site_without_links_is_said),
        cmocka_unit_test(a_plan_of_the_gone_is_none),
        cmocka_unit_test(there_is_a_time_for_it),
        cmocka_unit_test(what_is_not_measured_is_not_planned),
        cmocka_unit_test(a_chain_over_an_unknown_link_is_left_alone),
        cmocka_unit_test(the_aim_is_for_requests_as_they_are),
        cmocka_unit_test(names_change_nothing),
        cmocka_unit_test(machines_of_a_fast_network_compute_together),
        cmocka_unit_test(on_a_slow_network_they_stay_alone),
        cmocka_unit_test(a_team_that_does_not_pay_is_dissolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
