/* Tickets: admission, delivery, and cancelling against it from other threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/engine/submission_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static const uint32_t prompt[] = {1, 2, 3};

static void no_wake(void *context) {
    (void)context;
}

typedef struct listener {
    int tokens, ends;
    lh_status status;
} listener;

static void listen_to(void *context, const lh_sequence_event *event) {
    listener *l = context;
    if (event->kind == LH_SEQUENCE_TOKEN)
        l->tokens++;
    else
        l->ends++;
    l->status = event->kind == LH_SEQUENCE_FAILED ? event->status : LH_OK;
}

static lh_sequence_request request_for(void *context, lh_sequence_on_event *on_event) {
    return (lh_sequence_request){.prompt = prompt,
                                 .prompt_tokens = 3,
                                 .max_tokens = 10,
                                 .sampling = {.top_p = 1, .repetition_penalty = 1},
                                 .on_event = on_event,
                                 .context = context};
}

static lh_submission_queue *open_desk(uint32_t places) {
    lh_submission_queue *submissions;
    assert_int_equal(lh_submission_queue_create(places, 100, no_wake, NULL, &submissions, NULL),
                     LH_OK);
    lh_submission_queue_set_gate(submissions, INT64_MAX, UINT64_MAX,
                                 &(lh_error){LH_ERR_UNAVAILABLE, "closed"});
    return submissions;
}

static const lh_sequence_event token = {.kind = LH_SEQUENCE_TOKEN};
static const lh_sequence_event finished = {.kind = LH_SEQUENCE_FINISHED};

static void a_request_is_admitted_whole_or_not(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(3);
    listener l = {0};
    lh_sequence_request requests[4];
    uint64_t handles[4];
    lh_error error;
    for (int i = 0; i < 4; i++)
        requests[i] = request_for(&l, listen_to);
    assert_int_equal(lh_submission_queue_submit(submissions, requests, 4, 0, handles, &error),
                     LH_ERR_BUSY);
    assert_int_equal(lh_submission_queue_count(submissions), 0);
    assert_int_equal(lh_submission_queue_submit(submissions, requests, 2, 0, handles, &error),
                     LH_OK);
    assert_int_equal(lh_submission_queue_submit(submissions, requests, 2, 0, handles + 2, &error),
                     LH_ERR_BUSY);
    assert_int_equal(lh_submission_queue_count(submissions), 2);
    for (int i = 0; i < 2; i++) {
        lh_sequence *sequence = lh_submission_queue_take_submission(submissions);
        assert_int_equal(sequence->handle, handles[i]);
        lh_sequence_destroy(sequence);
    }
    assert_null(lh_submission_queue_take_submission(submissions));
    lh_submission_queue_deliver(submissions, handles[0], &token);
    lh_submission_queue_deliver(submissions, handles[0], &finished);
    assert_int_equal(l.tokens, 1);
    assert_int_equal(l.ends, 1);
    assert_int_equal(lh_submission_queue_count(submissions), 1);
    /* it has ended: nobody hears it */
    lh_submission_queue_deliver(submissions, handles[0], &token);
    assert_int_equal(l.tokens, 1);
    assert_int_equal(lh_submission_queue_submit(submissions, requests, 2, 0, handles, &error),
                     LH_OK);
    lh_submission_queue_destroy(submissions);
}

static void the_gate_tells_why(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(3);
    lh_sequence_request request = request_for(NULL, listen_to);
    uint64_t handle;
    lh_error error;
    lh_submission_queue_set_gate(submissions, 1000, UINT64_MAX,
                                 &(lh_error){LH_ERR_UNAVAILABLE, "no chain"});
    assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 999, &handle, &error),
                     LH_OK);
    assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 1000, &handle, &error),
                     LH_ERR_UNAVAILABLE);
    assert_string_equal(error.message, "no chain");
    lh_submission_queue_set_gate(submissions, INT64_MAX, 12,
                                 &(lh_error){LH_ERR_UNAVAILABLE, "no chain"});
    assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &handle, &error),
                     LH_ERR_LIMIT);
    lh_submission_queue_set_gate(submissions, INT64_MAX, 13,
                                 &(lh_error){LH_ERR_UNAVAILABLE, "no chain"});
    assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &handle, &error),
                     LH_OK);
    request.max_tokens = 98;
    assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &handle, &error),
                     LH_ERR_LIMIT);
    lh_submission_queue_destroy(submissions);
}

