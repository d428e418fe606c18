/* Of a prompt all that was asked for has to come, each thing once. */
#include "gateway/openai/prompt_answer.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const uint32_t tokens[3] = {9, 8, 7};

static lh_status take_scores(lh_prompt_answer *answer, uint32_t position, uint32_t count) {
    lh_token_score scores[3] = {{.logprob = -1, .rank = 1}, {.logprob = -2, .rank = 2}};
    const lh_row_answer part = {.score_count = count, .scores = scores};
    return lh_prompt_answer_take(
        answer,
        &(lh_sequence_event){.kind = LH_SEQUENCE_PROMPT, .position = position, .answer = &part},
        NULL);
}

static lh_status take_sums(lh_prompt_answer *answer) {
    int64_t sums[2] = {5, -6};
    const lh_row_answer part = {.pooled_count = 2, .pooled = sums};
    return lh_prompt_answer_take(
        answer, &(lh_sequence_event){.kind = LH_SEQUENCE_PROMPT, .answer = &part}, NULL);
}

static void of_a_prompt_nothing_need_be_asked(void **state) {
    (void)state;
    lh_prompt_answer answer;
    const lh_sequence_request request = {.prompt_tokens = 3};
    assert_int_equal(lh_prompt_answer_init(&answer, &request, tokens, 3, NULL), LH_OK);
    assert_int_equal(lh_prompt_answer_check(&answer, NULL), LH_OK);
    lh_prompt_answer_reset(&answer);
}

static void scores_have_to_be_whole(void **state) {
    (void)state;
    lh_prompt_answer answer;
    const lh_sequence_request request = {.scores_prompt = true};
    assert_int_equal(lh_prompt_answer_init(&answer, &request, tokens, 3, NULL), LH_OK);
    assert_int_equal(take_scores(&answer, 1, 1), LH_OK);
    assert_int_equal(lh_prompt_answer_check(&answer, NULL), LH_ERR_INTERNAL);
    assert_int_equal(take_scores(&answer, 2, 1), LH_OK);
    assert_int_equal(lh_prompt_answer_check(&answer, NULL), LH_OK);
    assert_int_equal(take_scores(&answer, 2, 1), LH_ERR_INTERNAL);
    lh_prompt_answer_reset(&answer);
}

static void the_sum_has_to_come_once(void **state) {
    (void)state;
    lh_prompt_answer answer;
    const lh_sequence_request request = {.pooling = LH_POOLING_MEAN};
    assert_int_equal(lh_prompt_answer_init(&answer, &request, tokens, 3, NULL), LH_OK);
    assert_int_equal(lh_prompt_answer_check(&answer, NULL), LH_ERR_INTERNAL);
    assert_int_equal(take_sums(&answer), LH_OK);
    assert_true(answer.pooled_count == 2 && answer.pooled[0] == 5 && answer.pooled[1] == -6);
    assert_int_equal(lh_prompt_answer_check(&answer, NULL), LH_OK);
    assert_int_equal(take_sums(&answer), LH_ERR_INTERNAL);
    lh_prompt_answer_reset(&answer);
}

static void survives_without_memory(void **state) {
    (void)state;
    const lh_sequence_request request = {.scores_prompt = true, .pooling = LH_POOLING_MEAN};
    for (size_t n = 1;; n++) {
        lh_prompt_answer answer = {0};
        failing_malloc_arm(n);
        lh_status status = lh_prompt_answer_init(&answer, &request, tokens, 3, NULL);
        if (status == LH_OK)
            status = take_scores(&answer, 1, 2);
        if (status == LH_OK)
            status = take_sums(&answer);
        bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        lh_prompt_answer_reset(&answer);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_prompt_nothing_need_be_asked),
        cmocka_unit_test(scores_have_to_be_whole),
        cmocka_unit_test(the_sum_has_to_come_once),
        cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
