/* Draws: the generator's known answers, the noise against its formula, the distribution of what is
 * drawn, and each set against the reference token for token. */
#include "kernels/noise.h"
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- The noise ---- */

/* Those of the authors' library Random123 (kat_vectors, philox4x32 10). */
static void test_philox_gives_the_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4];
        lh_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void check_noise(uint32_t word) {
    double v = (2.0 * word + 1) * 0x1p-33, exact = -log(-log1p(-v)), g = (double)lh_noise(word);
    double error = fabs(g - exact), zeros = word ? __builtin_clz(word) : 32;
    if (!(error <= 2.5e-7 + 6e-8 * fabs(exact)))
        fail_msg("the noise of word %08x is %.9g, not %.9g", word, g, exact);
    /* what blocks of tokens are left out by */
    assert_true(g < (zeros + 1) * M_LN2 + 1e-5);
}

/* Both ends, the seam between the two ways to it, and between. */
static void test_the_noise_is_the_double_logarithm_of_its_word(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 1u << 16; i++) {
        check_noise(i);
        check_noise(~i);
        check_noise(LH_NOISE_SPLIT - 0x8000 + i);
        check_noise(i * 65537u);
    }
    for (uint32_t word = 1; word; word <<= 1)
        for (uint32_t low = word >> 20 | 1; low > 0; low--) {
            check_noise(word - low);
            check_noise(word + low);
        }
}

static void test_seed_position_and_token_count_in_full(void **state) {
    (void)state;
    const lh_draw draws[] = {{0, 1, 1, 2},
                             {0, 1, 2, 1},
                             {0, 1, 1 | (uint64_t)1 << 32, 2},
                             {0, 1, 1, 2 | (uint64_t)1 << 32},
                             {0, 1, 0, 2}};
    uint32_t first[4], other[4];
    lh_noise_words(&draws[0], 7, first);
    for (size_t i = 1; i < sizeof draws / sizeof *draws; i++) {
        lh_noise_words(&draws[i], 7, other);
        assert_memory_not_equal(first, other, sizeof first);
    }
    lh_noise_words(&draws[0], 8, other);
    assert_memory_not_equal(first, other, sizeof first);
}

/* ---- The distribution ---- */

/* What chi-square stays below with a probability of 0.9999 (Wilson and Hilferty). */
static double chi_square_bound(double freedom) {
    double spread = 2 / (9 * freedom), root = 1 - spread + 3.719 * sqrt(spread);
    return freedom * root * root * root;
}

/* What tells one draw from the next. */
typedef enum draw_series { BY_POSITION, BY_SEED } draw_series;

/* Pearson's test of `draws` draws from x[count] at `temperature`, `cell` tokens taken together. */
static void check_distribution(const float *x, uint32_t count, float temperature, uint32_t draws,
                               uint32_t cell, draw_series series) {
    const lh_kernels *best;
    uint32_t cells = (count + cell - 1) / cell;
    double sum = 0, statistic = 0, *expected = calloc(cells, sizeof *expected);
    uint32_t *drawn = calloc(cells, sizeof *drawn);
    assert_int_equal(lh_kernels_select("auto", &best, NULL), LH_OK);
    for (uint32_t i = 0; i < count; i++)
        sum += exp((double)x[i] / (double)temperature);
    for (uint32_t i = 0; i < count; i++)
        expected[i / cell] += draws * exp((double)x[i] / (double)temperature) / sum;
    for (uint32_t i = 0; i < draws; i++) {
        lh_draw draw = {best->max(x, count), temperature, series == BY_SEED ? i : 77,
                        series == BY_SEED ? 77 : i};
        drawn[best->draw(x, count, &draw) / cell]++;
    }
    for (uint32_t i = 0; i < cells; i++)
        statistic += (drawn[i] - expected[i]) * (drawn[i] - expected[i]) / expected[i];
    if (statistic > chi_square_bound(cells - 1))
        fail_msg("chi-square is %g of %u cells", statistic, cells);
    free(expected);
    free(drawn);
}