static void cancelling_silences_and_frees(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(2);
    listener l = {0};
    lh_sequence_request request = request_for(&l, listen_to);
    uint64_t first, second, taken;
    assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &first, NULL), LH_OK);
    assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &second, NULL), LH_OK);
    lh_sequence_destroy(lh_submission_queue_take_submission(submissions));
    lh_sequence_destroy(lh_submission_queue_take_submission(submissions));
    lh_submission_queue_cancel(submissions, first);
    lh_submission_queue_cancel(submissions, first);
    lh_submission_queue_cancel_later(submissions, second);
    lh_submission_queue_cancel(submissions, 0);
    lh_submission_queue_cancel(submissions, 12345);
    lh_submission_queue_deliver(submissions, first, &token);
    assert_int_equal(l.tokens, 0);
    lh_submission_queue_deliver(submissions, second, &token);
    assert_int_equal(l.tokens, 1);
    lh_submission_queue_deliver(submissions, first, &finished);
    assert_int_equal(l.ends, 0);
    assert_int_equal(lh_submission_queue_count(submissions), 2);
    assert_true(lh_submission_queue_take_cancel(submissions, &taken));
    assert_true(lh_submission_queue_take_cancel(submissions, &taken));
    assert_false(lh_submission_queue_take_cancel(submissions, &taken));
    assert_int_equal(lh_submission_queue_count(submissions), 0);
    lh_submission_queue_deliver(submissions, second, &finished);
    assert_int_equal(l.ends, 0);
    lh_submission_queue_destroy(submissions);
}

static void closing_fails_everyone(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(4);
    listener l = {0};
    lh_sequence_request request = request_for(&l, listen_to);
    uint64_t handle;
    lh_error error;
    for (int i = 0; i < 3; i++)
        assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &handle, NULL),
                         LH_OK);
    lh_submission_queue_close(submissions, LH_ERR_UNAVAILABLE, "stopping");
    assert_int_equal(l.ends, 3);
    assert_int_equal(l.status, LH_ERR_UNAVAILABLE);
    assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &handle, &error),
                     LH_ERR_UNAVAILABLE);
    lh_submission_queue_destroy(submissions);
}

/* ---- Threads ---- */

#define CLIENTS  4
#define REQUESTS 300

typedef struct client {
    lh_submission_queue *submissions;
    atomic_bool may_hear;
    int heard, cancelled;
} client;

static atomic_bool engine_stops;

static void hear(void *context, const lh_sequence_event *event) {
    client *c = context;
    (void)event;
    if (!atomic_load(&c->may_hear))
        fail_msg("an event came after its cancel had returned");
    c->heard++;
}

static void *run_client(void *argument) {
    client *c = argument;
    lh_sequence_request request = request_for(c, hear);
    for (int i = 0; i < REQUESTS; i++) {
        uint64_t handle;
        atomic_store(&c->may_hear, true);
        if (lh_submission_queue_submit(c->submissions, &request, 1, 0, &handle, NULL) != LH_OK)
            continue;
        if (i % 3 == 0)
            usleep(50);
        lh_submission_queue_cancel(c->submissions, handle);
        atomic_store(&c->may_hear, false);
        c->cancelled++;
    }
    return NULL;
}

