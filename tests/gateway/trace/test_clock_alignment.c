/* Clocks that are skewed and drift, joined by hops whose queues delay one direction more than the
 * other: what is found must hold the truth within its error, and nothing may come before it has
 * left. */
#include "gateway/trace/clock_alignment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* True time in microseconds to a clock's own. */
typedef struct clock_model {
    int64_t skew_us;
    double rate;
} clock_model;

static int64_t read_clock(clock_model clock, int64_t true_us) {
    return clock.skew_us + (int64_t)((double)true_us * clock.rate);
}

static uint32_t seed;

static int64_t draw(int64_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (int64_t)(seed >> 8) % below;
}

static void test_nothing_is_known_at_first(void **state) {
    (void)state;
    lh_clock_hop hop = {0};
    lh_clock_bounds bounds;
    assert_false(lh_clock_hop_at(&hop, 5, &bounds));
    lh_clock_hop_forth(&hop, 1000, 900);
    assert_false(lh_clock_hop_at(&hop, 1000, &bounds)); /* only from one side */
    lh_clock_hop_back(&hop, 1100, 1300);
    assert_true(lh_clock_hop_at(&hop, 1300, &bounds));
    assert_int_equal(bounds.lowest_us, -200);
    assert_int_equal(bounds.highest_us, -100);
}

static void test_the_least_delay_wins(void **state) {
    (void)state;
    lh_clock_hop hop = {0};
    lh_clock_bounds bounds;
    /* The far clock is 5000 ahead, the way takes 100 in each direction, queues add to it. */
    lh_clock_hop_forth(&hop, 0, 5000 + 100 + 90000);
    lh_clock_hop_forth(&hop, 200000, 5000 + 200000 + 100);
    lh_clock_hop_forth(&hop, 300000, 5000 + 300000 + 100 + 7000);
    lh_clock_hop_back(&hop, 5000 + 95200, 95200 + 100 + 800);
    lh_clock_hop_back(&hop, 5000 + 400000, 400000 + 100);
    assert_true(lh_clock_hop_at(&hop, 300000, &bounds));
    assert_in_range(bounds.highest_us, 5100, 5130); /* a little looser for its age */
    assert_in_range(bounds.lowest_us, 4870, 4900);
}

static void test_bounds_loosen_with_age_and_are_renewed(void **state) {
    (void)state;
    lh_clock_hop hop = {0};
    lh_clock_bounds fresh, old;
    lh_clock_hop_forth(&hop, 0, 1100);
    lh_clock_hop_back(&hop, 1000, 100);
    assert_true(lh_clock_hop_at(&hop, 0, &fresh));
    assert_true(lh_clock_hop_at(&hop, 10000000, &old));
    assert_int_equal(old.highest_us - fresh.highest_us, 1000); /* 100 ppm of ten seconds */
    for (int64_t s = 1; s < 3 * LH_CLOCK_SLICES; s++) {        /* older slices are forgotten */
        lh_clock_hop_forth(&hop, s * 1000000, s * 1000000 + 2100);
        lh_clock_hop_back(&hop, s * 1000000 + 2000, s * 1000000 + 100);
    }
    int64_t now_us = (3 * LH_CLOCK_SLICES - 1) * 1000000;
    assert_true(lh_clock_hop_at(&hop, now_us, &fresh));
    assert_in_range(fresh.lowest_us, 1890, 1910);
    lh_clock_hop_forth(&hop, 0, 0); /* of a slice that has gone: ignored */
    assert_true(lh_clock_hop_at(&hop, now_us, &old));
    assert_memory_equal(&fresh, &old, sizeof(fresh));
}

static void test_a_contradiction_gives_the_middle(void **state) {
    (void)state;
    lh_clock_hop hop = {0};
    lh_clock_bounds bounds;
    lh_clock_hop_forth(&hop, 0, 100);
    lh_clock_hop_back(&hop, 300, 100);
    assert_true(lh_clock_hop_at(&hop, 0, &bounds));
    assert_int_equal(bounds.lowest_us, 100);
    assert_int_equal(bounds.highest_us, 200);
}

#define HOPS 4u

/* Steps once every 50 ms round a ring: the first direction waits for up to 60 ms in queues, answers
 * for up to 2. */
static void run_ring(const clock_model *clocks, lh_clock_hop *hops, const int64_t *delays,
                     int64_t until_us) {
    for (int64_t at_us = 0; at_us < until_us; at_us += 50000) {
        int64_t left_us = at_us;
        for (uint32_t i = 0; i < HOPS; i++) {
            const clock_model *near = &clocks[i], *far = &clocks[(i + 1) % HOPS];
            int64_t came_us = left_us + delays[i] + draw(60000) * (at_us % 400000 != 0);
            lh_clock_hop_forth(&hops[i], read_clock(*near, left_us), read_clock(*far, came_us));
            int64_t answered_us = came_us + 9000, heard_us = answered_us + delays[i] + draw(2000);
            lh_clock_hop_back(&hops[i], read_clock(*far, answered_us), read_clock(*near, heard_us));
            left_us = came_us + 3000;
        }
    }
}

