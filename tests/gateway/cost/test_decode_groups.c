/* The choice of groups against closed forms, and against a pipe that is simulated step by step. */
#include "gateway/cost/decode_groups.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ROWS_MAX  512u
#define COUNT_MAX 64u

/* Stages that take step_us + rows * row_us, and delays between them. */
static lh_cost_chain chain_of(uint32_t stages, double step_us, double row_us, double delay_us) {
    lh_cost_chain chain = {.stage_count = stages, .width = 512};
    for (uint32_t s = 0; s < stages; s++)
        chain.stages[s] = (lh_compute_profile){
            .point_count = 2, .points = {{1, step_us + row_us}, {512, step_us + 512 * row_us}}};
    for (uint32_t h = 0; h <= stages; h++)
        chain.hops[h] = (lh_cost_hop){.bytes_per_us = 1000, .delay_us = delay_us};
    assert_int_equal(lh_cost_chain_check(&chain, NULL), LH_OK);
    return chain;
}

static uint32_t count_for(const lh_cost_chain *chain, uint32_t sequences) {
    return lh_decode_groups_choose(chain, 0, sequences, COUNT_MAX, ROWS_MAX).count;
}

/* The mean time between two tokens of a sequence: groups go around as soon as they are back, each
 * stage takes them in the order in which they come. */
static double simulate(const lh_cost_chain *chain, uint32_t sequences, uint32_t count) {
    enum { TURNS = 200 };
    double back_us[COUNT_MAX] = {0}, free_us[LH_COST_STAGES_MAX] = {0}, begin_us = 0;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (turn == TURNS / 2)
            begin_us = back_us[0];
        for (uint32_t g = 0; g < count; g++) {
            uint32_t rows = sequences / count + (g < sequences % count);
            double at_us = back_us[g] + chain->hops[0].delay_us;
            for (uint32_t s = 0; s < chain->stage_count; s++) {
                at_us = (at_us > free_us[s] ? at_us : free_us[s]) +
                        lh_cost_stage_us(&chain->stages[s], 0, rows);
                free_us[s] = at_us;
                at_us += chain->hops[s + 1].delay_us;
            }
            back_us[g] = at_us;
        }
    }
    return (back_us[0] - begin_us) / (TURNS / 2.0);
}

static void one_sequence_is_one_group(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(3, 1000, 100, 40000);
    lh_decode_groups groups = lh_decode_groups_choose(&chain, 0, 1, COUNT_MAX, ROWS_MAX);
    assert_int_equal(groups.count, 1);
    assert_true(fabs(groups.period_us - (3 * 1100 + 4 * 40000)) < 1e-6);
}

/* Nothing to hide: one step reads the weights once. */
static void one_stage_beside_the_gateway_takes_all_at_once(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(1, 2000, 100, 10);
    for (uint32_t sequences = 2; sequences <= 64; sequences *= 2)
        assert_int_equal(count_for(&chain, sequences), 1);
}

/* Where rows cost nothing a second step costs as much as the ring is shorter; where only rows count
 * there is no price for more steps, and all of the ring is hidden. */
static void steps_that_cost_the_same_are_few(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 5000, 0.01, 0);
    for (uint32_t sequences = 4; sequences <= 256; sequences *= 2)
        assert_int_equal(count_for(&chain, sequences), 1);
    chain = chain_of(2, 0.01, 1000, 0);
    for (uint32_t sequences = 16; sequences <= 256; sequences *= 2)
        assert_in_range(count_for(&chain, sequences), 3, 4);
}

/* Little's law: as many steps as the ring holds. */
static void long_rings_hold_many_steps(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 10, 1000, 0);
    uint32_t before = 0;
    for (double delay_us = 0; delay_us <= 80000; delay_us += 10000) {
        for (uint32_t h = 0; h <= 2; h++)
            chain.hops[h].delay_us = delay_us;
        uint32_t count = count_for(&chain, 256);
        assert_true(count >= before);
        before = count;
    }
    assert_true(before > 3);
    assert_int_equal(lh_decode_groups_choose(&chain, 0, 256, 2, ROWS_MAX).count, 2);
}

/* What a step may hold at most makes a least number of groups. */
static void a_step_holds_so_many_rows(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(1, 2000, 100, 10);
    assert_int_equal(lh_decode_groups_choose(&chain, 0, 100, COUNT_MAX, 30).count, 4);
    assert_int_equal(lh_decode_groups_choose(&chain, 0, 100, 2, 30).count, 2);
}

/* No other number is much faster in the pipe itself, and the period is what that pipe does, but for
 * the slack. */
static void no_other_number_is_clearly_faster(void **state) {
    (void)state;
    static const double steps_us[] = {100, 2000, 8000}, rows_us[] = {20, 400},
                        delays_us[] = {50, 5000, 40000};
    static const uint32_t counts[] = {1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 64};
    for (uint32_t i = 0; i < 3 * 2 * 3 * 3; i++) {
        uint32_t stages = 1 + i / 18;
        lh_cost_chain chain =
            chain_of(stages, steps_us[i % 3], rows_us[i / 3 % 2], delays_us[i / 6 % 3]);
        for (uint32_t sequences = 4; sequences <= 64; sequences *= 4) {
            lh_decode_groups groups =
                lh_decode_groups_choose(&chain, 0, sequences, COUNT_MAX, ROWS_MAX);
            double mine_us = simulate(&chain, sequences, groups.count);
            for (uint32_t c = 0; c < sizeof counts / sizeof counts[0] && counts[c] <= sequences;
                 c++)
                if (mine_us > 1.13 * simulate(&chain, sequences, counts[c]))
                    fail_msg("%u stages, %u sequences: %u groups take %g us, %u take %g", stages,
                             sequences, groups.count, mine_us, counts[c],
                             simulate(&chain, sequences, counts[c]));
            if (fabs(mine_us / groups.period_us - 1) > 0.13)
                fail_msg("%u stages, %u sequences, %u groups: %g us, not %g", stages, sequences,
                         groups.count, mine_us, groups.period_us);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_sequence_is_one_group),
        cmocka_unit_test(one_stage_beside_the_gateway_takes_all_at_once),
        cmocka_unit_test(steps_that_cost_the_same_are_few),
        cmocka_unit_test(long_rings_hold_many_steps),
        cmocka_unit_test(a_step_holds_so_many_rows),
        cmocka_unit_test(no_other_number_is_clearly_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
