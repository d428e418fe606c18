/* Ranges and multiples of decimals, against integers that are counted. */
#include "gateway/constrain/decimal_language.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static lh_decimal_bound at(double value, bool is_exclusive) {
    return (lh_decimal_bound){true, is_exclusive, lh_decimal_of_double(value)};
}

static void build(const lh_decimal_language *language, lh_dfa *dfa) {
    size_t work = 0;
    *dfa = (lh_dfa){0};
    assert_int_equal(lh_decimal_language_build(language, &work, dfa, NULL), LH_OK);
}

static bool has(const lh_dfa *dfa, const char *text) {
    return lh_dfa_label_of(dfa, text, strlen(text));
}

static void check(const lh_decimal_language *language, const char *const *in,
                  const char *const *out) {
    lh_dfa dfa;
    build(language, &dfa);
    for (; *in; in++)
        if (!has(&dfa, *in))
            fail_msg("%s is not in the language", *in);
    for (; *out; out++)
        if (has(&dfa, *out))
            fail_msg("%s is in the language", *out);
    lh_dfa_reset(&dfa);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void integers_between_bounds_are_those(void **state) {
    (void)state;
    static const int bounds[][2] = {{0, 0},   {-3, 7},    {-120, -9}, {1, 99},
                                    {7, 300}, {-1, 1000}, {100, 100}, {5, 4}};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        const lh_decimal_language language = {.integers_only = true,
                                              .least = at(bounds[b][0], false),
                                              .most = at(bounds[b][1], false)};
        lh_dfa dfa;
        build(&language, &dfa);
        for (int i = -1500; i <= 1500; i++) {
            char text[16];
            snprintf(text, sizeof text, "%d", i);
            assert_int_equal(has(&dfa, text), i >= bounds[b][0] && i <= bounds[b][1]);
        }
        lh_dfa_reset(&dfa);
    }
}

static void multiples_are_those(void **state) {
    (void)state;
    static const int multiples[] = {1, 2, 7, 12, 25, 360, 1000};
    for (size_t m = 0; m < sizeof multiples / sizeof *multiples; m++) {
        const lh_decimal of = lh_decimal_of_integer(multiples[m]);
        lh_decimal_language language = {.integers_only = true, .least = at(-400, true)};
        lh_dfa dfa;
        assert_int_equal(lh_decimal_language_add_multiple(&language, &of, NULL), LH_OK);
        build(&language, &dfa);
        for (int i = -500; i <= 2500; i++) {
            char text[16];
            snprintf(text, sizeof text, "%d", i);
            assert_int_equal(has(&dfa, text), i > -400 && i % multiples[m] == 0);
        }
        lh_dfa_reset(&dfa);
    }
}

static void fractions_are_compared_digit_by_digit(void **state) {
    (void)state;
    const lh_decimal_language language = {.least = at(-1.5, false), .most = at(2.25, true)};
    check(&language, LIST("-1.5", "-1.50", "-1", "-0.5", "0", "0.0", "-0.0", "2", "2.24", "2.2499"),
          LIST("-1.51", "-2", "2.25", "2.250", "2.3", "3", "10", "-0", "00", "1.", ".5", "+1", "",
               "1e0"));
}

static void one_bound_leaves_the_other_side_open(void **state) {
    (void)state;
    check(&(lh_decimal_language){.integers_only = true, .least = at(17, false)},
          LIST("17", "123456789012345678"), LIST("16", "-17", "1234567890123456789", "17.0"));
    check(&(lh_decimal_language){.most = at(0, true)}, LIST("-0.1", "-5", "-999999999999999.5"),
          LIST("0", "-0.0", "0.1", "-1234567890123456.5"));
    check(&(lh_decimal_language){.least = at(0, true)}, LIST("0.1", "5"), LIST("0", "0.0", "-0.0"));
}

static void integers_keep_to_fractions_as_bounds(void **state) {
    (void)state;
    check(&(lh_decimal_language){.integers_only = true,
                                 .least = at(-0.5, false),
                                 .most = at(2.5, false)},
          LIST("0", "1", "2"), LIST("-1", "3", "1.5"));
}

static void a_bound_beyond_double_s_integers_is_its_exact_value(void **state) {
    (void)state;
    check(&(lh_decimal_language){.integers_only = true, .most = at(1e23, false)},
          LIST("99999999999999991611392"), LIST("99999999999999991611393"));
}

