#include "tests/support/gguf_writer.h"
#include "tests/worker/support/same_answer.h"
#include "worker/compute/stage/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#define VOCABULARY 1000u
#define SMALL      8u

static const lh_kernels *kernels;
static void *scratch;
static float *logits; /* [VOCABULARY], aligned */

static int set_up(void **state) {
    (void)state;
    kernels = lh_kernels_at(0);
    scratch = aligned_alloc(64, (lh_sampler_scratch_bytes(VOCABULARY) + 63) / 64 * 64);
    logits = aligned_alloc(64, (VOCABULARY * sizeof(float) + 63) / 64 * 64);
    return !scratch || !logits;
}

static int tear_down(void **state) {
    (void)state;
    free(logits);
    free(scratch);
    return 0;
}

static lh_sampling plain(float temperature) {
    return (lh_sampling){.temperature = temperature, .top_p = 1, .repetition_penalty = 1};
}

/* With room for logprobs, which a few answers later is used again. */
static lh_row_answer empty_answer(void) {
    static lh_token_logprob tops[4][LH_TOP_LOGPROBS_MAX];
    static uint32_t next;
    return (lh_row_answer){.top = tops[next++ % 4]};
}

static lh_row_answer sample(const float *values, uint32_t vocabulary, const lh_sampling *sampling) {
    lh_row_answer result = empty_answer();
    lh_error error;
    memcpy(logits, values, vocabulary * sizeof *values);
    assert_int_equal(lh_sampling_check(sampling, vocabulary, NULL), LH_OK);
    if (lh_sample(kernels, logits, vocabulary, sampling, NULL, scratch, &result, &error) != LH_OK)
        fail_msg("%s", error.message);
    return result;
}

/* Which of SMALL tokens are drawn at all in many draws. */
static unsigned drawn_set(const float *values, lh_sampling sampling) {
    unsigned set = 0;
    for (sampling.counter = 0; sampling.counter < 2000; sampling.counter++)
        set |= 1u << sample(values, SMALL, &sampling).token;
    return set;
}

/* ---- Masks ---- */

static lh_row_answer sample_masked(const float *values, const lh_sampling *sampling,
                                   uint64_t mask) {
    lh_row_answer result = empty_answer();
    lh_error error;
    memcpy(logits, values, SMALL * sizeof *values);
    if (lh_sample(kernels, logits, SMALL, sampling, &mask, scratch, &result, &error) != LH_OK)
        fail_msg("%s", error.message);
    return result;
}

/* As if the forbidden tokens did not exist: the same draw as from logits that are -inf there,
 * whatever else is asked for. */
static void test_a_mask_comes_before_everything(void **state) {
    (void)state;
    const float values[SMALL] = {1, 5, 2, 5, -1, 5, 0, 4};
    const lh_token_bias biases[] = {{1, 100}, {6, 1.5f}};
    const lh_token_count counts[] = {{2, 1, 1}, {3, 0, 2}};
    for (uint64_t mask = 1; mask < 1u << SMALL; mask++) {
        float masked[SMALL];
        lh_sampling sampling = plain(mask % 3 == 0 ? 0 : 0.9f);
        sampling.top_k = mask % 4;
        sampling.top_p = mask % 5 ? 1 : 0.8f;
        sampling.repetition_penalty = 1.2f;
        sampling.presence_penalty = 0.5f;
        sampling.counter = mask;
        sampling.biases = biases;
        sampling.bias_count = 2;
        sampling.counts = counts;
        sampling.count_count = 2;
        sampling.want_logprob = true;
        sampling.top_logprobs = 3;
        for (uint32_t i = 0; i < SMALL; i++)
            masked[i] = mask >> i & 1 ? values[i] : -INFINITY;
        lh_row_answer drawn = sample_masked(values, &sampling, mask),
                      expected = sample(masked, SMALL, &sampling);
        assert_true(mask >> drawn.token & 1);
        assert_true(same_draw(&drawn, &expected));
        uint32_t allowed = (uint32_t)__builtin_popcountll(mask);
        assert_int_equal(drawn.top_count, allowed < 3 ? allowed : 3);
    }
}

