/* The queue: order, charge, nudges, wake-ups, and two threads. */
#include "worker/compute/pipeline/shard_queue.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void count_wake(void *context) {
    ++*(int *)context;
}

static lh_message *message_of(int kind, size_t charge) {
    lh_message *message = calloc(1, sizeof *message);
    assert_non_null(message);
    message->kind = kind;
    message->charge = charge;
    return message;
}

static void test_order_and_wake(void **state) {
    (void)state;
    int wakes = 0;
    lh_shard_queue *queue;
    assert_int_equal(lh_shard_queue_create(100, count_wake, &wakes, &queue, NULL), LH_OK);
    assert_null(lh_shard_queue_pop(queue, false));
    for (int i = 0; i < 3; i++)
        lh_shard_queue_push(queue, message_of(i, 0));
    assert_int_equal(wakes, 1); /* once for an empty queue */
    for (int i = 0; i < 3; i++) {
        lh_message *message = lh_shard_queue_pop(queue, true);
        assert_int_equal(message->kind, i);
        free(message);
    }
    lh_shard_queue_push(queue, message_of(3, 0));
    assert_int_equal(wakes, 2);
    free(lh_shard_queue_pop(queue, false));
    lh_shard_queue_destroy(queue);
}

static void test_charge_stays_until_release(void **state) {
    (void)state;
    lh_shard_queue *queue;
    assert_int_equal(lh_shard_queue_create(100, NULL, NULL, &queue, NULL), LH_OK);
    lh_shard_queue_push(queue, message_of(0, 99));
    assert_false(lh_shard_queue_is_full(queue));
    lh_shard_queue_push(queue, message_of(0, 1));
    assert_true(lh_shard_queue_is_full(queue));
    free(lh_shard_queue_pop(queue, false));
    free(lh_shard_queue_pop(queue, false));
    assert_true(lh_shard_queue_is_full(queue));
    lh_shard_queue_release(queue, 1);
    assert_false(lh_shard_queue_is_full(queue));
    lh_shard_queue_destroy(queue);
}

static void test_what_can_wait_wakes_nobody(void **state) {
    (void)state;
    int wakes = 0;
    lh_shard_queue *queue;
    assert_int_equal(lh_shard_queue_create(100, count_wake, &wakes, &queue, NULL), LH_OK);
    lh_shard_queue_announce(queue); /* of nothing */
    lh_shard_queue_leave(queue, message_of(0, 0));
    assert_int_equal(wakes, 0);
    lh_shard_queue_push(queue, message_of(1, 0)); /* not the first, but the first that matters */
    assert_int_equal(wakes, 1);
    lh_shard_queue_announce(queue);
    lh_shard_queue_leave(queue, message_of(2, 0));
    lh_shard_queue_push(queue, message_of(3, 0));
    assert_int_equal(wakes, 1); /* told already: nobody has looked since */
    for (int i = 0; i < 4; i++) {
        /* one that was left is there to be found */
        lh_message *message = lh_shard_queue_pop(queue, true);
        assert_int_equal(message->kind, i);
        free(message);
    }
    lh_shard_queue_leave(queue, message_of(4, 0));
    lh_shard_queue_announce(queue);
    assert_int_equal(wakes, 2);
    lh_shard_queue_announce(queue);
    assert_int_equal(wakes, 2);
    free(lh_shard_queue_pop(queue, false));
    lh_shard_queue_destroy(queue);
}

static void test_release_tells_when_there_is_room_again(void **state) {
    (void)state;
    lh_shard_queue *queue;
    assert_int_equal(lh_shard_queue_create(100, NULL, NULL, &queue, NULL), LH_OK);
    lh_shard_queue_push(queue, message_of(0, 150));
    assert_false(lh_shard_queue_release(queue, 50));
    assert_true(lh_shard_queue_release(queue, 1));
    assert_false(lh_shard_queue_release(queue, 99));
    free(lh_shard_queue_pop(queue, false));
    lh_shard_queue_destroy(queue);
}

static void *push_later(void *queue) {
    usleep(20000);
    lh_shard_queue_push(queue, message_of(0, 0));
    return NULL;
}

static void test_nudge_ends_one_wait(void **state) {
    (void)state;
    lh_shard_queue *queue;
    assert_int_equal(lh_shard_queue_create(100, NULL, NULL, &queue, NULL), LH_OK);
    lh_shard_queue_nudge(queue);
    assert_null(lh_shard_queue_pop(queue, false)); /* does not wait, so takes no nudge */
    assert_null(lh_shard_queue_pop(queue, true));
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, push_later, queue), 0);
    lh_message *message = lh_shard_queue_pop(queue, true); /* waits again: it was one nudge */
    assert_non_null(message);
    free(message);
    pthread_join(producer, NULL);
    lh_shard_queue_destroy(queue);
}

enum { MESSAGES = 20000 };

static void *produce(void *queue) {
    for (int i = 0; i < MESSAGES; i++) {
        lh_shard_queue_push(queue, message_of(i, 1));
        if (i % 100 == 0)
            lh_shard_queue_nudge(queue);
    }
    return NULL;
}

static void test_two_threads(void **state) {
    (void)state;
    lh_shard_queue *queue;
    assert_int_equal(lh_shard_queue_create(MESSAGES, NULL, NULL, &queue, NULL), LH_OK);
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, queue), 0);
    for (int next = 0; next < MESSAGES;) {
        lh_message *message = lh_shard_queue_pop(queue, true);
        if (message) {
            assert_int_equal(message->kind, next++);
            free(message);
        }
    }
    pthread_join(producer, NULL);
    assert_true(lh_shard_queue_is_full(queue));
    lh_shard_queue_release(queue, MESSAGES);
    lh_shard_queue_destroy(queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_wake),
        cmocka_unit_test(test_charge_stays_until_release),
        cmocka_unit_test(test_what_can_wait_wakes_nobody),
        cmocka_unit_test(test_release_tells_when_there_is_room_again),
        cmocka_unit_test(test_nudge_ends_one_wait),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
