/* The bytes of what rows ask and of what they are answered, kept as they are: other releases read
 * them. The digests were taken of bytes that the codec of 2026-11 wrote. And how those who carry
 * asks and answers copy them. */
#include "common/protocol/step.h"
#include "common/protocol/step_frame.h"

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
        {.sequence = 1, .first_position = 9, .rows = 1, .ask.draws = true, .ask.sampling = plain},
        {.sequence = 2, .first_position = 7, .rows = 1, .ask.draws = true, .ask.sampling = full},
        {.sequence = 3, .rows = 3, .ask.scoring = {.first_row = 1, .rows = 2, .next_token = 77}},
        {.sequence = 4,
         .rows = 4,
         .ask.draws = true,
         .ask.sampling = plain,
         .ask.scoring = {.rows = 3, .top = 20, .next_token = LH_STEP_NO_TOKEN}},
        {.sequence = 5, .rows = 3, .ask.pooling = {.first_row = 1, .rows = 2}},
        {.sequence = 6,
         .first_position = 64,
         .rows = 2,
         .forks = true,
         .source = 5,
         .ask.draws = true,
         .ask.sampling = full},
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
    lh_token_logprob tops[] = {{5, -0.5f}, {6, -1.5f}};
    int64_t sums[] = {-1, 0x123456789, 0};
    const lh_step_result results[] = {
        {.sequence = 1, .position = 2, .answer.token = 3},
        {.sequence = 2,
         .position = 4,
         .answer.token = 5,
         .answer.logprob = -0.5f,
         .answer.top_count = 2,
         .answer.top = tops,
         .answer.digest = 0xfeedu},
        {.sequence = 3,
         .position = 3,
         .answer.token = LH_STEP_NO_TOKEN,
         .answer.score_count = 2,
         .answer.scores = scores},
        {.sequence = 4,
         .position = 4,
         .answer.token = 9,
         .answer.score_count = 1,
         .answer.scores = scores + 2},
        {.sequence = 5,
         .position = 3,
         .answer.token = LH_STEP_NO_TOKEN,
         .answer.pooled_count = 3,
         .answer.pooled = sums},
    };
    uint8_t bytes[BYTES_MAX];
    size_t length = 0;
    assert_int_equal(lh_step_encode_results(results, 5, bytes, sizeof bytes, &length, NULL), LH_OK);
    assert_int_equal(length, lh_step_results_bytes(results, 5));
    assert_int_equal(length, 312);
    assert_true(digest_of(bytes, length) == 0x9c06cae2006efb54u);
}

/* The first of two answers claims logprobs, for which the bytes of the second one would do. */
static void test_an_answer_takes_no_bytes_of_the_next(void **state) {
    (void)state;
    const lh_step_result results[2] = {{.sequence = 1}, {.sequence = 2}};
    uint8_t bytes[BYTES_MAX];
    for (uint32_t claimed = 1; claimed <= 6; claimed++) {
        size_t length = 0;
        lh_step_result *decoded;
        uint32_t count;
        assert_int_equal(lh_step_encode_results(results, 2, bytes, sizeof bytes, &length, NULL),
                         LH_OK);
        memcpy(bytes + LH_STEP_FRAME_HEAD_BYTES + 24, &claimed, sizeof claimed);
        assert_int_equal(lh_step_decode_results(bytes + LH_STEP_FRAME_HEAD_BYTES,
                                                length - LH_STEP_FRAME_HEAD_BYTES, &decoded, &count,
                                                NULL),
                         LH_ERR_MALFORMED);
        assert_null(decoded);
    }
}

/* ---- Carriers ---- */

static void test_parts_make_up_an_answer(void **state) {
    (void)state;
    const lh_row_ask ask = {.draws = true,
                            .sampling = {.top_logprobs = 2},
                            .scoring = {.rows = 2, .next_token = LH_STEP_NO_TOKEN}};
    lh_token_logprob tops[] = {{5, -0.5f}, {6, -1.5f}};
    lh_token_score scores[] = {{.logprob = -1, .rank = 2}, {.logprob = -2, .rank = 3}};
    const lh_row_answer draw = {
        .token = 5, .logprob = -0.5f, .digest = 7, .top_count = 2, .top = tops};
    void *memory = malloc(lh_row_answer_room(&ask, 64));
    lh_row_answer whole = lh_row_answer_begin(&ask, 64, memory);
    assert_int_equal(whole.token, LH_STEP_NO_TOKEN);
    for (uint32_t i = 0; i < 2; i++)
        lh_row_answer_add(
            &whole,
            &(lh_row_answer){.token = LH_STEP_NO_TOKEN, .score_count = 1, .scores = &scores[i]});
    lh_row_answer_add(&whole, &draw);
    assert_true(whole.token == 5 && whole.logprob == -0.5f && whole.digest == 7);
    assert_true(whole.score_count == 2 && whole.scores[0].rank == 2 && whole.scores[1].rank == 3);
    assert_true(whole.top_count == 2 && whole.top[1].token == 6 && whole.pooled_count == 0);
    free(memory);
}

static void test_a_packed_answer_can_be_moved(void **state) {
    (void)state;
    lh_token_logprob tops[] = {{5, -0.5f}, {6, -1.5f}};
    lh_token_score scores[] = {{.logprob = -1, .rank = 2}};
    int64_t sums[] = {-1, 0x123456789, 0};
    const lh_row_answer answer = {.token = 5,
                                  .logprob = -0.5f,
                                  .digest = 7,
                                  .top_count = 2,
                                  .score_count = 1,
                                  .pooled_count = 3,
                                  .top = tops,
                                  .scores = scores,
                                  .pooled = sums};
    size_t bytes = lh_row_answer_packed_bytes(&answer);
    uint8_t *packed = malloc(bytes), *moved = malloc(bytes);
    lh_row_answer_pack(&answer, packed);
    memcpy(moved, packed, bytes);
    memset(packed, 0xff, bytes);
    const lh_row_answer got = lh_row_answer_unpack(moved);
    assert_true(got.token == 5 && got.logprob == -0.5f && got.digest == 7);
    assert_memory_equal(got.top, tops, sizeof tops);
    assert_true(got.score_count == 1 && got.scores[0].rank == 2);
    assert_memory_equal(got.pooled, sums, sizeof sums);
    free(packed);
    free(moved);
}

static void test_lists_of_an_ask_move_with_it(void **state) {
    (void)state;
    lh_row_ask ask = {.draws = true, .sampling = full};
    void *memory = malloc(lh_row_ask_list_bytes(&ask));
    lh_row_ask_move_lists(&ask, memory);
    assert_true(ask.sampling.biases == memory && ask.sampling.counts != counts);
    assert_memory_equal(ask.sampling.biases, biases, sizeof biases);
    assert_memory_equal(ask.sampling.counts, counts, sizeof counts);
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks_keep_their_bytes),
        cmocka_unit_test(test_answers_keep_their_bytes),
        cmocka_unit_test(test_an_answer_takes_no_bytes_of_the_next),
        cmocka_unit_test(test_parts_make_up_an_answer),
        cmocka_unit_test(test_a_packed_answer_can_be_moved),
        cmocka_unit_test(test_lists_of_an_ask_move_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
