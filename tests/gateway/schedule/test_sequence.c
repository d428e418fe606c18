/* Histories, biases, counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/sequence_ask.h"
#include "tests/support/failing_malloc.h"

static const uint32_t prompt[] = {5, 6, 5, 7};
static const uint32_t stops[] = {2, 3, 2};
static const lh_token_bias biases[] = {{10, 1.5f}, {3, 50.0f}};

static lh_sequence_request plain_request(void) {
    return (lh_sequence_request){
        .prompt = prompt,
        .prompt_tokens = 4,
        .max_tokens = 3,
        .stop_tokens = stops,
        .stop_token_count = 3,
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 42}};
}

static lh_sequence *create(const lh_sequence_request *request) {
    lh_sequence *sequence;
    assert_int_equal(lh_sequence_create(request, 9, 100, &sequence, NULL), LH_OK);
    return sequence;
}

/* How its next token is drawn. */
static lh_sampling sampling_of(const lh_sequence *s) {
    const lh_row_ask ask = lh_sequence_ask(s, lh_sequence_pending(s));
    assert_true(ask.draws);
    return ask.sampling;
}

static void a_sequence_grows(void **state) {
    (void)state;
    lh_sequence_request request = plain_request();
    lh_sequence *s = create(&request);
    assert_int_equal(s->handle, 9);
    assert_null(s->request.prompt); /* which is the caller's */
    assert_int_equal(lh_sequence_positions(s), 7);
    assert_int_equal(lh_sequence_pending(s), 4);
    assert_int_equal(sampling_of(s).counter, 4);
    assert_int_equal(sampling_of(s).seed, 42);
    assert_int_equal(sampling_of(s).count_count, 0);
    s->kv.computed = 4;
    lh_sequence_append(s, 11);
    assert_int_equal(lh_sequence_pending(s), 1);
    assert_int_equal(lh_sequence_generated(s), 1);
    assert_int_equal(sampling_of(s).counter, 5);
    assert_true(lh_sequence_stops_at(s, 2) && lh_sequence_stops_at(s, 3));
    assert_false(lh_sequence_stops_at(s, 11));
    lh_sequence_destroy(s);
}

static uint32_t bias_of(const lh_sampling *sampling, uint32_t token, float *bias) {
    uint32_t times = 0;
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        if (sampling->biases[i].token == token) {
            *bias = sampling->biases[i].bias;
            times++;
        }
    return times;
}

/* Until then stop tokens are banned, whatever the user's bias on them, and each is named once. */
static void stop_tokens_are_banned_until_min_tokens(void **state) {
    (void)state;
    lh_sequence_request request = plain_request();
    request.min_tokens = 2;
    request.sampling.biases = biases;
    request.sampling.bias_count = 2;
    lh_sequence *s = create(&request);
    float bias = 0;
    for (int generated = 0; generated < 2; generated++) {
        lh_sampling early = sampling_of(s);
        assert_int_equal(early.bias_count, 3);
        assert_int_equal(bias_of(&early, 10, &bias), 1);
        assert_true(bias == 1.5f);
        assert_int_equal(bias_of(&early, 3, &bias), 1);
        assert_true(bias <= -1e6f);
        assert_int_equal(bias_of(&early, 2, &bias), 1);
        assert_true(bias <= -1e6f);
        assert_false(lh_sequence_stops_at(s, 2));
        lh_sequence_append(s, 20);
    }
    lh_sampling late = sampling_of(s);
    assert_int_equal(late.bias_count, 2);
    assert_int_equal(bias_of(&late, 3, &bias), 1);
    assert_true(bias == 50.0f);
    assert_true(lh_sequence_stops_at(s, 2));
    lh_sequence_destroy(s);
}

static void penalties_bring_the_counts(void **state) {
    (void)state;
    lh_sequence_request request = plain_request();
    request.sampling.presence_penalty = 0.5f;
    lh_sequence *s = create(&request);
    lh_sequence_append(s, 6);
    lh_sequence_append(s, 9);
    lh_sampling sampling = sampling_of(s);
    const lh_token_count expected[] = {{5, 2, 0}, {6, 1, 1}, {7, 1, 0}, {9, 0, 1}};
    assert_int_equal(sampling.count_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sampling.counts[i].token, expected[i].token);
        assert_int_equal(sampling.counts[i].prompt_count, expected[i].prompt_count);
        assert_int_equal(sampling.counts[i].output_count, expected[i].output_count);
    }
    lh_sequence_destroy(s);
}

