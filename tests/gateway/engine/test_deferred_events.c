/* Events that wait: order, copies, what does not wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/engine/deferred_events.h"

#include <string.h>

typedef struct heard {
    uint64_t handle;
    uint32_t token, top_count, top_token;
    lh_sequence_event_kind kind;
} heard;

typedef struct listener {
    heard events[16];
    uint32_t count;
} listener;

static void deliver(void *context, uint64_t handle, const lh_sequence_event *event) {
    listener *l = context;
    assert_in_range(l->count, 0, 15);
    const lh_row_answer none = {0}, *answer = event->answer ? event->answer : &none;
    l->events[l->count++] =
        (heard){handle, event->token, answer->top_count,
                answer->top_count ? answer->top[answer->top_count - 1].token : 0, event->kind};
}

static void keep_token(lh_deferred_events *deferred, uint64_t handle, uint32_t token,
                       uint32_t top_count) {
    lh_token_logprob top[4] = {0};
    for (uint32_t i = 0; i < top_count; i++)
        top[i].token = token * 10 + i;
    const lh_row_answer answer = {.token = token, .top_count = top_count, .top = top};
    lh_deferred_events_push(
        deferred, handle,
        &(lh_sequence_event){.kind = LH_SEQUENCE_TOKEN, .token = token, .answer = &answer});
    memset(top, 0xff, sizeof top); /* the engine's scratch is used again */
}

static void what_is_kept_comes_later_in_order(void **state) {
    (void)state;
    listener l = {0};
    lh_deferred_events *deferred;
    assert_int_equal(lh_deferred_events_create(deliver, &l, &deferred, NULL), LH_OK);
    for (uint32_t turn = 0; turn < 3; turn++) {
        l.count = 0;
        for (uint32_t i = 0; i < 5; i++)
            keep_token(deferred, 100 + i, i, i % 4);
        lh_deferred_events_push(deferred, 100, &(lh_sequence_event){.kind = LH_SEQUENCE_FINISHED});
        assert_int_equal(l.count, 0);
        lh_deferred_events_send(deferred);
        assert_int_equal(l.count, 6);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(l.events[i].handle, 100 + i);
            assert_int_equal(l.events[i].token, i);
            assert_int_equal(l.events[i].top_count, i % 4);
            assert_int_equal(l.events[i].top_token, i % 4 ? i * 10 + i % 4 - 1 : 0);
        }
        assert_int_equal(l.events[5].kind, LH_SEQUENCE_FINISHED);
        lh_deferred_events_send(deferred);
        assert_int_equal(l.count, 6);
    }
    lh_deferred_events_destroy(deferred);
}

static void a_failure_does_not_wait_and_overtakes_nothing(void **state) {
    (void)state;
    listener l = {0};
    lh_deferred_events *deferred;
    assert_int_equal(lh_deferred_events_create(deliver, &l, &deferred, NULL), LH_OK);
    keep_token(deferred, 1, 7, 0);
    lh_deferred_events_push(
        deferred, 1,
        &(lh_sequence_event){.kind = LH_SEQUENCE_FAILED, .status = LH_ERR_IO, .message = "gone"});
    assert_int_equal(l.count, 2);
    assert_int_equal(l.events[0].token, 7);
    assert_int_equal(l.events[1].kind, LH_SEQUENCE_FAILED);
    keep_token(deferred, 2, 8, 1); /* dropped */
    lh_deferred_events_destroy(deferred);
    assert_int_equal(l.count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_comes_later_in_order),
        cmocka_unit_test(a_failure_does_not_wait_and_overtakes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