/* As the gateway says of a token that it does not have drawn. */
static void test_the_only_token_has_all_of_the_probability(void **state) {
    (void)state;
    const float values[SMALL] = {1, 5, 2, 5, -1, 5, 0, 4};
    lh_sampling sampling = plain(0.7f);
    sampling.want_logprob = sampling.want_digest = true;
    sampling.top_logprobs = 5;
    lh_row_answer result = sample_masked(values, &sampling, 1u << 4);
    assert_int_equal(result.token, 4);
    assert_true(result.logprob == 0 && result.top_count == 1 && result.top[0].token == 4 &&
                result.top[0].logprob == 0);
    assert_true(result.digest == XXH3_64bits(values, sizeof values)); /* of the raw ones */
}

/* Words of all tokens, of none and mixed, and an end within a word. */
static void test_a_mask_of_many_words(void **state) {
    (void)state;
    static float values[VOCABULARY];
    uint64_t mask[(VOCABULARY + 63) / 64] = {0, UINT64_MAX, 0x8000000000000001u};
    mask[15] = (uint64_t)1 << (VOCABULARY - 1) % 64;
    lh_sampling sampling = plain(1);
    lh_error error;
    uint32_t last = 0;
    for (sampling.counter = 0; sampling.counter < 500; sampling.counter++) {
        lh_row_answer result = empty_answer();
        memcpy(logits, values, sizeof values);
        assert_int_equal(
            lh_sample(kernels, logits, VOCABULARY, &sampling, mask, scratch, &result, &error),
            LH_OK);
        assert_true(mask[result.token / 64] >> result.token % 64 & 1);
        last += result.token == VOCABULARY - 1;
    }
    assert_in_range(last, 1, 30); /* of 67 tokens */
}

/* ---- Greedy ---- */

static void test_greedy_takes_the_lowest_of_equals(void **state) {
    (void)state;
    const float values[SMALL] = {1, 5, 2, 5, -1, 5, 0, 4};
    lh_sampling sampling = plain(0);
    assert_int_equal(sample(values, SMALL, &sampling).token, 1);
    sampling.top_k = 1; /* a draw among one: the same one */
    sampling.temperature = 1;
    assert_int_equal(sample(values, SMALL, &sampling).token, 1);
}

static void test_bias(void **state) {
    (void)state;
    const float values[SMALL] = {1, 5, 2, 0, 0, 0, 0, 0};
    const lh_token_bias biases[] = {{1, -100}, {6, 1.5f}};
    lh_sampling sampling = plain(0);
    sampling.biases = biases;
    sampling.bias_count = 1;
    assert_int_equal(sample(values, SMALL, &sampling).token, 2);
    const lh_token_bias more[] = {{1, -100}, {6, 2.5f}};
    sampling.biases = more;
    sampling.bias_count = 2;
    assert_int_equal(sample(values, SMALL, &sampling).token, 6);
}

static void test_repetition_penalty_counts_prompt_and_output(void **state) {
    (void)state;
    const float values[SMALL] = {-1, 4, 3, 2, -1, -1, -1, -1};
    const lh_token_count counts[] = {{1, 1, 0}, {2, 0, 1}};
    lh_sampling sampling = plain(0);
    sampling.counts = counts;
    sampling.count_count = 2;
    sampling.repetition_penalty = 1.25f; /* 3.2, 2.4, 2 */
    assert_int_equal(sample(values, SMALL, &sampling).token, 1);
    sampling.repetition_penalty = 2.5f; /* 1.6, 1.2, 2 */
    assert_int_equal(sample(values, SMALL, &sampling).token, 3);
    /* a negative logit is multiplied */
    const float negative[SMALL] = {-2, -1, -9, -9, -9, -9, -9, -9};
    sampling.count_count = 1;
    assert_int_equal(sample(negative, SMALL, &sampling).token, 0);
}

