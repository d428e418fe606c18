/* The cost model against closed forms, and with numbers that no machine has. */
#include "gateway/cost/cost_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define WIDTH 512u

static lh_cost_work work;

/* Stages of row_us for each row; hops between workers of row_us of wire for each row; no delay. */
static lh_cost_chain chain_of(uint32_t stages, double stage_row_us, double wire_row_us) {
    lh_cost_chain chain = {.stage_count = stages, .width = WIDTH};
    for (uint32_t s = 0; s < stages; s++)
        chain.stages[s] = (lh_compute_profile){
            .point_count = 2, .points = {{1, stage_row_us}, {512, 512 * stage_row_us}}};
    for (uint32_t h = 0; h <= stages; h++)
        chain.hops[h] =
            (lh_cost_hop){.bytes_per_us = 1, .row_bytes = h > 0 && h < stages ? wire_row_us : 0};
    assert_int_equal(lh_cost_chain_check(&chain, NULL), LH_OK);
    return chain;
}

static double predict(const lh_cost_chain *chain, uint32_t count, uint32_t length,
                      const lh_step_cut *cuts, uint32_t depth) {
    uint32_t rows[LH_COST_CHUNKS_MAX];
    for (uint32_t i = 0; i < count; i++)
        rows[i] = length;
    return lh_cost_predict_us(
        chain, &(lh_cost_schedule){.count = count, .rows = rows, .cuts = cuts, .depth = depth},
        &work);
}

static void assert_near(double value, double expected) {
    if (fabs(value - expected) > 1e-6 * fabs(expected))
        fail_msg("%.9g is not %.9g", value, expected);
}

/* n chunks through m equal parts take (n + m - 1) / n of what one part takes for all. */
static void balanced_parts_take_turns(void **state) {
    (void)state;
    for (uint32_t stages = 1; stages <= 4; stages++) {
        lh_cost_chain chain = chain_of(stages, 10, 10);
        uint32_t parts = 2 * stages - 1;
        for (uint32_t n = 1; n <= 64; n *= 2)
            assert_near(predict(&chain, n, 512 / n, NULL, 0), 5120.0 * (n + parts - 1) / n);
    }
}

static void the_slowest_part_rules(void **state) {
    (void)state;
    lh_cost_chain wire_bound = chain_of(2, 1, 100), compute_bound = chain_of(3, 10, 0.5);
    compute_bound.stages[1].points[1].us *= 7;
    compute_bound.stages[1].points[0].us *= 7;
    /* the first chunk's way to the slow part, all on the slow part, the last chunk's way from it */
    assert_near(predict(&wire_bound, 8, 64, NULL, 0), 64 * 1 + 512 * 100 + 64 * 1);
    assert_near(predict(&compute_bound, 8, 64, NULL, 0), 64 * 10.5 + 512 * 70 + 64 * 10.5);
}

static void delays_are_added_once(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(3, 10, 0);
    double without = predict(&chain, 8, 64, NULL, 0);
    for (uint32_t h = 0; h <= 3; h++)
        chain.hops[h].delay_us = 40000;
    assert_near(predict(&chain, 8, 64, NULL, 0), without + 4 * 40000);
    /* one chunk at a time pays them each time */
    assert_near(predict(&chain, 8, 64, NULL, 1), 8 * (3 * 640 + 4 * 40000));
    assert_near(predict(&chain, 8, 64, NULL, 8), without + 4 * 40000);
}

