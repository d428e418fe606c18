/* Answers come out of the store as they went in, however it has grown meanwhile. */
#include "gateway/schedule/answer_store.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ANSWERS 200u

static bool push(lh_answer_store *store, uint32_t number, size_t *at) {
    lh_token_logprob tops[3] = {{number, -1}, {number + 1, -2}, {number + 2, -3}};
    lh_token_score score = {.logprob = -(float)number, .rank = number};
    int64_t sums[5] = {number, -(int64_t)number, 1, 2, 3};
    const lh_row_answer answer = {.token = number,
                                  .digest = number * 3,
                                  .top_count = number % 4,
                                  .score_count = number % 2,
                                  .pooled_count = number % 6,
                                  .top = tops,
                                  .scores = &score,
                                  .pooled = sums};
    return lh_answer_store_push(store, &answer, at);
}

static void check(const lh_answer_store *store, uint32_t number, size_t at) {
    const lh_row_answer got = lh_answer_store_get(store, at);
    assert_true(got.token == number && got.digest == number * 3);
    assert_true(got.top_count == number % 4 && got.score_count == number % 2 &&
                got.pooled_count == number % 6);
    for (uint32_t i = 0; i < got.top_count; i++)
        assert_int_equal(got.top[i].token, number + i);
    if (got.score_count > 0)
        assert_int_equal(got.scores[0].rank, number);
    if (got.pooled_count > 1)
        assert_true(got.pooled[0] == number && got.pooled[1] == -(int64_t)number);
}

static void answers_come_out_as_they_went_in(void **state) {
    (void)state;
    lh_answer_store store = {0};
    size_t at[ANSWERS];
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < ANSWERS; i++)
            assert_true(push(&store, i, &at[i]));
        for (uint32_t i = 0; i < ANSWERS; i++)
            check(&store, i, at[i]);
        lh_answer_store_clear(&store);
    }
    lh_answer_store_reset(&store);
}

static void without_memory_nothing_changes(void **state) {
    (void)state;
    lh_answer_store store = {0};
    size_t at[ANSWERS];
    uint32_t count = 0;
    assert_true(push(&store, count, &at[0]));
    failing_malloc_arm(1);
    do
        count++;
    while (count < ANSWERS && push(&store, count, &at[count]));
    assert_true(failing_malloc_disarm());
    assert_in_range(count, 1, ANSWERS - 1);
    for (uint32_t i = 0; i < count; i++)
        check(&store, i, at[i]);
    assert_true(push(&store, count, &at[count]));
    check(&store, count, at[count]);
    lh_answer_store_reset(&store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_out_as_they_went_in),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