static void many_distinct_tokens_are_counted(void **state) {
    (void)state;
    static uint32_t long_prompt[5000];
    for (uint32_t i = 0; i < 5000; i++)
        long_prompt[i] = (i * 7919u) % 2500;
    lh_sequence_request request = plain_request();
    request.prompt = long_prompt;
    request.prompt_tokens = 5000;
    request.sampling.frequency_penalty = 1;
    lh_sequence *s;
    assert_int_equal(lh_sequence_create(&request, 1, 10000, &s, NULL), LH_OK);
    lh_sampling sampling = sampling_of(s);
    assert_int_equal(sampling.count_count, 2500);
    for (uint32_t i = 0; i < 2500; i++)
        assert_int_equal(sampling.counts[i].prompt_count, 2);
    lh_sequence_destroy(s);
}

/* A prompt of `tokens`, `computed` of whose positions are on their way and `scored` told. */
static lh_row_scoring scoring_of(uint32_t computed, uint32_t scored, uint32_t rows) {
    static const uint32_t six[6] = {11, 12, 13, 14, 15, 16};
    lh_sequence_request request = plain_request();
    request.prompt = six;
    request.prompt_tokens = 6;
    request.scores_prompt = true;
    request.prompt_tops = 2;
    lh_sequence *s = create(&request);
    lh_sequence_append(s, 40);
    lh_sequence_append(s, 41);
    s->kv.computed = computed;
    s->scored = scored;
    assert_int_equal(lh_sequence_is_scored(s), scored == 5);
    lh_row_scoring scoring = lh_sequence_ask(s, rows).scoring;
    lh_sequence_destroy(s);
    return scoring;
}

/* The last row of the prompt tells of a token that is not the prompt's, and what was told once is
 * not asked for again. */
