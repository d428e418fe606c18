/* Which hops get q8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/wire_choice.h"

#define WIDTH 576u /* a row in f16: 1170 bytes */

static const lh_wire_policy automatic = {.is_auto = true},
                            with_q8 = {.is_auto = true, .allows_q8 = true};

/* Rows of a chunk take 1 ms, 0.5 ms, 0.25 ms each in the three stages; one alone takes ten times as
 * long. */
static const lh_compute_profile computes[3] = {
    {.point_count = 2, .points = {{1, 10000}, {64, 64000}}},
    {.point_count = 2, .points = {{1, 5000}, {64, 32000}}},
    {.point_count = 2, .points = {{1, 2500}, {64, 16000}}},
};
static const lh_compute_profile unmeasured;

typedef struct fixture {
    lh_hop_profile hops[3];
    lh_wire_stage stages[3];
} fixture;

static void fill(fixture *f, double first_rate, double second_rate) {
    *f = (fixture){.hops = {{.bytes_per_us = first_rate},
                            {.bytes_per_us = second_rate},
                            {.bytes_per_us = 1e-6}}};
    for (int i = 0; i < 3; i++)
        f->stages[i] = (lh_wire_stage){&computes[i], &f->hops[i], LH_WIRE_F16};
}

static void assert_wires(const fixture *f, lh_wire_type first, lh_wire_type second,
                         lh_wire_type last) {
    assert_int_equal(f->stages[0].wire, first);
    assert_int_equal(f->stages[1].wire, second);
    assert_int_equal(f->stages[2].wire, last);
}

static void a_fixed_type_is_everywhere(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fixture f;
        lh_wire_policy policy = {.allows_q8 = true};
        fill(&f, 0.1, 1000);
        assert_true(lh_wire_from_number(i, &policy.type));
        assert_int_equal(lh_wire_choice_first(&policy), policy.type);
        assert_int_equal(lh_wire_choice_make(&policy, WIDTH, f.stages, 3),
                         policy.type != LH_WIRE_F16);
        assert_wires(&f, policy.type, policy.type, policy.type);
        assert_false(lh_wire_choice_make(&policy, WIDTH, f.stages, 3));
    }
}

static void without_permission_auto_is_f16(void **state) {
    (void)state;
    fixture f;
    fill(&f, 0.1, 0.1);
    assert_int_equal(lh_wire_choice_first(&automatic), LH_WIRE_F16);
    assert_false(lh_wire_choice_make(&automatic, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_F16, LH_WIRE_F16);
}

/* The slowest stage needs 1,000 us a row, wherever it stands; so the line is at 1.17 bytes/us. */
static void the_bottleneck_gets_q8(void **state) {
    (void)state;
    fixture f;
    fill(&f, 1.05, 12.5);
    assert_true(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_F16, LH_WIRE_F16);
    fill(&f, 12.5, 0.5);
    assert_true(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_Q8, LH_WIRE_F16);
    /* both are slower than any stage: the one that is left would be the bottleneck */
    fill(&f, 0.5, 0.6);
    assert_true(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_Q8, LH_WIRE_F16);
}

static void near_the_line_nothing_changes(void **state) {
    (void)state;
    fixture f;
    fill(&f, 1.17 / 1.09, 1.17 / 1.09);
    f.stages[1].wire = LH_WIRE_Q8;
    assert_false(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_Q8, LH_WIRE_F16);
    fill(&f, 1.17 / 0.91, 1.17 / 0.89);
    f.stages[0].wire = f.stages[1].wire = LH_WIRE_Q8;
    assert_true(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_F16, LH_WIRE_F16);
}

static void what_is_unknown_stays_as_it_is(void **state) {
    (void)state;
    fixture f;
    fill(&f, 0, 0.5);
    assert_false(lh_wire_choice_is_known(&with_q8, WIDTH, f.stages, 3));
    assert_true(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_Q8, LH_WIRE_F16);
    f.hops[0].bytes_per_us = 0.5;
    f.hops[1].bytes_per_us = 0;
    assert_true(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_Q8, LH_WIRE_F16);
    fill(&f, 0.5, 0.5);
    for (int i = 0; i < 3; i++)
        f.stages[i].compute = &unmeasured;
    assert_false(lh_wire_choice_is_known(&with_q8, WIDTH, f.stages, 3));
    assert_false(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_F16, LH_WIRE_F16);
}

/* At least so much: enough to see that a hop is fast, never that it is slow. */
static void a_bound_is_half_an_answer(void **state) {
    (void)state;
    fixture f;
    fill(&f, 12.5, 0.2);
    f.hops[0].bytes_per_us_is_bound = true;
    f.hops[1].bytes_per_us_is_bound = true;
    assert_false(lh_wire_choice_is_known(&with_q8, WIDTH, f.stages, 3));
    assert_false(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    f.hops[1].bytes_per_us_is_bound = false;
    assert_true(lh_wire_choice_is_known(&with_q8, WIDTH, f.stages, 3));
    assert_true(lh_wire_choice_make(&with_q8, WIDTH, f.stages, 3));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_Q8, LH_WIRE_F16);
}

static void what_must_be_known(void **state) {
    (void)state;
    fixture f;
    const lh_wire_policy fixed = {.type = LH_WIRE_Q8, .allows_q8 = true};
    fill(&f, 1, 1);
    f.hops[2].bytes_per_us = 0; /* the hop to the gateway carries tokens */
    assert_true(lh_wire_choice_is_known(&with_q8, WIDTH, f.stages, 3));
    f.stages[2].compute = &unmeasured;
    assert_false(lh_wire_choice_is_known(&with_q8, WIDTH, f.stages, 3));
    assert_true(lh_wire_choice_is_known(&automatic, WIDTH, f.stages, 3));
    assert_true(lh_wire_choice_is_known(&fixed, WIDTH, f.stages, 3));
    assert_true(lh_wire_choice_is_known(&with_q8, WIDTH, f.stages + 2, 1)); /* no hop */
    assert_false(lh_wire_choice_make(&with_q8, WIDTH, f.stages + 2, 1));
    assert_true(lh_wire_choice_is_known(&with_q8, WIDTH, NULL, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_type_is_everywhere),
        cmocka_unit_test(without_permission_auto_is_f16),
        cmocka_unit_test(the_bottleneck_gets_q8),
        cmocka_unit_test(near_the_line_nothing_changes),
        cmocka_unit_test(what_is_unknown_stays_as_it_is),
        cmocka_unit_test(what_must_be_known),
        cmocka_unit_test(a_bound_is_half_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