static void what_each_step_and_byte_costs(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 10, 4);
    chain.stages[0].step_us = 100;
    chain.stages[1].step_us = 200;
    chain.stages[1].draw_us = 1000;
    chain.hops[0].step_bytes = 50;
    chain.hops[0].step_row_bytes = chain.hops[0].draw_bytes = 4;
    chain.hops[1].step_bytes = 60;
    chain.hops[1].shard_bytes = 40;
    chain.hops[2].step_bytes = 70;
    chain.hops[1].bytes_per_us = 2;
    /* the second hop's manifest is gone while the first stage computes */
    assert_near(predict(&chain, 1, 100, NULL, 0),
                450 + (100 + 1000) + (40 + 400) / 2 + (200 + 1000 + 1000) + 70);
    assert_near(lh_cost_off_us(&chain, 0, 100, 512),
                450 + (100 + 1000) + (60 + 40 + 400) / 2 + (200 + 1000 + 1000) + 70);
    assert_near(lh_cost_bound_us(&chain, 0, 100), 2200);
    assert_near(lh_cost_decode_step(&chain, 0, 1).ring_us,
                54 + 110 + (60 + 40 + 4) / 2 + 210 + 1000 + 70);
}

/* Sequences that draw together: each attends to its own past alone, and they share the pass over
 * the head. */
static void a_decode_step_is_not_a_chunk(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 10, 4);
    chain.stages[0].us_per_row_position = 0.5;
    chain.stages[1].draw_us = 100;
    chain.stages[1].draw_more_us = 7;
    chain.stages[1].step_us = 30;
    for (uint32_t h = 0; h <= 2; h++) {
        chain.hops[h].delay_us = 1000;
        chain.hops[h].draw_bytes = h < 2 ? 84 : 32;
        chain.hops[h].bytes_per_us = 2;
    }
    chain.hops[1].shard_bytes = 40;
    lh_cost_step step = lh_cost_decode_step(&chain, 100, 8);
    double first = 80 + 0.5 * 8 * 100, second = 80 + 30 + 100 + 7 * 7,
           wire = (84 * 8 + 40 + 4 * 8) / 2.0;
    assert_near(step.busiest_us, first);
    assert_near(step.ring_us, 84 * 8 / 2.0 + first + wire + second + 32 * 8 / 2.0 + 3000);
    chain.hops[1].bytes_per_us = 0.5;
    assert_near(lh_cost_decode_step(&chain, 100, 8).busiest_us, wire * 4);
}

/* Rows attend to all before them: the sum does not depend on the cut. */
static void attention_grows_with_the_position(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(1, 10, 0);
    chain.stages[0].us_per_row_position = 0.01;
    double attention = 0.01 * 512 * 511 / 2;
    assert_near(predict(&chain, 1, 512, NULL, 0), 5120 + attention);
    assert_near(predict(&chain, 8, 64, NULL, 0), 5120 + attention);
    assert_near(lh_cost_stage_us(&chain.stages[0], 1000, 10), 100 + 0.01 * (10 * 1000 + 45));
}

/* K column shards: the first leaves after 1 / K of the last product, and is taken while the others
 * travel. */
static void columns_overlap_inside_a_step(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 10, 10);
    chain.stages[0].give_share = chain.stages[1].take_share = 0.25;
    double whole = predict(&chain, 1, 100, NULL, 0);
    assert_near(whole, 3000);
    for (uint32_t k = 2; k <= 8; k *= 2) {
        lh_step_cut cut = {.count = k};
        for (uint32_t i = 0; i < k; i++)
            cut.ends[i] = WIDTH * (i + 1) / k;
        /* wire after the first shard is given; the last shard is taken after it has come */
        double expected = 750 + 250.0 / k + 1000 + 250.0 / k + 750;
        assert_near(predict(&chain, 1, 100, &cut, 0), expected);
        chain.stages[0].shard_us = 5000; /* dear ones wait for each other */
        assert_true(predict(&chain, 1, 100, &cut, 0) >= whole);
        chain.stages[0].shard_us = 0;
    }
}