static void the_rows_before_the_last_one_are_scored(void **state) {
    (void)state;
    static const struct {
        uint32_t computed, scored, rows;
        lh_row_scoring expected;
    } rows[] = {
        {0, 0, 4, {0, 4, 2, 15}},
        {0, 0, 5, {0, 5, 2, 16}},
        {0, 0, 6, {0, 5, 2, LH_STEP_NO_TOKEN}},
        {4, 4, 4, {0, 1, 2, LH_STEP_NO_TOKEN}},
        {0, 3, 8, {3, 2, 2, LH_STEP_NO_TOKEN}},
        {2, 4, 3, {2, 1, 2, 16}},
        {0, 5, 8, {0, 0, 0, LH_STEP_NO_TOKEN}},
        {5, 5, 1, {0, 0, 0, LH_STEP_NO_TOKEN}},
        {0, 4, 4, {0, 0, 0, LH_STEP_NO_TOKEN}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lh_row_scoring got = scoring_of(rows[i].computed, rows[i].scored, rows[i].rows);
        assert_memory_equal(&got, &rows[i].expected, sizeof got);
    }
}

static void a_prompt_alone_needs_no_tokens(void **state) {
    (void)state;
    lh_sequence_request request = plain_request();
    request.max_tokens = 0;
    request.scores_prompt = true;
    lh_sequence *s = create(&request);
    assert_int_equal(lh_sequence_positions(s), request.prompt_tokens);
    lh_sequence_destroy(s);
    request.prompt_tops = LH_TOP_LOGPROBS_MAX + 1;
    assert_int_equal(lh_sequence_create(&request, 1, 100, &s, NULL), LH_ERR_LIMIT);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    lh_sequence *s;
    lh_error error;
    lh_sequence_request request = plain_request();
    request.prompt_tokens = 0;
    assert_int_equal(lh_sequence_create(&request, 1, 100, &s, &error), LH_ERR_INVALID);
    request = plain_request();
    request.max_tokens = 0;
    assert_int_equal(lh_sequence_create(&request, 1, 100, &s, &error), LH_ERR_INVALID);
    request = plain_request();
    assert_int_equal(lh_sequence_create(&request, 1, 6, &s, &error), LH_ERR_LIMIT);
    request.max_tokens = UINT32_MAX;
    assert_int_equal(lh_sequence_create(&request, 1, UINT32_MAX, &s, &error), LH_ERR_LIMIT);
    request = plain_request();
    request.stop_token_count = LH_SEQUENCE_STOP_TOKENS_MAX + 1;
    assert_int_equal(lh_sequence_create(&request, 1, 100, &s, &error), LH_ERR_LIMIT);
    request = plain_request();
    request.sampling.bias_count = LH_TOKEN_BIASES_MAX;
    assert_int_equal(lh_sequence_create(&request, 1, 100, &s, &error), LH_ERR_LIMIT);
    request = plain_request();
    request.sampling.top_logprobs = LH_TOP_LOGPROBS_MAX + 1;
    assert_int_equal(lh_sequence_create(&request, 1, 100, &s, &error), LH_ERR_LIMIT);
}

static void what_just_fits_is_taken(void **state) {
    (void)state;
    uint32_t many_stops[LH_SEQUENCE_STOP_TOKENS_MAX];
    static lh_token_bias many_biases[LH_TOKEN_BIASES_MAX];
    for (uint32_t i = 0; i < LH_SEQUENCE_STOP_TOKENS_MAX; i++)
        many_stops[i] = i;
    lh_sequence_request request = plain_request();
    request.max_tokens = 1;
    request.stop_tokens = many_stops;
    request.stop_token_count = LH_SEQUENCE_STOP_TOKENS_MAX;
    request.min_tokens = 1;
    request.sampling.biases = many_biases;
    request.sampling.bias_count = LH_TOKEN_BIASES_MAX - LH_SEQUENCE_STOP_TOKENS_MAX;
    request.sampling.top_logprobs = LH_TOP_LOGPROBS_MAX;
    lh_sequence *s;
    assert_int_equal(lh_sequence_create(&request, 1, 5, &s, NULL), LH_OK);
    assert_int_equal(s->request.stop_token_count, LH_SEQUENCE_STOP_TOKENS_MAX);
    assert_int_equal(sampling_of(s).top_logprobs, LH_TOP_LOGPROBS_MAX);
    assert_int_equal(lh_sequence_scope(s).tenant, 0);
    lh_sequence_destroy(s);
    request = plain_request();
    request.sampling.frequency_penalty = 1;
    request.max_tokens = LH_TOKEN_COUNTS_MAX - 4;
    assert_int_equal(lh_sequence_create(&request, 1, UINT32_MAX, &s, NULL), LH_OK);
    lh_sequence_destroy(s);
    request.max_tokens++;
    assert_int_equal(lh_sequence_create(&request, 1, UINT32_MAX, &s, NULL), LH_ERR_LIMIT);
}

static void two_refusals_at_a_length_are_told_from_two_at_two(void **state) {
    (void)state;
    lh_sequence_request request = plain_request();
    lh_sequence *s = create(&request);
    assert_false(lh_sequence_is_quarantined(s));
    lh_sequence_note_refusal(s);
    assert_true(lh_sequence_is_quarantined(s));
    lh_sequence_append(s, 11);
    assert_false(lh_sequence_is_quarantined(s));
    lh_sequence_note_refusal(s);
    assert_int_equal(s->schedule.failure_count, 1);
    lh_sequence_note_refusal(s);
    assert_int_equal(s->schedule.failure_count, 2);
    lh_sequence_destroy(s);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    lh_sequence_request request = plain_request();
    request.min_tokens = 1;
    request.sampling.presence_penalty = 1;
    request.sampling.biases = biases;
    request.sampling.bias_count = 2;
    for (size_t n = 1;; n++) {
        lh_sequence *s = NULL;
        failing_malloc_arm(n);
        lh_status status = lh_sequence_create(&request, 1, 100, &s, NULL);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            lh_sequence_destroy(s);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

static void lists_keep_their_order(void **state) {
    (void)state;
    lh_sequence items[4] = {{.handle = 1}, {.handle = 2}, {.handle = 3}, {.handle = 4}};
    lh_sequence_list list = {0};
    for (int i = 0; i < 4; i++)
        lh_sequence_list_push(&list, &items[i]);
    uint64_t expected = 1;
    for (lh_sequence *s = list.first; s; s = s->next)
        assert_int_equal(s->handle, expected++);
    lh_sequence_list_remove(&list, &items[1]);
    lh_sequence_list_remove(&list, &items[3]);
    lh_sequence_list_remove(&list, &items[0]);
    assert_ptr_equal(list.first, &items[2]);
    assert_ptr_equal(list.last, &items[2]);
    lh_sequence_list_remove(&list, &items[2]);
    assert_null(list.first);
    assert_int_equal(list.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_grows),
        cmocka_unit_test(stop_tokens_are_banned_until_min_tokens),
        cmocka_unit_test(penalties_bring_the_counts),
        cmocka_unit_test(many_distinct_tokens_are_counted),
        cmocka_unit_test(the_rows_before_the_last_one_are_scored),
        cmocka_unit_test(a_prompt_alone_needs_no_tokens),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(what_just_fits_is_taken),
        cmocka_unit_test(two_refusals_at_a_length_are_told_from_two_at_two),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(lists_keep_their_order),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