/* Two tokens, one of a hundred thousandth; and many of it, beside a few that have all the rest. */
static void test_rare_tokens_are_as_rare_as_they_should_be(void **state) {
    (void)state;
    const float two[] = {-11.512915f, 0};
    float many[200];
    check_distribution(two, 2, 1, 1000000, 1, BY_POSITION);
    for (uint32_t i = 0; i < 200; i++)
        many[i] = i % 2 ? logf(1e-5f) : i % 20 == 0 ? logf(0.1f) : logf(2e-5f);
    if (test_stride(2) == 1) /* so many draws are needed */
        check_distribution(many, 200, 1, 1000000, 1, BY_POSITION);
}

static void test_slopes_at_any_temperature(void **state) {
    (void)state;
    const float temperatures[] = {1, 0.3f, 3};
    float x[70];
    for (uint32_t i = 0; i < 70; i++)
        x[i] = 0.03f * (float)(i * 29 % 70);
    for (uint32_t i = 0; i < 3; i++)
        check_distribution(x, 70, temperatures[i], 1000000 / test_stride(20), 1,
                           i == 0 ? BY_SEED : BY_POSITION);
}

static void test_a_large_vocabulary(void **state) {
    (void)state;
    enum { COUNT = 50257 };
    float *x = test_alloc(COUNT * sizeof *x);
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = (float)(i % 5) * 0.7f;
    check_distribution(x, COUNT, 1, 60000 / test_stride(12), 50, BY_POSITION);
    free(x);
}

/* ---- Every set ---- */

static void check_draw(const lh_kernels *set, const float *x, uint32_t count, const lh_draw *draw) {
    uint32_t all = lh_kernels_at(0)->draw(x, count, draw), *tokens = test_alloc(4 * count);
    if (set->draw(x, count, draw) != all)
        fail_msg("%s draws %u of %u, not %u", set->name, set->draw(x, count, draw), count, all);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = count - 1 - i;
    assert_int_equal(set->draw_among(x, tokens, count, draw), all);
    /* without it another one, wherever it stood */
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (i < all ? i : i + 1);
    if (count > 1) {
        uint32_t second = set->draw_among(x, tokens, count - 1, draw);
        assert_int_equal(second, lh_kernels_at(0)->draw_among(x, tokens, count - 1, draw));
        assert_int_not_equal(second, all);
    }
    float *weights = test_alloc(4 * count), *expected = test_alloc(4 * count);
    set->draw_weights(weights, x, count, draw);
    lh_kernels_at(0)->draw_weights(expected, x, count, draw);
    assert_same_floats(weights, expected, count, set->name);
    for (uint32_t i = 0; i < count; i++)
        assert_true(expected[i] == lh_exp_f32((x[i] - draw->max) / draw->temperature));
    free(weights);
    free(expected);
    free(tokens);
}

/* Of any count, flat and steep, some of it forbidden, the greatest at any place. */
static void check_draws(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {31};
    for (uint32_t round = 0; round < 600; round += test_stride(5)) {
        static const float spreads[] = {0, 0.01f, 1, 10, 100, 1e5f};
        uint32_t count = round < 200 ? round + 1 : random_between(&random, 1, 3000);
        float *x = random_floats(&random, count), spread = spreads[random_between(&random, 0, 5)];
        uint32_t best = random_between(&random, 0, count - 1), half = random_between(&random, 0, 3);
        for (uint32_t i = 0; i < count; i++)
            x[i] = half == 0 && random_between(&random, 0, 1) ? -INFINITY : x[i] * spread;
        x[best] = spread + (float)random_between(&random, 0, 12);
        lh_draw draw = {set->max(x, count), random_between(&random, 0, 1) ? 1 : 0.6f,
                        random_bits(&random), random_bits(&random)};
        check_draw(set, x, count, &draw);
        free(x);
    }
}

static void test_every_set_draws_the_token_of_the_reference(void **state) {
    (void)state;
    for_each_set(check_draws, NULL);
}