static void test_presence_and_frequency_count_output_alone(void **state) {
    (void)state;
    const float values[SMALL] = {0, 4, 3, 2, 0, 0, 0, 0};
    const lh_token_count prompt_only[] = {{1, 9, 0}}, thrice[] = {{1, 0, 3}};
    lh_sampling sampling = plain(0);
    sampling.count_count = 1;
    sampling.counts = prompt_only;
    sampling.presence_penalty = sampling.frequency_penalty = 2;
    assert_int_equal(sample(values, SMALL, &sampling).token, 1);
    sampling.counts = thrice;
    sampling.presence_penalty = 1.5f;
    sampling.frequency_penalty = 0;
    assert_int_equal(sample(values, SMALL, &sampling).token, 2);
    sampling.presence_penalty = 0;
    sampling.frequency_penalty = 0.3f; /* 4 - 0.9 = 3.1 */
    assert_int_equal(sample(values, SMALL, &sampling).token, 1);
    sampling.frequency_penalty = 0.4f; /* 4 - 1.2 = 2.8 */
    assert_int_equal(sample(values, SMALL, &sampling).token, 2);
}

/* ---- The draw ---- */

/* Pearson's test of `draws` draws against p[SMALL], at a level of 1e-4 and 7 degrees of freedom. */
static void check_distribution(const float *values, lh_sampling sampling, const double *p) {
    enum { DRAWS = 1000000 };
    unsigned counts[SMALL] = {0};
    double statistic = 0;
    for (sampling.counter = 0; sampling.counter < DRAWS; sampling.counter++)
        counts[sample(values, SMALL, &sampling).token]++;
    for (uint32_t i = 0; i < SMALL; i++) {
        double expected = DRAWS * p[i], difference = counts[i] - expected;
        if (p[i] == 0)
            assert_int_equal(counts[i], 0);
        else
            statistic += difference * difference / expected;
    }
    assert_true(statistic < 29.9);
}

static const float slope[SMALL] = {0, 1, 2, -1, 0.5f, 1.5f, -0.5f, 0.25f};

static void fill_softmax(double *p, const float *values, double temperature) {
    double sum = 0;
    for (uint32_t i = 0; i < SMALL; i++) {
        p[i] = exp((double)values[i] / temperature);
        sum += p[i];
    }
    for (uint32_t i = 0; i < SMALL; i++)
        p[i] /= sum;
}

static void test_distribution_by_temperature(void **state) {
    (void)state;
    const float temperatures[] = {1, 0.5f, 2};
    for (size_t i = 0; i < 3; i++) {
        double p[SMALL];
        fill_softmax(p, slope, (double)temperatures[i]);
        lh_sampling sampling = plain(temperatures[i]);
        sampling.seed = 11;
        check_distribution(slope, sampling, p);
    }
}

/* Truncated to the best four and normalized: descending 2, 5, 1, 4. */
static void test_distribution_by_top_k(void **state) {
    (void)state;
    double p[SMALL];
    fill_softmax(p, slope, 1);
    double kept = p[2] + p[5] + p[1] + p[4];
    for (uint32_t i = 0; i < SMALL; i++)
        p[i] = i == 2 || i == 5 || i == 1 || i == 4 ? p[i] / kept : 0;
    lh_sampling sampling = plain(1);
    sampling.top_k = 4;
    sampling.seed = 5;
    check_distribution(slope, sampling, p);
}