static void cold_connections_open_their_window(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(2, 0.001, 1000);
    chain.hops[1].bytes_per_us = 100;
    chain.hops[1].delay_us = 50000; /* it holds 10 MB */
    double warm = predict(&chain, 1, 1000, NULL, 0);
    assert_near(warm, 1 + 10000 + 50000 + 1);
    chain.hops[1].ready_bytes = 20000000;
    assert_near(predict(&chain, 1, 1000, NULL, 0), warm);
    /* 1 MB from a window of 100 kB: 100 + 200 + 400 in three round trips, and 300 in the fourth */
    chain.hops[1].ready_bytes = 100000;
    assert_near(predict(&chain, 1, 1000, NULL, 0), 1 + 3 * 100000 + 3000 + 50000 + 1);
    /* never faster with a smaller window */
    double before = 0;
    for (double window = 1e7; window >= 1000; window /= 2) {
        chain.hops[1].ready_bytes = window;
        double now = predict(&chain, 10, 100, NULL, 0);
        assert_true(now >= before);
        before = now;
    }
}

/* Points are joined by lines; beyond the last one the last line goes on. */
static void profiles_are_lines(void **state) {
    (void)state;
    lh_compute_profile stage = {.point_count = 3, .points = {{1, 100}, {10, 1000}, {20, 1500}}};
    assert_near(lh_cost_stage_us(&stage, 0, 1), 100);
    assert_near(lh_cost_stage_us(&stage, 0, 4), 400);
    assert_near(lh_cost_stage_us(&stage, 0, 15), 1250);
    assert_near(lh_cost_stage_us(&stage, 0, 40), 2500);
    stage.points[2].us = 900; /* noise: never less than what was measured */
    assert_near(lh_cost_stage_us(&stage, 0, 1000), 900);
    stage.point_count = 1;
    assert_near(lh_cost_stage_us(&stage, 0, 7), 700);
}

/* xorshift64* */
static uint64_t dice = 88172645463325252u;
static uint32_t below(uint32_t limit) {
    dice ^= dice >> 12;
    dice ^= dice << 25;
    dice ^= dice >> 27;
    return (uint32_t)((dice * 2685821657736338717u) >> 33) % limit;
}

/* Times that make no sense together, as after a bad sample: fewer rows that take longer, too. */
static lh_cost_chain wild_chain(void) {
    lh_cost_chain chain = chain_of(1 + below(5), 1, 1);
    for (uint32_t s = 0; s < chain.stage_count; s++) {
        lh_compute_profile *p = &chain.stages[s];
        p->point_count = 1 + below(6);
        for (uint32_t i = 0, rows = 0; i < p->point_count; i++) {
            rows += 1 + below(200);
            p->points[i] =
                (lh_compute_point){.rows = rows, .us = below(1000) * (below(5) ? 10.0 : 1e4)};
        }
        p->us_per_row_position = below(100) / 1000.0;
        p->step_us = below(1000);
        p->shard_us = below(100);
        p->draw_us = below(5000);
        p->take_share = below(50) / 100.0;
        p->give_share = below(50) / 100.0;
    }
    for (uint32_t h = 0; h <= chain.stage_count; h++) {
        lh_cost_hop *hop = &chain.hops[h];
        hop->bytes_per_us = (1 + below(1000)) / 10.0;
        hop->delay_us = below(50000);
        hop->ready_bytes = below(3) ? 0 : below(1000000);
        hop->step_bytes = below(200);
        hop->step_row_bytes = below(10);
        hop->row_bytes = h > 0 && h < chain.stage_count ? below(5000) : 0;
        hop->shard_bytes = below(100);
    }
    assert_int_equal(lh_cost_chain_check(&chain, NULL), LH_OK);
    return chain;
}