/* A temperature so low that equal scores decide, and so high that noise alone does. */
static void check_extremes(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {32};
    for (uint32_t round = 0; round < 100; round += test_stride(7)) {
        float *x = random_floats(&random, 300);
        for (uint32_t i = 0; i < 300; i++)
            x[i] = round % 2 ? x[i] * 3e38f : (float)(i % 3);
        lh_draw draw = {set->max(x, 300), round % 3 ? 1e6f : 1e-6f, round, 5};
        check_draw(set, x, 300, &draw);
        free(x);
    }
}

static void test_extreme_temperatures_and_logits(void **state) {
    (void)state;
    for_each_set(check_extremes, NULL);
}

static void test_of_equals_the_lowest_leads(void **state) {
    (void)state;
    lh_lead lead = {-INFINITY, UINT32_MAX};
    lh_lead_try(&lead, 1, 9);
    lh_lead_try(&lead, 1, 4);
    lh_lead_try(&lead, 1, 6);
    lh_lead_try(&lead, 0.5f, 1);
    assert_int_equal(lead.token, 4);
}

/* No word beyond the reach leads, and one well within does. */
static void test_the_reach_of_a_lead(void **state) {
    (void)state;
    test_random random = {34};
    uint32_t reached = 0;
    const uint32_t tries = 1000000 / test_stride(20);
    for (uint32_t i = 0; i < tries; i++) {
        const lh_lead lead = {20 * random_float(&random), 0};
        float scaled = lead.score - (float)random_between(&random, 0, 2400) * 0.01f;
        uint32_t reach;
        if (!lh_lead_reach(&lead, scaled, &reach)) {
            assert_true(scaled + lh_noise(0) < lead.score);
            continue;
        }
        reached++;
        if (reach < UINT32_MAX && scaled + lh_noise(reach + 1) >= lead.score)
            fail_msg("word %08x leads %g by %g", reach + 1, (double)lead.score, (double)scaled);
        if (reach >= 4 && reach < UINT32_MAX / 4)
            assert_true(scaled + lh_noise(reach / 4) > lead.score);
    }
    assert_in_range(reached, tries / 10 * 9, tries - 1);
    const lh_lead nobody = {-INFINITY, UINT32_MAX};
    uint32_t reach;
    assert_true(lh_lead_reach(&nobody, -3e38f, &reach) && reach == UINT32_MAX);
    assert_false(lh_lead_reach(&nobody, -INFINITY, &reach));
}

/* As speculation wants it: of distributions that are nearly one, the same token is drawn. */
static void test_similar_logits_draw_the_same_token(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    const uint32_t draws = 1000 / test_stride(10);
    test_random random = {33};
    const lh_kernels *reference = lh_kernels_at(0);
    float *x = test_alloc(COUNT * sizeof *x), *y = test_alloc(COUNT * sizeof *y);
    uint32_t same = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        x[i] = 4 * random_float(&random);
        y[i] = x[i] + 0.05f * random_float(&random);
    }
    lh_draw draw = {reference->max(x, COUNT), 1, 8, 0};
    lh_draw other = {reference->max(y, COUNT), 1, 8, 0};
    for (; draw.position < draws; draw.position++, other.position++)
        same += reference->draw(x, COUNT, &draw) == reference->draw(y, COUNT, &other);
    assert_in_range(same, draws * 9 / 10, draws - 1);
    free(x);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_gives_the_known_answers),
        cmocka_unit_test(test_the_noise_is_the_double_logarithm_of_its_word),
        cmocka_unit_test(test_seed_position_and_token_count_in_full),
        cmocka_unit_test(test_rare_tokens_are_as_rare_as_they_should_be),
        cmocka_unit_test(test_slopes_at_any_temperature),
        cmocka_unit_test(test_a_large_vocabulary),
        cmocka_unit_test(test_every_set_draws_the_token_of_the_reference),
        cmocka_unit_test(test_extreme_temperatures_and_logits),
        cmocka_unit_test(test_the_reach_of_a_lead),
        cmocka_unit_test(test_of_equals_the_lowest_leads),
        cmocka_unit_test(test_similar_logits_draw_the_same_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
