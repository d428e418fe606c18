/* Which experts a row goes to, and with what share; and where its slots are. */
#include "worker/compute/stage/experts.h"

#include "tests/support/failing_malloc.h"
#include "worker/compute/stage/expert_slots.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { EXPERTS = 20, USED = 3 };

static lh_model_config config_of(bool normalized) {
    return (lh_model_config){.experts = EXPERTS,
                             .experts_used = USED,
                             .experts_scale = 1,
                             .experts_normalized = normalized};
}

static void choose(const lh_model_config *config, const float *bias, const float *logits,
                   uint32_t *chosen, float *shares) {
    float values[EXPERTS];
    memcpy(values, logits, sizeof values);
    lh_experts_choose(lh_kernels_at(0), config, bias, values, chosen, shares);
}

static void expect(const uint32_t *chosen, uint32_t a, uint32_t b, uint32_t c) {
    assert_int_equal(chosen[0], a);
    assert_int_equal(chosen[1], b);
    assert_int_equal(chosen[2], c);
}

static void test_the_greatest_in_the_order_of_experts(void **state) {
    (void)state;
    const float logits[EXPERTS] = {[2] = 1, [7] = 5, [19] = 3, [11] = 2};
    lh_model_config config = config_of(false);
    uint32_t chosen[USED];
    float shares[USED];
    choose(&config, NULL, logits, chosen, shares);
    expect(chosen, 7, 11, 19);
    double sum = 16 + exp(1) + exp(5) + exp(3) + exp(2);
    assert_true(fabs((double)shares[0] - exp(5) / sum) < 1e-6);
    assert_true(fabs((double)shares[2] - exp(3) / sum) < 1e-6);
    config.experts_normalized = true;
    config.experts_scale = 2.5f;
    choose(&config, NULL, logits, chosen, shares);
    assert_true(fabs((double)(shares[0] + shares[1] + shares[2]) - 2.5) < 1e-6);
}

/* Of four groups of five: by the best of each, or by the two best together. */
static void test_experts_of_the_best_groups(void **state) {
    (void)state;
    const float logits[EXPERTS] = {
        [0] = 9, [6] = 5, [7] = 5, [11] = 8, [12] = -9, [16] = 4, [18] = 6};
    lh_model_config config = config_of(false);
    uint32_t chosen[USED];
    float shares[USED];
    config.expert_groups = 4;
    config.expert_groups_used = 2;
    choose(&config, NULL, logits, chosen, shares);
    expect(chosen, 0, 1, 11);
    config.routing = LH_ROUTING_SIGMOID;
    choose(&config, NULL, logits, chosen, shares);
    expect(chosen, 6, 7, 18);
    const float bias[EXPERTS] = {[0] = 2};
    choose(&config, bias, logits, chosen, shares);
    expect(chosen, 0, 6, 7);
}

static void test_of_equal_ones_the_first(void **state) {
    (void)state;
    const float same[EXPERTS] = {0}, logits[EXPERTS] = {[5] = 1, [9] = 2, [12] = 1, [14] = 1};
    const lh_model_config config = config_of(true);
    uint32_t chosen[USED];
    float shares[USED];
    choose(&config, NULL, same, chosen, shares);
    expect(chosen, 0, 1, 2);
    assert_true(shares[0] == shares[1] && fabsf(shares[0] - 1.0f / 3) < 1e-6f);
    choose(&config, NULL, logits, chosen, shares);
    expect(chosen, 5, 9, 12);
}

/* The bias decides who is chosen, and is no part of the share. */
static void test_a_bias_only_chooses(void **state) {
    (void)state;
    const float logits[EXPERTS] = {[3] = 1, [4] = 2, [6] = -1}, bias[EXPERTS] = {[6] = 9, [8] = 5};
    lh_model_config config = config_of(false);
    config.routing = LH_ROUTING_SIGMOID;
    uint32_t chosen[USED];
    float shares[USED];
    choose(&config, bias, logits, chosen, shares);
    expect(chosen, 4, 6, 8);
    assert_true(fabs((double)shares[0] - 1 / (1 + exp(-2))) < 1e-6);
    assert_true(fabs((double)shares[1] - 1 / (1 + exp(1))) < 1e-6);
}

/* Whoever is not chosen has no say in the shares. */
static void test_a_softmax_of_the_chosen_ones(void **state) {
    (void)state;
    const float logits[EXPERTS] = {[3] = 1, [4] = 2, [6] = -1, [8] = 4};
    lh_model_config config = config_of(false);
    config.routing = LH_ROUTING_SOFTMAX_OF_CHOSEN;
    uint32_t chosen[USED];
    float shares[USED];
    choose(&config, NULL, logits, chosen, shares);
    expect(chosen, 3, 4, 8);
    double sum = exp(1) + exp(2) + exp(4);
    assert_true(fabs((double)shares[0] - exp(1) / sum) < 1e-6);
    assert_true(fabs((double)shares[2] - exp(4) / sum) < 1e-6);
}

/* Whatever comes in, so many different ones come out. */
static void test_no_numbers_choose_some_and_stay_none(void **state) {
    (void)state;
    float logits[EXPERTS];
    for (int i = 0; i < EXPERTS; i++)
        logits[i] = NAN;
    const lh_model_config config = config_of(true);
    uint32_t chosen[USED];
    float shares[USED];
    choose(&config, NULL, logits, chosen, shares);
    assert_true(chosen[0] < chosen[1] && chosen[1] < chosen[2] && chosen[2] < EXPERTS);
    assert_true(isnan(shares[0]) && isnan(shares[2]));
}

