/* The bytes of what rows ask and of what they are answered, kept as they are: other releases read
 * them. The digests were taken of bytes that the codec of 2026-11 wrote. */
#include "common/protocol/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES_MAX 8192u

/* FNV-1a: the frames hold checksums of their own, which say nothing of a byte that moved. */
static uint64_t digest_of(const uint8_t *bytes, size_t length) {
    uint64_t digest = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return digest;
}

static const lh_token_bias biases[] = {{9, -100.0f}, {10, 0.5f}};
static const lh_token_count counts[] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
static const lh_sampling plain = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
static const lh_sampling full = {.temperature = 0.75f,
                                 .top_k = 40,
                                 .top_p = 0.9f,
                                 .min_p = 0.05f,
                                 .repetition_penalty = 1.1f,
                                 .presence_penalty = -0.5f,
                                 .frequency_penalty = 0.25f,
                                 .seed = 42,
                                 .counter = 8,
                                 .want_logprob = true,
                                 .want_digest = true,
                                 .top_logprobs = 5,
                                 .mask = 0xfedcba9876543210u,
                                 .bias_count = 2,
                                 .count_count = 3,
                                 .biases = biases,
                                 .counts = counts};

static void test_asks_keep_their_bytes(void **state) {
    (void)state;
    static const uint32_t tokens[15] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const lh_step_segment segments[] = {
        {.sequence = 1, .first_position = 9, .rows = 1, .sample = true, .sampling = plain},
        {.sequence = 2, .first_position = 7, .rows = 1, .sample = true, .sampling = full},
        {.sequence = 3, .rows = 3, .scoring = {.first_row = 1, .rows = 2, .next_token = 77}},
        {.sequence = 4,
         .rows = 4,
         .sample = true,
         .sampling = plain,
         .scoring = {.rows = 3, .top = 20, .next_token = LH_STEP_NO_TOKEN}},
        {.sequence = 5, .rows = 3, .pooling = {.first_row = 1, .rows = 2}},
        {.sequence = 6,
         .first_position = 64,
         .rows = 2,
         .forks = true,
         .source = 5,
         .sample = true,
         .sampling = full},
        {.sequence = 7, .first_position = 3, .rows = 1}};
    const lh_step_manifest manifest = {.epoch = 3,
                                       .step = 77,
                                       .step_class = LH_STEP_PREFILL,
                                       .rows = 15,
                                       .tokens = tokens,
                                       .segment_count = 7,
                                       .segments = segments};
    uint8_t bytes[BYTES_MAX];
    size_t length = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, bytes, sizeof bytes, &length, NULL), LH_OK);
    assert_int_equal(length, lh_step_manifest_bytes(&manifest));
    assert_int_equal(length, 676);
    assert_true(digest_of(bytes, length) == 0x562eb9eb33d9692bu);
}

static void test_answers_keep_their_bytes(void **state) {
    (void)state;
    lh_token_score scores[] = {
        {.logprob = -0.5f, .rank = 1},
        {.logprob = -1.5f, .rank = 3, .top_count = 2, .top = {{8, -0.25f}, {9, -0.75f}}},
        {.logprob = -2.5f, .rank = 2}};
    int64_t sums[] = {-1, 0x123456789, 0};
    const lh_step_result results[] = {
        {.sequence = 1, .position = 2, .sample.token = 3},
        {.sequence = 2,
         .position = 4,
         .sample.token = 5,
         .sample.logprob = -0.5f,
         .sample.top_count = 2,
         .sample.top = {{5, -0.5f}, {6, -1.5f}},
         .sample.digest = 0xfeedu},
        {.sequence = 3,
         .position = 3,
         .sample.token = LH_STEP_NO_TOKEN,
         .score_count = 2,
         .scores = scores},
        {.sequence = 4, .position = 4, .sample.token = 9, .score_count = 1, .scores = scores + 2},
        {.sequence = 5,
         .position = 3,
         .sample.token = LH_STEP_NO_TOKEN,
         .pooled_count = 3,
         .pooled = sums},
    };
    uint8_t bytes[BYTES_MAX];
    size_t length = 0;
    assert_int_equal(lh_step_encode_results(results, 5, bytes, sizeof bytes, &length, NULL), LH_OK);
    assert_int_equal(length, lh_step_results_bytes(results, 5));
    assert_int_equal(length, 312);
    assert_true(digest_of(bytes, length) == 0x9c06cae2006efb54u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks_keep_their_bytes),
        cmocka_unit_test(test_answers_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