/* Half, a quarter, an eighth ...: exact in the kernels' exp or not, the cuts lie between. */
static void test_top_p(void **state) {
    (void)state;
    float values[SMALL];
    for (uint32_t i = 0; i < SMALL; i++) {
        /* token 5 is the best, then 6, 7, 0 ... */
        values[i] = -(float)M_LN2 * (float)((i + 3) % SMALL);
    }
    lh_sampling sampling = plain(1);
    sampling.top_p = 0.4f;
    assert_int_equal(drawn_set(values, sampling), 1u << 5);
    sampling.top_p = 0.6f;
    assert_int_equal(drawn_set(values, sampling), 1u << 5 | 1u << 6);
    sampling.top_p = 0.85f;
    assert_int_equal(drawn_set(values, sampling), 1u << 5 | 1u << 6 | 1u << 7);
    sampling.top_p = 0;
    assert_int_equal(drawn_set(values, sampling), 1u << 5);
    sampling.top_p = 0.999999f;
    assert_int_equal(drawn_set(values, sampling), 0xff);
}

/* Of the best two (2/3 and 1/3), top-p 0.6 leaves one; of all, it would leave two. */
static void test_top_p_counts_what_top_k_left(void **state) {
    (void)state;
    float values[SMALL];
    for (uint32_t i = 0; i < SMALL; i++)
        values[i] = -(float)M_LN2 * (float)i;
    lh_sampling sampling = plain(1);
    sampling.top_p = 0.6f;
    sampling.top_k = 2;
    assert_int_equal(drawn_set(values, sampling), 1);
    sampling.top_p = 0.7f;
    assert_int_equal(drawn_set(values, sampling), 3);
    sampling.min_p = 0.9f;
    assert_int_equal(drawn_set(values, sampling), 1);
}

/* All three cut one order, min-p last: it takes no share of what top-p counts. */
static void test_min_p_beside_top_k_and_top_p(void **state) {
    (void)state;
    float values[SMALL];
    const float weights[SMALL] = {1, 0.5f, 0.4f, 0.3f, 0.3f, 0.01f, 0.01f, 0.01f};
    for (uint32_t i = 0; i < SMALL; i++)
        values[i] = logf(weights[i]);
    lh_sampling sampling = plain(1);
    sampling.top_k = 5; /* 2.5 in all */
    sampling.top_p =
        0.62f; /* 1.55: tokens 0, 1 and 2; of 0 and 1 alone it would be 0.93: token 0 */
    assert_int_equal(drawn_set(values, sampling), 7);
    sampling.min_p = 0.45f;
    assert_int_equal(drawn_set(values, sampling), 3);
    sampling.min_p = 0.35f; /* top-p ends before it */
    assert_int_equal(drawn_set(values, sampling), 7);
    sampling.min_p = 0.6f;
    assert_int_equal(drawn_set(values, sampling), 1);
}

static void test_min_p(void **state) {
    (void)state;
    float values[SMALL];
    for (uint32_t i = 0; i < SMALL; i++)
        values[i] = -(float)M_LN2 * (float)i;
    lh_sampling sampling = plain(1);
    sampling.min_p = 0.2f;
    assert_int_equal(drawn_set(values, sampling), 7);
    sampling.min_p = 1;
    assert_int_equal(drawn_set(values, sampling), 1);
    sampling.min_p = 0.2f;
    sampling.top_k = 2;
    assert_int_equal(drawn_set(values, sampling), 3);
}

static void test_ties_at_a_cut_go_to_the_lower_token(void **state) {
    (void)state;
    const float values[SMALL] = {1, 1, 1, 1, 1, 1, 1, 1};
    lh_sampling sampling = plain(1);
    sampling.top_k = 3;
    assert_int_equal(drawn_set(values, sampling), 7);
    sampling.top_k = 0;
    sampling.top_p = 0.5f;
    assert_int_equal(drawn_set(values, sampling), 15);
    sampling.top_p = 1;
    sampling.top_k = SMALL + 5;
    assert_int_equal(drawn_set(values, sampling), 0xff);
}

static int by_logit(const void *a, const void *b) {
    const lh_token_logprob *x = a, *y = b;
    if (x->logprob != y->logprob)
        return x->logprob < y->logprob ? 1 : -1;
    return x->token < y->token ? -1 : 1;
}