/* Between the engine's look for submissions and its look for cancels both may come. */
static void what_is_cancelled_before_it_is_taken_never_runs(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(4);
    listener l = {0};
    lh_sequence_request request = request_for(&l, listen_to);
    uint64_t handles[3], taken;
    for (int i = 0; i < 3; i++)
        assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &handles[i], NULL),
                         LH_OK);
    lh_sequence_destroy(lh_submission_queue_take_submission(submissions)); /* the first */
    for (int i = 0; i < 3; i++)
        lh_submission_queue_cancel(submissions, handles[i]);
    assert_true(lh_submission_queue_take_cancel(submissions, &taken));
    assert_int_equal(taken, handles[0]);
    assert_false(lh_submission_queue_take_cancel(submissions, &taken));
    assert_null(lh_submission_queue_take_submission(submissions));
    assert_int_equal(lh_submission_queue_count(submissions), 0);
    lh_submission_queue_destroy(submissions);
}

/* Delivers events to whatever is there, as fast as it can. */
static void *run_engine(void *argument) {
    lh_submission_queue *submissions = argument;
    uint64_t handles[16] = {0}, taken;
    unsigned at = 0;
    while (!atomic_load(&engine_stops)) {
        lh_sequence *sequence;
        while ((sequence = lh_submission_queue_take_submission(submissions))) {
            handles[at++ % 16] = sequence->handle;
            lh_sequence_destroy(sequence);
        }
        for (int i = 0; i < 16; i++)
            lh_submission_queue_deliver(submissions, handles[i], i % 5 ? &token : &finished);
        while (lh_submission_queue_take_cancel(submissions, &taken))
            ;
    }
    while (lh_submission_queue_take_cancel(submissions, &taken))
        ;
    return NULL;
}

static void no_event_comes_after_a_cancel(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(CLIENTS);
    client clients[CLIENTS];
    pthread_t engine, threads[CLIENTS];
    atomic_store(&engine_stops, false);
    assert_int_equal(pthread_create(&engine, NULL, run_engine, submissions), 0);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.submissions = submissions};
        assert_int_equal(pthread_create(&threads[i], NULL, run_client, &clients[i]), 0);
    }
    int cancelled = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        cancelled += clients[i].cancelled;
    }
    atomic_store(&engine_stops, true);
    pthread_join(engine, NULL);
    assert_true(cancelled > 0);
    assert_int_equal(lh_submission_queue_count(submissions), 0);
    lh_submission_queue_destroy(submissions);
}

typedef struct slow_listener {
    lh_submission_queue *submissions;
    uint64_t handle;
    atomic_bool is_in_event, is_through;
    bool came_back_early;
} slow_listener;

static void hear_slowly(void *context, const lh_sequence_event *event) {
    slow_listener *l = context;
    (void)event;
    atomic_store(&l->is_in_event, true);
    usleep(50000);
    atomic_store(&l->is_through, true);
}

static void *cancel_meanwhile(void *argument) {
    slow_listener *l = argument;
    while (!atomic_load(&l->is_in_event))
        usleep(100);
    lh_submission_queue_cancel(l->submissions, l->handle);
    l->came_back_early = !atomic_load(&l->is_through);
    return NULL;
}

/* What the event is told to may go when the cancel has returned. */
static void a_cancel_waits_for_the_event_that_is_being_delivered(void **state) {
    (void)state;
    slow_listener l = {.submissions = open_desk(1)};
    lh_sequence_request request = request_for(&l, hear_slowly);
    pthread_t canceller;
    assert_int_equal(lh_submission_queue_submit(l.submissions, &request, 1, 0, &l.handle, NULL),
                     LH_OK);
    assert_int_equal(pthread_create(&canceller, NULL, cancel_meanwhile, &l), 0);
    lh_submission_queue_deliver(l.submissions, l.handle, &token);
    pthread_join(canceller, NULL);
    assert_false(l.came_back_early);
    lh_submission_queue_destroy(l.submissions);
}

static void count_at_the_end(void *context, const lh_sequence_event *event) {
    if (event->kind == LH_SEQUENCE_FINISHED)
        assert_int_equal(lh_submission_queue_count(context), 0);
}