static void places_of_a_multiple_are_exact(void **state) {
    (void)state;
    lh_decimal_language language = {.least = at(0, false)};
    lh_decimal of = lh_decimal_of_double(0.25);
    assert_int_equal(lh_decimal_language_add_multiple(&language, &of, NULL), LH_OK);
    check(&language, LIST("0", "0.25", "1.5", "1.50", "7", "7.00"),
          LIST("0.2", "0.26", "0.125", "1.500"));
    of = lh_decimal_of_double(0.1);
    assert_int_equal(lh_decimal_language_add_multiple(&language, &of, NULL), LH_OK);
    check(&language, LIST("0", "0.5", "1", "12.50"), LIST("0.25", "0.1"));
    assert_true(lh_decimal_is_multiple(&of, 10, 2));
    assert_false(lh_decimal_is_multiple(&of, 3, 2));
}

static void multiples_that_cannot_be_are_refused(void **state) {
    (void)state;
    lh_decimal_language language = {0};
    lh_decimal of = lh_decimal_of_integer(0);
    assert_int_equal(lh_decimal_language_add_multiple(&language, &of, NULL), LH_ERR_INVALID);
    of = lh_decimal_of_integer(-2);
    assert_int_equal(lh_decimal_language_add_multiple(&language, &of, NULL), LH_ERR_INVALID);
    of = lh_decimal_of_integer(LH_DECIMAL_MULTIPLE_MAX + 1);
    assert_int_equal(lh_decimal_language_add_multiple(&language, &of, NULL), LH_ERR_LIMIT);
    of = lh_decimal_of_double(1e-300);
    assert_int_equal(lh_decimal_language_add_multiple(&language, &of, NULL), LH_OK);
    of = lh_decimal_of_integer(3);
    assert_int_equal(lh_decimal_language_add_multiple(&language, &of, NULL), LH_ERR_LIMIT);
}

static void decimals_are_the_shortest(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *digits;
        int integers;
    } cases[] = {{0.1, "01", 1},
                 {-12.5, "125", 2},
                 {0, "0", 1},
                 {1e-7, "00000001", 1},
                 {1e22, "10000000000000000000000", 23},
                 {123456.789, "123456789", 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_decimal decimal = lh_decimal_of_double(cases[i].value);
        size_t length = strlen(cases[i].digits);
        assert_int_equal(decimal.integer_digits, cases[i].integers);
        assert_int_equal(decimal.integer_digits + decimal.fraction_digits, length);
        assert_memory_equal(decimal.digits, cases[i].digits, length);
        assert_int_equal(decimal.is_negative, cases[i].value < 0);
    }
    lh_decimal a = lh_decimal_of_double(-0.5), b = lh_decimal_of_double(-0.25);
    assert_true(lh_decimal_compare(&a, &b) < 0);
    assert_true(lh_decimal_compare(&b, &a) > 0);
    a = lh_decimal_of_double(3.0);
    b = lh_decimal_of_integer(3);
    assert_int_equal(lh_decimal_compare(&a, &b), 0);
}

static void work_and_memory_have_limits(void **state) {
    (void)state;
    const lh_decimal_language language = {.least = at(-1e300, false), .most = at(1e300, true)};
    size_t work = LH_DFA_WORK_MAX;
    lh_dfa dfa = {0};
    assert_int_equal(lh_decimal_language_build(&language, &work, &dfa, NULL), LH_ERR_LIMIT);
    lh_dfa_reset(&dfa);
    for (size_t n = 1;; n++) {
        work = 0;
        failing_malloc_arm(n);
        lh_status status = lh_decimal_language_build(&language, &work, &dfa, NULL);
        bool failed = failing_malloc_disarm();
        lh_dfa_reset(&dfa);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_between_bounds_are_those),
        cmocka_unit_test(multiples_are_those),
        cmocka_unit_test(fractions_are_compared_digit_by_digit),
        cmocka_unit_test(one_bound_leaves_the_other_side_open),
        cmocka_unit_test(integers_keep_to_fractions_as_bounds),
        cmocka_unit_test(a_bound_beyond_double_s_integers_is_its_exact_value),
        cmocka_unit_test(places_of_a_multiple_are_exact),
        cmocka_unit_test(multiples_that_cannot_be_are_refused),
        cmocka_unit_test(decimals_are_the_shortest),
        cmocka_unit_test(work_and_memory_have_limits),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
