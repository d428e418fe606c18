/* Which hops get q8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

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

/* Workers a, b and c; the wire types are f16. */
typedef struct fixture {
    lh_worker_report reports[3];
    lh_chain chain;
} fixture;

static void fill(fixture *f, double first_rate, double second_rate) {
    const double rates[] = {first_rate, second_rate, 1e-6};
    *f = (fixture){.reports = {report_of("a"), report_of("b"), report_of("c")},
                   .chain = {.stage_count = 3, .stages = {{"a"}, {"b"}, {"c"}}}};
    lh_log_set_level(LH_LOG_ERROR);
    lh_wire_choice_begin(&automatic, &f->chain);
    for (int i = 0; i < 3; i++) {
        f->reports[i].compute = computes[i];
        f->reports[i].next.bytes_per_us = rates[i];
    }
}

static lh_registry *register_all(const fixture *f) {
    lh_registry *registry;
    assert_int_equal(lh_registry_create(3000 * MS, &registry, NULL), LH_OK);
    for (int i = 0; i < 3; i++)
        register_report(registry, &f->reports[i], 0);
    return registry;
}

static bool is_known(const fixture *f, const lh_wire_policy *policy) {
    lh_registry *registry = register_all(f);
    bool known = lh_wire_choice_is_known(policy, WIDTH, &f->chain, registry);
    lh_registry_destroy(registry);
    return known;
}

static bool make(fixture *f, const lh_wire_policy *policy) {
    lh_registry *registry = register_all(f);
    bool has_changed = lh_wire_choice_make(policy, WIDTH, &f->chain, registry);
    lh_registry_destroy(registry);
    return has_changed;
}

static void assert_wires(const fixture *f, lh_wire_type first, lh_wire_type second,
                         lh_wire_type last) {
    assert_int_equal(f->chain.stages[0].wire, first);
    assert_int_equal(f->chain.stages[1].wire, second);
    assert_int_equal(f->chain.stages[2].wire, last);
}

static void a_fixed_type_is_everywhere(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fixture f;
        lh_wire_policy policy = {.allows_q8 = true};
        fill(&f, 0.1, 1000);
        assert_true(lh_wire_from_number(i, &policy.type));
        f.chain.stages[3].wire = LH_WIRE_Q8; /* behind the last one */
        lh_wire_choice_begin(&policy, &f.chain);
        assert_int_equal(f.chain.stages[3].wire, LH_WIRE_Q8);
        assert_wires(&f, policy.type, policy.type, policy.type);
        lh_wire_choice_begin(&automatic, &f.chain);
        assert_int_equal(make(&f, &policy), policy.type != LH_WIRE_F16);
        assert_wires(&f, policy.type, policy.type, policy.type);
        assert_false(make(&f, &policy));
    }
}

static void without_permission_auto_is_f16(void **state) {
    (void)state;
    fixture f;
    fill(&f, 0.1, 0.1);
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_F16, LH_WIRE_F16);
    assert_false(make(&f, &automatic));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_F16, LH_WIRE_F16);
}

/* The slowest stage needs 1,000 us a row, wherever it stands; so the line is at 1.17 bytes/us. */
static void the_bottleneck_gets_q8(void **state) {
    (void)state;
    fixture f;
    fill(&f, 1.05, 12.5);
    assert_true(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_F16, LH_WIRE_F16);
    fill(&f, 12.5, 0.5);
    assert_true(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_Q8, LH_WIRE_F16);
    /* both are slower than any stage: the one that is left would be the bottleneck */
    fill(&f, 0.5, 0.6);
    assert_true(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_Q8, LH_WIRE_F16);
}

static void near_the_line_nothing_changes(void **state) {
    (void)state;
    fixture f;
    fill(&f, 1.17 / 1.09, 1.17 / 1.09);
    f.chain.stages[1].wire = LH_WIRE_Q8;
    assert_false(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_Q8, LH_WIRE_F16);
    fill(&f, 1.17 / 0.91, 1.17 / 0.89);
    f.chain.stages[0].wire = f.chain.stages[1].wire = LH_WIRE_Q8;
    assert_true(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_F16, LH_WIRE_F16);
}

static void what_is_unknown_stays_as_it_is(void **state) {
    (void)state;
    fixture f;
    fill(&f, 0, 0.5);
    assert_false(is_known(&f, &with_q8));
    assert_true(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_Q8, LH_WIRE_F16);
    f.reports[0].next.bytes_per_us = 0.5;
    f.reports[1].next.bytes_per_us = 0;
    assert_true(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_Q8, LH_WIRE_F16);
    fill(&f, 0.5, 0.5);
    for (int i = 0; i < 3; i++)
        f.reports[i].compute = unmeasured;
    assert_false(is_known(&f, &with_q8));
    assert_false(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_F16, LH_WIRE_F16);
}

/* At least so much: enough to see that a hop is fast, never that it is slow. */
static void a_bound_is_half_an_answer(void **state) {
    (void)state;
    fixture f;
    fill(&f, 12.5, 0.2);
    f.reports[0].next.bytes_per_us_is_bound = true;
    f.reports[1].next.bytes_per_us_is_bound = true;
    assert_false(is_known(&f, &with_q8));
    assert_false(make(&f, &with_q8));
    f.reports[1].next.bytes_per_us_is_bound = false;
    assert_true(is_known(&f, &with_q8));
    assert_true(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_F16, LH_WIRE_Q8, LH_WIRE_F16);
}

static void what_must_be_known(void **state) {
    (void)state;
    fixture f;
    const lh_wire_policy fixed = {.type = LH_WIRE_Q8, .allows_q8 = true};
    fill(&f, 1, 1);
    f.reports[2].next.bytes_per_us = 0; /* the hop to the gateway carries tokens */
    assert_true(is_known(&f, &with_q8));
    f.reports[2].compute = unmeasured;
    assert_false(is_known(&f, &with_q8));
    assert_true(is_known(&f, &automatic));
    assert_true(is_known(&f, &fixed));
    f.reports[0].compute = unmeasured;
    f.chain.stage_count = 1; /* no hop */
    assert_true(is_known(&f, &with_q8));
    assert_false(make(&f, &with_q8));
    f.chain.stage_count = 0;
    assert_true(is_known(&f, &with_q8));
}

/* On a machine that takes less than a microsecond for a row. */
static void a_short_time_is_known_too(void **state) {
    (void)state;
    fixture f;
    fill(&f, 1, 1);
    for (int i = 0; i < 3; i++)
        f.reports[i].compute =
            (lh_compute_profile){.point_count = 1, .points = {{.rows = 64, .us = 32}}};
    assert_true(is_known(&f, &with_q8));
}

/* One that is gone counts as not measured: its hop stays as it is. */
static void whoever_is_gone_is_not_measured(void **state) {
    (void)state;
    fixture f;
    fill(&f, 0.5, 0.5);
    f.chain.stages[1] = (lh_chain_stage){.name = "x", .wire = LH_WIRE_F16};
    assert_false(is_known(&f, &with_q8));
    assert_true(make(&f, &with_q8));
    assert_wires(&f, LH_WIRE_Q8, LH_WIRE_F16, LH_WIRE_F16);
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
        cmocka_unit_test(a_short_time_is_known_too),
        cmocka_unit_test(whoever_is_gone_is_not_measured),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