static void test_every_instruction_set_chooses_alike(void **state) {
    (void)state;
    lh_model_config config = config_of(true);
    for (int routing = 0; routing < 3; routing++) {
        config.routing = (lh_routing)routing;
        for (int trial = 0; trial < 200; trial++) {
            float logits[EXPERTS], values[EXPERTS], shares[2][USED];
            uint32_t chosen[2][USED];
            for (int i = 0; i < EXPERTS; i++)
                logits[i] = sinf((float)(trial * 31 + i * 17)) * 4;
            for (size_t set = 0; lh_kernels_at(set); set++) {
                memcpy(values, logits, sizeof values);
                lh_experts_choose(lh_kernels_at(set), &config, NULL, values, chosen[set > 0],
                                  shares[set > 0]);
                assert_memory_equal(chosen[0], chosen[set > 0], sizeof chosen[0]);
                assert_memory_equal(shares[0], shares[set > 0], sizeof shares[0]);
            }
        }
    }
}

/* Slots lie by expert, and by row within one; experts that no row has chosen have no group. */
static void test_slots_lie_by_expert(void **state) {
    (void)state;
    enum { ROWS = 19 };
    lh_model_config config = config_of(true);
    config.width = config.expert_width = 32;
    const lh_parameters none = {0};
    lh_compute compute = lh_cpu_compute(lh_kernels_at(0), NULL, LH_ACTIVATION_Q8);
    assert_int_equal(lh_thread_pool_create(2, &compute.pool, NULL), LH_OK);
    lh_expert_slots *s = compute.ops->open_slots(&compute, &config, &none, ROWS);
    assert_non_null(s);
    float scale[ROWS], logits[ROWS * (EXPERTS / LH_LANES * LH_LANES + 2 * LH_LANES)];
    assert_true(ROWS * lh_row_stride(EXPERTS) <= sizeof logits / sizeof logits[0]);
    for (uint32_t row = 0; row < ROWS; row++) {
        scale[row] = (float)row;
        for (uint32_t i = 0; i < EXPERTS; i++)
            logits[row * lh_row_stride(EXPERTS) + i] = i % 2 ? -50 : sinf((float)(row * i));
    }
    const float *shares = compute.ops->route(&compute, s, logits, NULL, scale, ROWS);
    assert_int_equal(s->count, ROWS * USED);
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->group_count; i++) {
        const lh_expert_group *group = &s->groups[i];
        assert_true(group->first == next && group->count > 0 && group->expert % 2 == 0);
        assert_true(i == 0 || group->expert > s->groups[i - 1].expert);
        for (uint32_t slot = next; slot < next + group->count; slot++) {
            assert_true(slot == next || s->rows[slot] > s->rows[slot - 1]);
            assert_true(s->scale[slot] == scale[s->rows[slot]]);
            assert_true(shares[slot] > 0 && shares[slot] < 1);
        }
        next += group->count;
    }
    assert_int_equal(next, s->count);
    compute.ops->close_slots(&compute, s);
    lh_thread_pool_destroy(compute.pool);
}

/* Each allocation fails once: it is an error, all is given back, and then there is enough. */
static void test_without_memory_it_says_so(void **state) {
    (void)state;
    lh_model_config config = config_of(true);
    config.width = config.expert_width = config.shared_expert_width = 64;
    const lh_matrix matrix = {LH_DTYPE_Q8_0, 64, 64, NULL}, floats = {LH_DTYPE_F32, 64, 64, NULL};
    lh_layer layers[] = {{.router = {.data = &config},
                          .experts_gate = {.first = matrix},
                          .experts_up = {.first = floats},
                          .experts_down = {.first = matrix},
                          .shared_down = matrix},
                         {.router = {.data = &config},
                          .experts_gate = {.first = floats},
                          .experts_up = {.first = floats},
                          .experts_down = {.first = floats},
                          .shared_down = floats}};
    const lh_parameters weights = {.layer_count = 2, .layers = layers};
    const lh_division division = {
        .members = 1, .mixed = {.of = {{0, 64}}}, .shared = {.of = {{0, 64}}}};
    lh_compute compute = lh_cpu_compute(NULL, NULL, LH_ACTIVATION_Q16);
    assert_int_equal(lh_thread_pool_create(2, &compute.pool, NULL), LH_OK);
    size_t tried = 1;
    for (;; tried++) {
        lh_experts e;
        lh_error error;
        failing_malloc_arm(tried);
        lh_status status = lh_experts_init(&e, &config, &division, &weights, &compute, 9, &error);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            lh_experts_reset(&e, &compute);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_non_null(strstr(error.message, "9 rows at 3 experts"));
        assert_null(e.logits);
    }
    assert_true(tried > 20);
    lh_thread_pool_destroy(compute.pool);
}

static void test_more_slots_than_there_are_numbers(void **state) {
    (void)state;
    const lh_model_config config = config_of(true);
    const lh_parameters none = {0};
    lh_experts e;
    const lh_compute compute = lh_cpu_compute(NULL, NULL, LH_ACTIVATION_Q8);
    assert_int_equal(lh_experts_init(&e, &config, &(lh_division){.members = 1}, &none, &compute,
                                     UINT32_MAX, NULL),
                     LH_ERR_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_greatest_in_the_order_of_experts),
        cmocka_unit_test(test_experts_of_the_best_groups),
        cmocka_unit_test(test_of_equal_ones_the_first),
        cmocka_unit_test(test_a_bias_only_chooses),
        cmocka_unit_test(test_a_softmax_of_the_chosen_ones),
        cmocka_unit_test(test_no_numbers_choose_some_and_stay_none),
        cmocka_unit_test(test_every_instruction_set_chooses_alike),
        cmocka_unit_test(test_slots_lie_by_expert),
        cmocka_unit_test(test_without_memory_it_says_so),
        cmocka_unit_test(test_more_slots_than_there_are_numbers),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
