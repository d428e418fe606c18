/* Speeds beside each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/plan_speeds.h"

/* The ordinary assertion takes floats. */
static void assert_close(double a, double b) {
    assert_true(a > b - 1e-9 && a < b + 1e-9);
}

static void by_threads_where_one_has_not_measured(void **state) {
    (void)state;
    lh_plan_worker workers[] = {{"a", "s", 2, 1, {1, 6}}, {"b", "s", 4, 1, {0, 0}}};
    lh_plan_speeds_compare(workers, 2);
    assert_close(workers[0].speed.prompt_us, 2 * workers[1].speed.prompt_us);
    assert_close(workers[0].speed.token_us, 2 * workers[1].speed.token_us);
    assert_true(workers[0].speed.token_us > workers[0].speed.prompt_us);
}

static void close_ones_are_the_same(void **state) {
    (void)state;
    const lh_machine_speed measured[] = {{1.08, 9}, {2.1, 5}, {1.0, 5.4}, {2.0, 30}, {1.4, 7}};
    const double prompt[] = {1, 2, 1, 2, 1.4}, token[] = {9, 5, 5, 30, 7};
    lh_plan_worker workers[5];
    for (int i = 0; i < 5; i++)
        workers[i] = (lh_plan_worker){"w", "s", 1, 1, measured[i]};
    lh_plan_speeds_compare(workers, 5);
    for (int i = 0; i < 5; i++) {
        assert_close(workers[i].speed.prompt_us, prompt[i]);
        assert_close(workers[i].speed.token_us, token[i]);
    }
}

static void the_order_is_no_matter(void **state) {
    (void)state;
    uint64_t random = 7;
    for (int round = 0; round < 200; round++) {
        lh_plan_worker workers[9], reversed[9];
        double before[9];
        for (uint32_t i = 0; i < 9; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            before[i] = 1 + (double)(random >> 60) / 10;
            workers[i] = (lh_plan_worker){"w", "s", 1, 1, {before[i], 5 + (double)(random >> 56 & 15)}};
            reversed[8 - i] = workers[i];
        }
        lh_plan_speeds_compare(workers, 9);
        lh_plan_speeds_compare(reversed, 9);
        for (uint32_t i = 0; i < 9; i++) {
            assert_true(workers[i].speed.prompt_us == reversed[8 - i].speed.prompt_us);
            assert_true(workers[i].speed.token_us == reversed[8 - i].speed.token_us);
            assert_true(workers[i].speed.prompt_us <= before[i] &&
                        workers[i].speed.prompt_us * 1.25 >= before[i] * 0.999);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_threads_where_one_has_not_measured),
                                       cmocka_unit_test(close_ones_are_the_same),
                                       cmocka_unit_test(the_order_is_no_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