static void no_cut_beats_the_bound(void **state) {
    (void)state;
    uint32_t below_one_chunk = 0;
    for (uint32_t n = 0; n < 20000; n++) {
        lh_cost_chain chain = wild_chain();
        uint32_t rows[64], sum = 0, position = below(2) ? 0 : below(4000);
        lh_cost_schedule schedule = {.position = position,
                                     .count = 1 + below(below(2) ? 64 : 8),
                                     .rows = rows,
                                     .depth = below(4) ? 0 : 1 + below(8)};
        for (uint32_t c = 0, length = 1 + below(300); c < schedule.count; c++) {
            rows[c] = below(3) ? length : 1 + below(300);
            sum += rows[c];
        }
        lh_step_cut cuts[LH_COST_STAGES_MAX];
        for (uint32_t h = 0; h < chain.stage_count; h++) {
            cuts[h].count = below(5);
            for (uint32_t i = 0; i < cuts[h].count; i++)
                cuts[h].ends[i] = WIDTH * (i + 1) / cuts[h].count;
        }
        schedule.cuts = cuts;
        double bound = lh_cost_bound_us(&chain, position, sum);
        assert_true(lh_cost_predict_us(&chain, &schedule, &work) >= bound * 0.999999999);
        assert_true(lh_cost_off_us(&chain, position, sum, 1 + below(500)) >= bound * 0.999999999);
        below_one_chunk += bound < lh_cost_busiest_us(&chain, position, sum);
    }
    assert_true(below_one_chunk > 100); /* where one chunk is no bound */
}

static void impossible_numbers_are_refused(void **state) {
    (void)state;
    const double bad[] = {NAN, INFINITY, -INFINITY, -1, 1e300};
    lh_error error;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lh_cost_chain good = chain_of(3, 1, 1), chain;
        double *const places[] = {
            &chain.stages[1].points[1].us, &chain.stages[0].us_per_row_position,
            &chain.stages[2].take_share,   &chain.stages[2].give_share,
            &chain.stages[1].shard_us,     &chain.stages[1].step_us,
            &chain.stages[2].draw_us,      &chain.stages[2].draw_more_us,
            &chain.hops[0].bytes_per_us,   &chain.hops[3].delay_us,
            &chain.hops[1].ready_bytes,    &chain.hops[1].step_bytes,
            &chain.hops[1].step_row_bytes, &chain.hops[1].row_bytes,
            &chain.hops[1].draw_bytes,     &chain.hops[1].shard_bytes};
        for (size_t j = 0; j < sizeof places / sizeof places[0]; j++) {
            chain = good;
            *places[j] = bad[i];
            assert_int_equal(lh_cost_chain_check(&chain, &error), LH_ERR_INVALID);
        }
    }
    lh_cost_chain chain = chain_of(2, 1, 1);
    chain.stages[1].points[1].rows = 1; /* not ascending */
    assert_int_equal(lh_cost_chain_check(&chain, &error), LH_ERR_INVALID);
    chain.stages[1].point_count = LH_COMPUTE_POINTS_MAX + 1;
    assert_int_equal(lh_cost_chain_check(&chain, &error), LH_ERR_INVALID);
    chain.stages[1].point_count = 0;
    assert_int_equal(lh_cost_chain_check(&chain, &error), LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.message, "stage 1"));
    chain = chain_of(2, 1, 1);
    chain.hops[2].bytes_per_us = 0;
    assert_int_equal(lh_cost_chain_check(&chain, &error), LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.message, "hop 2"));
    chain.stage_count = LH_COST_STAGES_MAX + 1;
    assert_int_equal(lh_cost_chain_check(&chain, &error), LH_ERR_UNAVAILABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_parts_take_turns),
        cmocka_unit_test(the_slowest_part_rules),
        cmocka_unit_test(delays_are_added_once),
        cmocka_unit_test(what_each_step_and_byte_costs),
        cmocka_unit_test(a_decode_step_is_not_a_chunk),
        cmocka_unit_test(attention_grows_with_the_position),
        cmocka_unit_test(columns_overlap_inside_a_step),
        cmocka_unit_test(cold_connections_open_their_window),
        cmocka_unit_test(profiles_are_lines),
        cmocka_unit_test(no_cut_beats_the_bound),
        cmocka_unit_test(impossible_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