/* Against sorting everything, on a vocabulary with many equal logits. */
static void test_cuts_against_a_full_sort(void **state) {
    (void)state;
    uint64_t random = 9;
    float values[VOCABULARY];
    lh_token_logprob sorted[VOCABULARY];
    for (int round = 0; round < 60; round++) {
        double total = 0, sum = 0;
        for (uint32_t i = 0; i < VOCABULARY; i++) {
            values[i] = (float)(test_random(&random) % 40) * 0.25f;
            sorted[i] = (lh_token_logprob){i, values[i]};
            total += exp((double)values[i]);
        }
        qsort(sorted, VOCABULARY, sizeof sorted[0], by_logit);
        lh_sampling sampling = plain(1);
        sampling.seed = (uint64_t)round;
        sampling.top_k = round % 2 ? 1 + (uint32_t)(test_random(&random) % 50) : 0;
        sampling.top_p =
            round % 2 ? 1 : 0.05f + 0.9f * (float)(test_random(&random) % 1000) * 1e-3f;
        uint32_t kept = sampling.top_k;
        for (uint32_t i = 0; kept == 0; i++) {
            sum += exp((double)sorted[i].logprob);
            kept = sum >= (double)sampling.top_p * total ? i + 1 : 0;
        }
        for (sampling.counter = 0; sampling.counter < 50; sampling.counter++) {
            uint32_t token = sample(values, VOCABULARY, &sampling).token, place = 0;
            while (sorted[place].token != token)
                place++;
            /* one ulp may move top-p's cut by one */
            assert_true(place < kept + (sampling.top_k == 0));
        }
    }
}

static void test_replay_draws_the_same(void **state) {
    (void)state;
    uint64_t random = 3;
    float values[VOCABULARY];
    unsigned same_seed = 0, other_seed = 0;
    for (uint32_t i = 0; i < VOCABULARY; i++)
        values[i] = test_random_float(&random, 3);
    lh_sampling sampling = plain(1);
    for (sampling.counter = 0; sampling.counter < 200; sampling.counter++) {
        uint32_t token = sample(values, VOCABULARY, &sampling).token;
        same_seed += sample(values, VOCABULARY, &sampling).token == token;
        sampling.seed = 1;
        other_seed += sample(values, VOCABULARY, &sampling).token == token;
        sampling.seed = 0;
    }
    assert_int_equal(same_seed, 200);
    assert_true(other_seed < 20);
}

static void test_every_instruction_set_draws_the_same(void **state) {
    (void)state;
    uint64_t random = 4;
    float values[VOCABULARY];
    for (int round = 0; round < 100; round++) {
        for (uint32_t i = 0; i < VOCABULARY; i++)
            values[i] = test_random_float(&random, 10);
        lh_sampling sampling = plain(0.8f);
        sampling.counter = (uint64_t)round;
        sampling.top_p = round % 2 ? 0.9f : 1;
        sampling.want_logprob = true;
        sampling.top_logprobs = 5;
        kernels = lh_kernels_at(0);
        lh_row_answer expected = sample(values, VOCABULARY, &sampling);
        for (size_t i = 1; lh_kernels_at(i); i++) {
            kernels = lh_kernels_at(i);
            lh_row_answer got = sample(values, VOCABULARY, &sampling);
            assert_true(same_draw(&got, &expected));
        }
    }
    kernels = lh_kernels_at(0);
}

static void test_extreme_temperatures(void **state) {
    (void)state;
    lh_sampling sampling = plain(1e-6f);
    assert_int_equal(drawn_set(slope, sampling), 1u << 2);
    sampling.temperature = 1e6f;
    assert_int_equal(drawn_set(slope, sampling), 0xff);
    const float far[SMALL] = {-3e38f, 3e38f, -INFINITY, 0, 1, 2, 3, 4};
    sampling.temperature = 1;
    assert_int_equal(drawn_set(far, sampling), 2);
}

