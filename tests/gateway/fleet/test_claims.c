/* Which workers are believed, and how far, by what steps of their chain take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/fleet/claims.h"
#include "tests/gateway/support/worker_reports.h"

#include <math.h>
#include <string.h>

#define S 1000000 /* microseconds */

/* Four layers of 100 bytes; the head has none. Hops take no time worth mentioning. */
typedef struct bench {
    lh_claims claims;
    lh_claim_review review;
    lh_registry *registry;
    lh_chain chain;
    lh_cost_chain costs;
    int64_t now_us;
} bench;

static bench b;

/* For each of its layers: what it says that its steps take, and its machine. */
static void add_stage(const char *name, uint32_t first, uint32_t last, double layer_us,
                      double machine_us) {
    uint32_t i = b.chain.stage_count++, layers = last - first;
    lh_chain_stage *stage = &b.chain.stages[i];
    lh_worker_report report = report_of(name);
    strcpy(stage->name, name);
    stage->first_layer = first;
    stage->last_layer = last;
    report.speed = (lh_machine_speed){machine_us, machine_us};
    register_report(b.registry, &report, 0);
    b.costs.stages[i] = (lh_compute_profile){
        .point_count = 2, .points = {{1, layer_us * layers}, {16, 16 * layer_us * layers}}};
    b.costs.stage_count = i + 1;
    for (uint32_t h = 0; h <= i + 1; h++)
        b.costs.hops[h] = (lh_cost_hop){.bytes_per_us = 1e6, .delay_us = 0.1, .step_bytes = 1};
}

static int begin(void **state) {
    (void)state;
    memset(&b, 0, sizeof b);
    lh_log_set_level(LH_LOG_ERROR);
    b.costs.width = 576;
    b.chain.epoch = 7;
    return lh_registry_create(3 * S, &b.registry, NULL) != LH_OK;
}

static int end(void **state) {
    (void)state;
    lh_registry_destroy(b.registry);
    return 0;
}

/* So many steps, in as many seconds, of which the least took `times` as long as predicted. */
static void take_steps(uint32_t count, double times) {
    const lh_claim_view view = {&b.chain, b.registry, &four_layers, &b.costs};
    for (uint32_t i = 0; i < count; i++, b.now_us += S)
        lh_claims_note_step(&b.claims, &b.review, &view, i == 3 ? times : 3 * times, b.now_us);
}

static void assert_steps(const char *worker, double steps) {
    const lh_claim *claim = lh_claims_find(&b.claims, worker);
    assert_true(fabs((claim ? claim->steps : 1) - steps) < 0.01 * steps);
}

/* Three layers at 50 us and one at 500 are said, and all take 500. */
static void who_claims_most_is_believed_least(void **state) {
    (void)state;
    add_stage("a", 0, 3, 50, 10);
    add_stage("b", 3, 4, 500, 100);
    take_steps(LH_CLAIMS_STEPS - 1, 2000.0 / 650);
    assert_null(lh_claims_find(&b.claims, "a"));
    take_steps(1, 2000.0 / 650);
    assert_steps("a", 10);
    assert_null(lh_claims_find(&b.claims, "b"));
}

static void what_is_nearly_right_is_believed(void **state) {
    (void)state;
    add_stage("a", 0, 3, 50, 10);
    add_stage("b", 3, 4, 500, 100);
    take_steps(LH_CLAIMS_STEPS, 1.45);
    assert_int_equal(b.claims.count, 0);
}

/* By those that took longer nobody is judged, nor by those of another epoch. */
static void all_steps_of_a_review_are_of_one_epoch(void **state) {
    (void)state;
    add_stage("a", 0, 4, 50, 10);
    take_steps(LH_CLAIMS_STEPS - 1, 10);
    b.chain.epoch++;
    take_steps(LH_CLAIMS_STEPS - 1, 10);
    assert_int_equal(b.claims.count, 0);
}