/* Who has the whole answer may ask again at once, in the one place there is. */
static void the_last_event_finds_the_place_free(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(1);
    lh_sequence_request request = request_for(submissions, count_at_the_end);
    uint64_t handle;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lh_submission_queue_submit(submissions, &request, 1, 0, &handle, NULL),
                         LH_OK);
        lh_sequence_destroy(lh_submission_queue_take_submission(submissions));
        lh_submission_queue_deliver(submissions, handle, &token);
        lh_submission_queue_deliver(submissions, handle, &finished);
    }
    lh_submission_queue_destroy(submissions);
}

static lh_status come(lh_submission_queue *submissions, uint64_t tenant, uint32_t count,
                      uint64_t *handles) {
    lh_sequence_request requests[16];
    lh_error error;
    for (uint32_t i = 0; i < count; i++) {
        requests[i] = request_for(NULL, listen_to);
        requests[i].tenant = tenant;
    }
    lh_status status = lh_submission_queue_submit(submissions, requests, count, 0, handles, &error);
    for (lh_sequence *s; (s = lh_submission_queue_take_submission(submissions));)
        lh_sequence_destroy(s);
    return status;
}

/* 16 places: one with a name gets 14 of them. */
static void the_last_places_are_for_others(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(16);
    uint64_t handles[16], more[16];
    assert_int_equal(come(submissions, 7, 15, handles), LH_ERR_BUSY);
    assert_int_equal(come(submissions, 7, 14, handles), LH_OK);
    assert_int_equal(come(submissions, 7, 1, more), LH_ERR_BUSY);
    assert_int_equal(come(submissions, 8, 3, more), LH_ERR_BUSY);
    assert_int_equal(come(submissions, 8, 2, more), LH_OK);
    assert_int_equal(come(submissions, 0, 1, more), LH_ERR_BUSY);
    lh_submission_queue_cancel(submissions, handles[3]);
    uint64_t cancelled;
    assert_true(lh_submission_queue_take_cancel(submissions, &cancelled));
    assert_int_equal(come(submissions, 7, 1, more), LH_OK);
    lh_submission_queue_destroy(submissions);
}

static void without_names_all_places_are_for_all(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(16);
    uint64_t handles[16];
    assert_int_equal(come(submissions, 0, 16, handles), LH_OK);
    assert_int_equal(come(submissions, 0, 1, handles), LH_ERR_BUSY);
    lh_submission_queue_destroy(submissions);
}

/* Few tenants share a counter by chance: of these nobody does. */
static void each_tenant_is_counted_for_itself(void **state) {
    (void)state;
    lh_submission_queue *submissions = open_desk(80);
    uint64_t handles[16];
    for (int i = 0; i < 5; i++)
        assert_int_equal(come(submissions, 7, 14, handles), LH_OK);
    assert_int_equal(come(submissions, 7, 1, handles), LH_ERR_BUSY);
    for (uint64_t tenant = 8; tenant < 18; tenant++)
        assert_int_equal(come(submissions, tenant, 1, handles), LH_OK);
    assert_int_equal(come(submissions, 18, 1, handles), LH_ERR_BUSY); /* all are taken */
    lh_submission_queue_destroy(submissions);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_admitted_whole_or_not),
        cmocka_unit_test(the_last_places_are_for_others),
        cmocka_unit_test(each_tenant_is_counted_for_itself),
        cmocka_unit_test(without_names_all_places_are_for_all),
        cmocka_unit_test(the_gate_tells_why),
        cmocka_unit_test(cancelling_silences_and_frees),
        cmocka_unit_test(closing_fails_everyone),
        cmocka_unit_test(what_is_cancelled_before_it_is_taken_never_runs),
        cmocka_unit_test(no_event_comes_after_a_cancel),
        cmocka_unit_test(a_cancel_waits_for_the_event_that_is_being_delivered),
        cmocka_unit_test(the_last_event_finds_the_place_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