static void test_a_ring_of_skewed_clocks_that_drift(void **state) {
    (void)state;
    static const clock_model clocks[HOPS] = {
        {0, 1}, {7000000000, 1.00004}, {-123456, 0.99997}, {99, 1.00002}};
    static const int64_t delays[HOPS] = {500, 40000, 10000, 20000};
    lh_clock_hop hops[HOPS] = {0};
    lh_clock_offset found[HOPS];
    seed = 7;
    run_ring(clocks, hops, delays, 20000000);
    for (int64_t at_us = 0; at_us < 20000000; at_us += 700000) {
        lh_clock_ring_align(hops, HOPS, at_us, found);
        assert_int_equal(found[0].offset_us, 0);
        assert_int_equal(found[0].error_us, 0);
        for (uint32_t i = 1; i < HOPS; i++) {
            int64_t truth = read_clock(clocks[i], at_us) - at_us,
                    wrong = llabs(found[i].offset_us - truth);
            assert_true(found[i].error_us >= 0);
            assert_true(wrong <= found[i].error_us + 1);
            /* queues in one direction do not pull the estimate: 60 ms of them */
            assert_true(wrong <= 3000);
        }
    }
    lh_clock_ring_align(hops, HOPS, 10000000, found);
    assert_true(found[1].error_us <= 1700); /* one hop of 0.5 ms */
    /* reached over the last hop of 20 ms, not over 50.5 ms */
    assert_true(found[3].error_us <= 22000);
}

/* Whatever else is known: each clock pair keeps the order of what was seen between them. */
static void test_nothing_comes_before_it_has_left(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 50; round++) {
        seed = round;
        clock_model clocks[HOPS] = {
            {0, 1}, {draw(1000000), 1}, {-draw(1000000), 1}, {draw(1000000), 1}};
        int64_t delays[HOPS] = {1 + draw(50000), 1 + draw(50000), 1 + draw(50000), 1 + draw(50000)};
        lh_clock_hop hops[HOPS] = {0};
        lh_clock_offset found[HOPS + 1];
        run_ring(clocks, hops, delays, 900000);
        lh_clock_ring_align(hops, HOPS, 450000, found);
        found[HOPS] = found[0];
        for (uint32_t i = 0; i < HOPS; i++) {
            lh_clock_bounds bounds;
            int64_t difference = found[i + 1].offset_us - found[i].offset_us;
            assert_true(lh_clock_hop_at(&hops[i], 450000 + found[i].offset_us, &bounds));
            assert_true(difference >= bounds.lowest_us - 200 &&
                        difference <= bounds.highest_us + 200);
        }
    }
}

static void test_a_hop_that_nothing_is_known_of(void **state) {
    (void)state;
    lh_clock_hop hops[3] = {0};
    lh_clock_offset found[3];
    lh_clock_ring_align(hops, 3, 0, found);
    assert_int_equal(found[1].error_us, -1);
    assert_int_equal(found[2].error_us, -1);
    assert_int_equal(found[2].offset_us, 0);
    /* Worker 2 is 1000 behind the gateway, and known from the last hop alone. */
    lh_clock_hop_forth(&hops[2], 0, 1010);
    lh_clock_hop_back(&hops[2], 1020, 30);
    lh_clock_ring_align(hops, 3, 1000, found);
    assert_int_equal(found[1].error_us, -1);
    assert_int_equal(found[2].offset_us, -1000);
    assert_int_equal(found[2].error_us, 10);
    lh_clock_hop_forth(&hops[0], 1000, 6050); /* worker 1 is 5000 ahead */
    lh_clock_hop_back(&hops[0], 6060, 1110);
    lh_clock_ring_align(hops, 3, 1000, found);
    assert_int_equal(found[1].offset_us, 5000);
    assert_int_equal(found[1].error_us, 50);
    assert_int_equal(found[2].offset_us, -1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_known_at_first),
        cmocka_unit_test(test_the_least_delay_wins),
        cmocka_unit_test(test_bounds_loosen_with_age_and_are_renewed),
        cmocka_unit_test(test_a_contradiction_gives_the_middle),
        cmocka_unit_test(test_a_ring_of_skewed_clocks_that_drift),
        cmocka_unit_test(test_nothing_comes_before_it_has_left),
        cmocka_unit_test(test_a_hop_that_nothing_is_known_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