/* ---- Logprobs ---- */

static void test_logprobs(void **state) {
    (void)state;
    uint64_t random = 6;
    float values[VOCABULARY];
    double sum = 0;
    for (uint32_t i = 0; i < VOCABULARY; i++) {
        values[i] = test_random_float(&random, 5);
        sum += exp((double)values[i]);
    }
    values[17] = values[900] = 6;
    sum = 0;
    for (uint32_t i = 0; i < VOCABULARY; i++)
        sum += exp((double)values[i]);
    lh_sampling sampling = plain(0.7f); /* which logprobs do not see */
    sampling.top_k = 5;
    sampling.want_logprob = true;
    sampling.top_logprobs = LH_TOP_LOGPROBS_MAX;
    lh_row_answer result = sample(values, VOCABULARY, &sampling);
    assert_true(fabs((double)result.logprob - ((double)values[result.token] - log(sum))) < 1e-5);
    assert_int_equal(result.top_count, LH_TOP_LOGPROBS_MAX);
    assert_int_equal(result.top[0].token, 17);
    assert_int_equal(result.top[1].token, 900);
    for (uint32_t i = 0; i < result.top_count; i++) {
        assert_true(fabs((double)result.top[i].logprob -
                         ((double)values[result.top[i].token] - log(sum))) < 1e-5);
        assert_true(i == 0 || result.top[i].logprob <= result.top[i - 1].logprob);
    }
}

static void test_logprobs_add_up_to_one(void **state) {
    (void)state;
    double sum = 0;
    lh_sampling sampling = plain(0);
    sampling.top_logprobs = LH_TOP_LOGPROBS_MAX;
    lh_row_answer result = sample(slope, SMALL, &sampling);
    assert_int_equal(result.top_count, SMALL); /* no more than there are */
    assert_true(result.logprob == 0);
    for (uint32_t i = 0; i < SMALL; i++)
        sum += exp((double)result.top[i].logprob);
    assert_true(fabs(sum - 1) < 1e-6);
}

static void test_digest_is_of_the_raw_logits(void **state) {
    (void)state;
    const lh_token_bias bias = {1, -100};
    lh_sampling sampling = plain(0);
    assert_int_equal(sample(slope, SMALL, &sampling).digest, 0);
    sampling.want_digest = true;
    sampling.biases = &bias;
    sampling.bias_count = 1;
    assert_true(sample(slope, SMALL, &sampling).digest == XXH3_64bits(slope, sizeof slope));
}

/* ---- Errors ---- */

static void test_cuts_have_a_largest_vocabulary(void **state) {
    (void)state;
    lh_sampling sampling = plain(1);
    lh_error error;
    assert_int_equal(lh_sampling_check(&sampling, 1u << 24, &error), LH_OK);
    sampling.top_k = 5;
    assert_int_equal(lh_sampling_check(&sampling, (1u << 24) - 1, &error), LH_OK);
    assert_int_equal(lh_sampling_check(&sampling, 1u << 24, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "16777215"));
}

static void check_refused(const float *values, const char *words) {
    lh_row_answer result = empty_answer();
    lh_error error;
    lh_sampling sampling = plain(1);
    memcpy(logits, values, SMALL * sizeof *values);
    assert_int_equal(lh_sample(kernels, logits, SMALL, &sampling, NULL, scratch, &result, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, words));
}

static void test_bad_logits(void **state) {
    (void)state;
    const float not_a_number[SMALL] = {0, 1, 2, NAN, 4, 5, 6, 7};
    const float infinite[SMALL] = {0, 1, 2, 3, 4, 5, 6, INFINITY};
    const float nothing[SMALL] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY,
                                  -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    check_refused(not_a_number, "token 3");
    check_refused(infinite, "token 7");
    check_refused(nothing, "every logit");
}