/* Each review says anew how far. */
static void who_turns_out_to_be_faster_is_believed_more(void **state) {
    (void)state;
    add_stage("a", 0, 4, 50, 10);
    take_steps(LH_CLAIMS_STEPS, 8);
    assert_steps("a", 8);
    take_steps(LH_CLAIMS_STEPS, 7); /* nearly the same */
    assert_steps("a", 8);
    take_steps(LH_CLAIMS_STEPS, 3);
    assert_steps("a", 3);
    take_steps(LH_CLAIMS_STEPS, 1.1);
    assert_steps("a", 1);
    assert_true(lh_claims_times(&b.claims, "a") == 1 && lh_claims_times(&b.claims, "c") == 1);
    take_steps(LH_CLAIMS_STEPS, 1e6);
    assert_steps("a", 100);
    assert_true(lh_claims_times(&b.claims, "a") == 100 && lh_claims_times(NULL, "a") == 1);
}

static void a_machine_is_compared_with_its_stage_and_with_others(void **state) {
    (void)state;
    add_stage("a", 0, 2, 500, 100);
    add_stage("b", 2, 4, 500, 10);
    take_steps(LH_CLAIMS_STEPS, 1);
    assert_int_equal(b.claims.count, 0); /* once may be chance */
    take_steps(LH_CLAIMS_STEPS, 1);
    const lh_claim *claim = lh_claims_find(&b.claims, "b");
    assert_null(lh_claims_find(&b.claims, "a"));
    assert_true(claim->steps == 1);
    assert_true(fabs(claim->token - 10) < 0.1 && fabs(claim->prompt - 10) < 0.1);
}

/* Its stage was calibrated when nothing else ran there, and says what it takes now. Others are not
 * compared with what theirs took then. */
static void a_machine_that_is_busy_now_has_told_no_lie(void **state) {
    (void)state;
    add_stage("a", 0, 2, 500, 100);
    add_stage("b", 2, 4, 5000, 100);
    b.costs.stages[1].calibrated_times = 10;
    for (int i = 0; i < 3; i++)
        take_steps(LH_CLAIMS_STEPS, 1);
    assert_int_equal(b.claims.count, 0);
    b.costs.stages[1].calibrated_times = 1;
    b.costs.stages[0].calibrated_times = 10;
    take_steps(LH_CLAIMS_STEPS, 1);
    take_steps(LH_CLAIMS_STEPS, 1);
    assert_null(lh_claims_find(&b.claims, "a"));
    assert_true(fabs(lh_claims_find(&b.claims, "b")->token - 10) < 0.1);
}

/* A machine was busy when its stage last computed many rows. */
static void a_disturbed_prompt_shows_no_lie(void **state) {
    (void)state;
    add_stage("a", 0, 2, 500, 100);
    add_stage("b", 2, 4, 500, 100);
    b.costs.stages[1].points[1].us *= 10;
    take_steps(LH_CLAIMS_STEPS, 1);
    take_steps(LH_CLAIMS_STEPS, 1);
    assert_int_equal(b.claims.count, 0);
}

/* The team's steps say nothing of one of its members. */
static void chains_with_teams_are_left_alone(void **state) {
    (void)state;
    add_stage("a", 0, 4, 50, 10);
    b.chain.stages[0].team.follower_count = 1;
    take_steps(LH_CLAIMS_STEPS, 10);
    assert_int_equal(b.claims.count, 0);
}

static void both_speeds_of_a_machine_are_corrected(void **state) {
    (void)state;
    lh_machine_speed speed = {10, 20};
    lh_claim_correct(&(lh_claim){.steps = 2, .token = 3, .prompt = 5}, &speed);
    assert_true(speed.prompt_us == 100 && speed.token_us == 120);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_claims_most_is_believed_least, begin, end),
        cmocka_unit_test_setup_teardown(what_is_nearly_right_is_believed, begin, end),
        cmocka_unit_test_setup_teardown(all_steps_of_a_review_are_of_one_epoch, begin, end),
        cmocka_unit_test_setup_teardown(who_turns_out_to_be_faster_is_believed_more, begin, end),
        cmocka_unit_test_setup_teardown(a_machine_is_compared_with_its_stage_and_with_others, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_machine_that_is_busy_now_has_told_no_lie, begin, end),
        cmocka_unit_test_setup_teardown(a_disturbed_prompt_shows_no_lie, begin, end),
        cmocka_unit_test_setup_teardown(chains_with_teams_are_left_alone, begin, end),
        cmocka_unit_test(both_speeds_of_a_machine_are_corrected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
