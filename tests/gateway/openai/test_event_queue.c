/* Events pushed by one thread and taken by another keep their order and their alternatives. */
#include "gateway/openai/event_queue.h"
#include "tests/support/failing_malloc.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS 100000u

static void *push_all(void *context) {
    for (uint32_t i = 0; i < EVENTS; i++) {
        lh_token_logprob tops[4];
        for (uint32_t k = 0; k < 4; k++)
            tops[k] = (lh_token_logprob){i + k, -(float)k};
        const lh_row_answer answer = {.token = i, .top_count = i % 5, .top = tops};
        lh_sequence_event event = {.kind = LH_SEQUENCE_TOKEN, .token = i, .answer = &answer};
        lh_event_queue_push(context, i % 7, &event);
    }
    return NULL;
}

static void keeps_order_across_threads(void **state) {
    (void)state;
    lh_event_queue queue;
    lh_event_queue_init(&queue);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, push_all, &queue), 0);
    for (uint32_t i = 0; i < EVENTS;) {
        const lh_queued_event *item;
        lh_status status = lh_event_queue_next(&queue, &item);
        if (status == LH_AGAIN) {
            sched_yield();
            continue;
        }
        assert_int_equal(status, LH_OK);
        assert_int_equal(item->event.token, i);
        assert_int_equal(item->choice, i % 7);
        assert_int_equal(item->event.answer->top_count, i % 5);
        for (uint32_t k = 0; k < item->event.answer->top_count; k++)
            assert_int_equal(item->event.answer->top[k].token, i + k);
        i++;
    }
    pthread_join(thread, NULL);
    lh_event_queue_reset(&queue);
}

static void keeps_scores(void **state) {
    (void)state;
    lh_event_queue queue;
    const lh_queued_event *item;
    lh_token_score scores[3] = {{.logprob = -1}, {.logprob = -2}, {.logprob = -3}};
    lh_event_queue_init(&queue);
    for (uint32_t i = 0; i < 2; i++) {
        const lh_row_answer answer = {.score_count = 1 + i, .scores = scores + i};
        const lh_sequence_event event = {
            .kind = LH_SEQUENCE_PROMPT, .position = 1 + i, .answer = &answer};
        lh_event_queue_push(&queue, 0, &event);
    }
    scores[1].logprob = 0;
    assert_int_equal(lh_event_queue_next(&queue, &item), LH_OK);
    assert_true(item->event.answer->score_count == 1 &&
                item->event.answer->scores[0].logprob == -1);
    assert_int_equal(lh_event_queue_next(&queue, &item), LH_OK);
    assert_true(item->event.answer->score_count == 2 &&
                item->event.answer->scores[0].logprob == -2 &&
                item->event.answer->scores[1].logprob == -3);
    lh_event_queue_reset(&queue);
}

static void copies_messages(void **state) {
    (void)state;
    lh_event_queue queue;
    lh_event_queue_init(&queue);
    char message[] = "gone";
    lh_sequence_event event = {
        .kind = LH_SEQUENCE_FAILED, .status = LH_ERR_UNAVAILABLE, .message = message};
    lh_event_queue_push(&queue, 0, &event);
    memset(message, 'x', sizeof message - 1);
    const lh_queued_event *item;
    assert_int_equal(lh_event_queue_next(&queue, &item), LH_OK);
    assert_string_equal(item->error.message, "gone");
    assert_int_equal(item->error.status, LH_ERR_UNAVAILABLE);
    lh_event_queue_reset(&queue);
}

static void tells_of_a_lost_event(void **state) {
    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        lh_event_queue queue;
        lh_event_queue_init(&queue);
        lh_token_logprob top = {1, 0};
        const lh_row_answer answer = {.top_count = 1, .top = &top};
        lh_sequence_event event = {.kind = LH_SEQUENCE_TOKEN, .answer = &answer};
        failing_malloc_arm(n);
        lh_event_queue_push(&queue, 0, &event);
        assert_true(failing_malloc_disarm());
        const lh_queued_event *item;
        assert_int_equal(lh_event_queue_next(&queue, &item), LH_ERR_NO_MEMORY);
        lh_event_queue_reset(&queue);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_across_threads),
        cmocka_unit_test(keeps_scores),
        cmocka_unit_test(copies_messages),
        cmocka_unit_test(tells_of_a_lost_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