/* In a vocabulary of many, at any place, the first one is told. */
static void test_one_bad_logit_among_many(void **state) {
    (void)state;
    static float values[VOCABULARY];
    lh_sampling sampling = plain(1);
    for (uint32_t bad = 0; bad < VOCABULARY; bad++) {
        lh_row_answer result = empty_answer();
        lh_error error;
        char words[32];
        snprintf(words, sizeof words, "token %u is", bad);
        memcpy(logits, values, sizeof values);
        logits[bad] = bad % 2 ? NAN : INFINITY;
        logits[VOCABULARY - 1] = INFINITY;
        assert_int_equal(
            lh_sample(kernels, logits, VOCABULARY, &sampling, NULL, scratch, &result, &error),
            LH_ERR_INVALID);
        assert_non_null(strstr(error.message, words));
    }
}

static void test_bad_requests(void **state) {
    (void)state;
    const lh_token_bias outside = {SMALL, 1}, endless = {1, INFINITY};
    const lh_token_count count_outside = {SMALL, 1, 1};
    lh_error error;
#define REFUSED(status, words, ...)                                                                \
    do {                                                                                           \
        lh_sampling sampling = plain(1);                                                           \
        __VA_ARGS__;                                                                               \
        assert_int_equal(lh_sampling_check(&sampling, SMALL, &error), status);                     \
        assert_non_null(strstr(error.message, words));                                             \
    } while (0)
    REFUSED(LH_ERR_INVALID, "temperature", sampling.temperature = -1);
    REFUSED(LH_ERR_INVALID, "temperature", sampling.temperature = NAN);
    REFUSED(LH_ERR_INVALID, "top_p", sampling.top_p = 1.5f);
    REFUSED(LH_ERR_INVALID, "min_p", sampling.min_p = -0.5f);
    REFUSED(LH_ERR_INVALID, "repetition_penalty", sampling.repetition_penalty = 0);
    REFUSED(LH_ERR_INVALID, "presence_penalty", sampling.presence_penalty = INFINITY);
    REFUSED(LH_ERR_INVALID, "frequency_penalty", sampling.frequency_penalty = NAN);
    REFUSED(LH_ERR_LIMIT, "top_logprobs", sampling.top_logprobs = LH_TOP_LOGPROBS_MAX + 1);
    REFUSED(LH_ERR_LIMIT, "token 8", sampling.bias_count = 1; sampling.biases = &outside);
    REFUSED(LH_ERR_INVALID, "bias", sampling.bias_count = 1; sampling.biases = &endless);
    REFUSED(LH_ERR_LIMIT, "token 8", sampling.count_count = 1; sampling.counts = &count_outside);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_mask_comes_before_everything),
        cmocka_unit_test(test_the_only_token_has_all_of_the_probability),
        cmocka_unit_test(test_a_mask_of_many_words),
        cmocka_unit_test(test_greedy_takes_the_lowest_of_equals),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_repetition_penalty_counts_prompt_and_output),
        cmocka_unit_test(test_presence_and_frequency_count_output_alone),
        cmocka_unit_test(test_distribution_by_temperature),
        cmocka_unit_test(test_distribution_by_top_k),
        cmocka_unit_test(test_top_p),
        cmocka_unit_test(test_top_p_counts_what_top_k_left),
        cmocka_unit_test(test_min_p_beside_top_k_and_top_p),
        cmocka_unit_test(test_min_p),
        cmocka_unit_test(test_ties_at_a_cut_go_to_the_lower_token),
        cmocka_unit_test(test_cuts_against_a_full_sort),
        cmocka_unit_test(test_replay_draws_the_same),
        cmocka_unit_test(test_every_instruction_set_draws_the_same),
        cmocka_unit_test(test_extreme_temperatures),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_logprobs_add_up_to_one),
        cmocka_unit_test(test_digest_is_of_the_raw_logits),
        cmocka_unit_test(test_bad_logits),
        cmocka_unit_test(test_one_bad_logit_among_many),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_cuts_have_a_largest_vocabulary),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
