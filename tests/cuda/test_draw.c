/* Draws from rows of logits, against the reference's draw among what a full sort leaves, token for
 * token; and what comes before a draw, against plain C, bit for bit. */
#include "kernels/cuda/cuda_kernels.h"
#include "tests/cuda/support/emulated_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Expected draws ---- */

static float *probabilities; /* of the row that is sorted */

static int best_first(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (probabilities[x] != probabilities[y])
        return probabilities[x] < probabilities[y] ? 1 : -1;
    return x < y ? -1 : 1;
}

static uint64_t mass_of(uint32_t token) {
    return (uint64_t)((double)probabilities[token] * 0x1p40);
}

/* How many of order[sorted] the cuts leave (worker/compute/stage/candidates.h). */
static uint32_t left_of(const uint32_t *order, uint32_t sorted, const lh_cuda_draw_row *draw) {
    uint32_t left = draw->top_k > 0 && draw->top_k < sorted ? draw->top_k : sorted;
    if (draw->top_p < 1) {
        uint32_t taken = 0;
        unsigned __int128 total = 0, sum = 0;
        for (uint32_t i = 0; i < left; i++)
            total += mass_of(order[i]);
        total = total * (uint64_t)((double)draw->top_p * 0x1p32) >> 32;
        while (taken < left && (taken == 0 || sum < total))
            sum += mass_of(order[taken++]);
        left = taken;
    }
    while (left > 1 && probabilities[order[left - 1]] < draw->min_p)
        left--;
    return left;
}

static uint32_t expected_token(const float *x, uint32_t count, const lh_cuda_draw_row *row) {
    const lh_kernels *reference = lh_kernels_at(0);
    uint32_t *order = test_alloc(count * sizeof *order), sorted = 0, token = 0;
    probabilities = test_alloc(count * sizeof *probabilities);
    lh_draw draw = {reference->max(x, count), row->temperature, row->seed, row->position};
    bool is_cut = row->top_k > 0 || row->top_p < 1 || row->min_p > 0;
    if (row->temperature == 0) {
        while (x[token] != draw.max)
            token++;
    } else if (!is_cut) {
        token = reference->draw(x, count, &draw);
    } else {
        for (uint32_t i = 0; i < count; i++)
            probabilities[i] = (x[i] - draw.max) / draw.temperature;
        reference->exp_sum(probabilities, probabilities, 0, count);
        for (uint32_t i = 0; i < count; i++)
            if (probabilities[i] > 0)
                order[sorted++] = i;
        qsort(order, sorted, sizeof *order, best_first);
        token = reference->draw_among(x, order, left_of(order, sorted, row), &draw);
    }
    free(order);
    free(probabilities);
    return token;
}

/* ---- Draws ---- */

static void draw_emulated(uint32_t *tokens, const float *x, size_t stride, uint32_t rows,
                          uint32_t count, const lh_cuda_draw_row *draws) {
    void *scratch = test_alloc(lh_cuda_draw_scratch_bytes(rows, count));
    memset(scratch, 0xff, lh_cuda_draw_scratch_bytes(rows, count));
    lh_cuda_cuts cuts = {false, false};
    for (uint32_t i = 0; i < rows; i++) {
        cuts.top_k |= draws[i].top_k > 0;
        cuts.top_p |= draws[i].top_p < 1;
    }
    assert_int_equal(lh_cuda_draw(NULL, tokens, x, stride, rows, count, draws, cuts, scratch), 0);
    free(scratch);
}

static void fill_row(test_random *random, float *x, uint32_t count) {
    static const float spreads[] = {0, 1, 8, 60};
    float spread = spreads[random_between(random, 0, 3)];
    uint32_t steps = random_between(random, 0, 2), masked = random_between(random, 0, 3);
    for (uint32_t i = 0; i < count; i++) {
        x[i] = random_float(random) * spread;
        if (steps == 0) /* many equals */
            x[i] = rintf(x[i]);
        if (masked == 0 && random_between(random, 0, 1))
            x[i] = -INFINITY;
    }
    x[random_between(random, 0, count - 1)] = spread;
}

