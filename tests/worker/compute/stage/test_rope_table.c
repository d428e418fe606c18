/* The angles' steps: with every scaling, against the definitions by libm; and files that make no
 * sense. */
#include "worker/compute/stage/rope_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define DIMS 64u

static lh_model_config plain(double base) {
    return (lh_model_config){.rope_dims = DIMS,
                             .rope = {{.base = base, .factor = 1, .magnitude = 1}}};
}

static lh_rope_table table_of(const lh_model_config *config) {
    lh_rope_table table;
    lh_error error;
    if (lh_rope_table_init(&table, config, &error) != LH_OK)
        fail_msg("%s", error.message);
    return table;
}

static void test_linear_scaling_divides(void **state) {
    (void)state;
    lh_model_config config = plain(1e6);
    config.rope[LH_LAYER_FULL].factor = 8;
    lh_rope_table table = table_of(&config);
    assert_int_equal(table.kinds, 1);
    for (uint32_t i = 0; i < DIMS / 2; i++) {
        double expected = pow(1e6, -2.0 * i / DIMS) / 8;
        assert_true(fabs(table.frequency[LH_LAYER_FULL][i] / expected - 1) < 1e-14);
    }
    lh_rope_table_reset(&table);
}

/* Qwen 2.5's: 32768 positions, stretched by 4. */
static void test_yarn_keeps_the_fast_and_divides_the_slow(void **state) {
    (void)state;
    lh_model_config config = plain(1e6);
    config.rope[LH_LAYER_FULL] = (lh_rope_scaling){.base = 1e6,
                                                   .factor = 4,
                                                   .magnitude = 1.5,
                                                   .is_yarn = true,
                                                   .original_context = 32768,
                                                   .beta_fast = 32,
                                                   .beta_slow = 1};
    lh_rope_table table = table_of(&config);
    double low = floor(DIMS * log(32768 / (32 * 2 * M_PI)) / (2 * log(1e6)));
    double high = ceil(DIMS * log(32768 / (2 * M_PI)) / (2 * log(1e6)));
    assert_true(low == 11 && high == 20);
    assert_true(fabs(table.magnitude[LH_LAYER_FULL] / (1.5 * (1 + 0.1 * log(4))) - 1) < 1e-14);
    for (uint32_t i = 0; i < DIMS / 2; i++) {
        double plain_step = pow(1e6, -2.0 * i / DIMS),
               share = fmin(fmax((i - low) / (high - low), 0), 1);
        double expected = plain_step / 4 * share + plain_step * (1 - share);
        assert_true(fabs(table.frequency[LH_LAYER_FULL][i] / expected - 1) < 1e-14);
    }
    lh_rope_table_reset(&table);
}

static void test_layers_with_a_window_have_their_own(void **state) {
    (void)state;
    lh_model_config config = plain(1e6);
    config.window = 512;
    config.rope[LH_LAYER_WINDOW] = (lh_rope_scaling){.base = 10000, .factor = 1, .magnitude = 1};
    lh_rope_table table = table_of(&config);
    assert_int_equal(table.kinds, LH_LAYER_KINDS);
    assert_true(fabs(table.frequency[LH_LAYER_WINDOW][16] - 0.01) < 1e-16);
    assert_true(fabs(table.frequency[LH_LAYER_FULL][16] - 0.001) < 1e-17);
    float factors[DIMS / 2];
    for (uint32_t i = 0; i < DIMS / 2; i++)
        factors[i] = 2;
    lh_error error;
    assert_int_equal(lh_rope_table_divide(&table, factors, &error), LH_OK);
    assert_true(fabs(table.frequency[LH_LAYER_WINDOW][16] - 0.01) < 1e-16);
    assert_true(fabs(table.frequency[LH_LAYER_FULL][16] - 0.0005) < 1e-17);
    lh_rope_table_reset(&table);
}

static void check_refused(lh_model_config config) {
    lh_rope_table table;
    lh_error error;
    assert_int_equal(lh_rope_table_init(&table, &config, &error), LH_ERR_MALFORMED);
    assert_non_null(strstr(error.message, "rope: pair"));
}

static void test_what_makes_no_sense(void **state) {
    (void)state;
    check_refused(plain(1e-300));
    lh_model_config config = plain(10000);
    config.rope[LH_LAYER_FULL].factor = 1e-9;
    check_refused(config);
    config = plain(10000);
    lh_rope_table table = table_of(&config);
    lh_error error;
    for (int bad = 0; bad < 5; bad++) {
        static const float values[] = {0, -1, NAN, INFINITY, 1e-30f};
        float factors[DIMS / 2];
        for (uint32_t i = 0; i < DIMS / 2; i++)
            factors[i] = i == 3 ? values[bad] : 1;
        assert_int_equal(lh_rope_table_divide(&table, factors, &error), LH_ERR_MALFORMED);
    }
    lh_rope_table_reset(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_scaling_divides),
        cmocka_unit_test(test_yarn_keeps_the_fast_and_divides_the_slow),
        cmocka_unit_test(test_layers_with_a_window_have_their_own),
        cmocka_unit_test(test_what_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
