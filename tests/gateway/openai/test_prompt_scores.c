/* Scores are taken in their order, each once. */
#include "gateway/openai/prompt_scores.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const uint32_t tokens[4] = {9, 8, 7, 6};
static lh_token_score some[3] = {
    {.logprob = -1, .rank = 1, .top_count = 2, .top = {{8, -1}, {3, -2}}},
    {.logprob = -4, .rank = 30},
    {.logprob = -3, .rank = 2, .top_count = 1, .top = {{5, -0.5f}}}};

static lh_status take(lh_prompt_scores *scores, uint32_t position, uint32_t count) {
    const lh_row_answer answer = {.score_count = count, .scores = some + position - 1};
    const lh_sequence_event event = {
        .kind = LH_SEQUENCE_PROMPT, .position = position, .answer = &answer};
    return lh_prompt_scores_take(scores, &event, NULL);
}

static void chunks_make_up_the_prompt(void **state) {
    (void)state;
    lh_prompt_scores scores;
    assert_int_equal(lh_prompt_scores_init(&scores, tokens, 4, NULL), LH_OK);
    assert_int_equal(take(&scores, 1, 2), LH_OK);
    assert_false(lh_prompt_scores_are_whole(&scores));
    assert_int_equal(take(&scores, 3, 1), LH_OK);
    assert_true(lh_prompt_scores_are_whole(&scores));
    for (uint32_t i = 1; i < 4; i++) {
        const lh_prompt_score *score = &scores.list[i];
        assert_true(score->token == tokens[i] && score->logprob == some[i - 1].logprob &&
                    score->rank == some[i - 1].rank && score->top_count == some[i - 1].top_count);
        for (uint32_t k = 0; k < score->top_count; k++)
            assert_int_equal(scores.tops[score->first_top + k].token, some[i - 1].top[k].token);
    }
    lh_prompt_scores_reset(&scores);
}

static void a_prompt_of_one_token_has_none(void **state) {
    (void)state;
    lh_prompt_scores scores;
    assert_int_equal(lh_prompt_scores_init(&scores, tokens, 1, NULL), LH_OK);
    assert_true(lh_prompt_scores_are_whole(&scores));
    assert_int_equal(take(&scores, 1, 1), LH_ERR_INTERNAL);
    lh_prompt_scores_reset(&scores);
}

static void what_is_not_next_is_refused(void **state) {
    (void)state;
    lh_prompt_scores scores;
    assert_int_equal(lh_prompt_scores_init(&scores, tokens, 3, NULL), LH_OK);
    assert_int_equal(take(&scores, 2, 1), LH_ERR_INTERNAL);
    assert_int_equal(take(&scores, 1, 3), LH_ERR_INTERNAL);
    assert_int_equal(take(&scores, 1, 1), LH_OK);
    assert_int_equal(take(&scores, 1, 1), LH_ERR_INTERNAL);
    lh_prompt_scores_reset(&scores);
}

static void survives_without_memory(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_prompt_scores scores = {0};
        failing_malloc_arm(n);
        lh_status status = lh_prompt_scores_init(&scores, tokens, 4, NULL);
        if (status == LH_OK)
            status = take(&scores, 1, 3);
        bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        lh_prompt_scores_reset(&scores);
        if (!failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_make_up_the_prompt),
        cmocka_unit_test(a_prompt_of_one_token_has_none),
        cmocka_unit_test(what_is_not_next_is_refused),
        cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