static lh_cuda_draw_row random_draw(test_random *random, uint32_t count) {
    lh_cuda_draw_row draw = {.temperature = random_between(random, 0, 1) ? 1 : 0.7f,
                             .top_p = 1,
                             .seed = random_bits(random),
                             .position = random_bits(random)};
    if (random_between(random, 0, 9) == 0)
        draw.temperature = 0;
    if (random_between(random, 0, 1))
        draw.top_k = random_between(random, 0, random_between(random, 0, 1) ? 60 : count + 2);
    if (random_between(random, 0, 1))
        draw.top_p = (float)random_between(random, 0, 1000) * 1e-3f;
    if (random_between(random, 0, 3) == 0)
        draw.min_p = (float)random_between(random, 0, 1000) * 1e-3f;
    return draw;
}

static void check_rows(test_random *random, uint32_t rows, uint32_t count) {
    size_t stride = count + random_between(random, 0, 5);
    float *x = test_alloc(((rows - 1) * stride + count) * sizeof *x);
    uint32_t *tokens = test_alloc(rows * sizeof *tokens);
    lh_cuda_draw_row *draws = test_alloc(rows * sizeof *draws);
    for (uint32_t row = 0; row < rows; row++) {
        fill_row(random, x + row * stride, count);
        draws[row] = random_draw(random, count);
    }
    draw_emulated(tokens, x, stride, rows, count, draws);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t expected = expected_token(x + row * stride, count, &draws[row]);
        if (tokens[row] != expected)
            fail_msg("%u of %u, not %u: temperature %g, top-k %u, top-p %g, min-p %g", tokens[row],
                     count, expected, (double)draws[row].temperature, draws[row].top_k,
                     (double)draws[row].top_p, (double)draws[row].min_p);
    }
    free(x);
    free(tokens);
    free(draws);
}

static void test_any_draw_is_that_of_the_reference(void **state) {
    (void)state;
    test_random random = {91};
    for (uint32_t round = 0; round < 40; round += test_stride(4)) {
        emulated_order(round);
        check_rows(&random, random_between(&random, 1, 5), random_between(&random, 1, 300));
    }
    for (uint32_t round = 0; round < 8; round += test_stride(4)) {
        emulated_order(round);
        check_rows(&random, random_between(&random, 1, 4), random_between(&random, 4000, 9000));
    }
}

/* More tokens than two digits can number. */
static void test_a_vocabulary_of_more_than_a_million(void **state) {
    (void)state;
    enum { COUNT = (1 << 20) + 2100 };
    float *x = test_alloc(COUNT * sizeof *x);
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = (float)(i % 7 == 0);
    uint32_t token, ends[] = {7, COUNT / 7, 1};
    for (uint32_t i = 0; i < 3; i += test_stride(3)) {
        lh_cuda_draw_row draw = {.temperature = 1, .top_k = ends[i], .top_p = 1, .seed = i};
        draw_emulated(&token, x, COUNT, 1, COUNT, &draw);
        assert_int_equal(token, expected_token(x, COUNT, &draw));
    }
    free(x);
}

/* One is left at least; and a cut among many that have next to nothing each. */
static void test_the_ends_of_top_p(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    static const float ends[] = {0, 1e-30f, 0x1p-32f, 0.5f, 0x1.fffffep-1f};
    float *x = test_alloc(COUNT * sizeof *x);
    uint32_t token;
    for (uint32_t i = 0; i < 30; i += test_stride(3)) {
        lh_cuda_draw_row draw = {.temperature = 1, .top_p = ends[i % 5], .seed = i};
        for (uint32_t j = 0; j < COUNT; j++)
            x[j] = i < 15 && j % 700 ? -22.87f : 0;
        draw_emulated(&token, x, COUNT, 1, COUNT, &draw);
        assert_int_equal(token, expected_token(x, COUNT, &draw));
    }
    free(x);
}

static void test_rows_without_a_distribution_draw_nothing(void **state) {
    (void)state;
    enum { ROWS = 4, COUNT = 2500 };
    float *x = random_floats(&(test_random){92}, ROWS * COUNT);
    uint32_t tokens[ROWS];
    lh_cuda_draw_row draws[ROWS];
    for (uint32_t row = 0; row < ROWS; row++)
        draws[row] = (lh_cuda_draw_row){.temperature = row == 2 ? 0 : 1, .top_p = 0.5f};
    x[2400] = NAN;
    x[COUNT + 3] = INFINITY;
    for (uint32_t i = 0; i < COUNT; i++)
        x[2 * COUNT + i] = -INFINITY;
    draw_emulated(tokens, x, COUNT, ROWS, COUNT, draws);
    for (uint32_t row = 0; row < 3; row++)
        assert_int_equal(tokens[row], UINT32_MAX);
    assert_int_equal(tokens[3], expected_token(x + 3 * COUNT, COUNT, &draws[3]));
    free(x);
}

/* ---- Before a draw ---- */

static void change_plainly(float *x, uint32_t count, const lh_cuda_logit_changes *c) {
    for (uint32_t i = 0; i < count; i++)
        if (c->mask && !(c->mask[i / 64] >> i % 64 & 1))
            x[i] = -INFINITY;
    for (uint32_t i = 0; i < c->bias_count; i++)
        x[c->biases[i].token] += c->biases[i].bias;
    for (uint32_t i = 0; i < c->count_count; i++) {
        const lh_cuda_token_count *of = &c->counts[i];
        float *logit = &x[of->token];
        if (of->prompt_count + of->output_count > 0)
            *logit = *logit > 0 ? *logit / c->repetition_penalty : *logit * c->repetition_penalty;
        if (of->output_count > 0) {
            float penalty = c->frequency_penalty * (float)of->output_count;
            *logit -= c->presence_penalty + penalty;
        }
    }
}

static void test_masks_biases_and_penalties(void **state) {
    (void)state;
    enum { ROWS = 5, COUNT = 700, STRIDE = 705, LISTED = 150 };
    test_random random = {93};
    float *x = random_floats(&random, ROWS * STRIDE), *expected = test_alloc(ROWS * STRIDE * 4);
    uint64_t masks[ROWS][(COUNT + 63) / 64];
    lh_cuda_token_bias biases[ROWS][LISTED];
    lh_cuda_token_count counts[ROWS][LISTED];
    lh_cuda_logit_changes changes[ROWS];
    memcpy(expected, x, ROWS * STRIDE * sizeof *x);
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t i = 0; i < (COUNT + 63) / 64; i++)
            masks[row][i] = random_bits(&random);
        for (uint32_t i = 0; i < LISTED; i++) {
            biases[row][i] = (lh_cuda_token_bias){i * 4 + row, random_float(&random)};
            counts[row][i] = (lh_cuda_token_count){i * 3, random_between(&random, 0, 1),
                                                   random_between(&random, 0, 4)};
        }
        changes[row] = (lh_cuda_logit_changes){.mask = row == 1 ? NULL : masks[row],
                                               .biases = biases[row],
                                               .counts = counts[row],
                                               .bias_count = row == 2 ? 0 : LISTED,
                                               .count_count = row == 3 ? 0 : LISTED,
                                               .repetition_penalty = 1.3f,
                                               .presence_penalty = 0.7f,
                                               .frequency_penalty = 0.1f};
        change_plainly(expected + row * STRIDE, COUNT, &changes[row]);
    }
    assert_int_equal(lh_cuda_change_logits(NULL, x, STRIDE, ROWS, COUNT, changes), 0);
    assert_same_floats(x, expected, ROWS * STRIDE, "logits");
    free(x);
    free(expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_draw_is_that_of_the_reference),
        cmocka_unit_test(test_a_vocabulary_of_more_than_a_million),
        cmocka_unit_test(test_the_ends_of_top_p),
        cmocka_unit_test(test_rows_without_a_distribution_draw_nothing),
        cmocka_unit_test(test_masks_biases_and_penalties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
