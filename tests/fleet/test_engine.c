/* The engine on its own thread, over real sockets, with a scripted worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gateway/engine/engine_options.h"
#include "tests/fleet/support/scripted_worker.h"
#include "tests/support/tiny_llama.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct rig {
    lh_model_file *file;
    lh_model_profile profile;
    lh_engine *engine;
    scripted_worker *worker;
    lh_trace_store *traces;
} rig;

static lh_model_file *open_tiny(void) {
    char path[] = "/tmp/longhaul-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tiny_llama tiny = tiny_llama_default();
    tiny_llama_save(&tiny, path);
    lh_model_file *file;
    assert_int_equal(lh_model_file_open(path, &file, NULL), LH_OK);
    unlink(path);
    return file;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void wait_for_state(const rig *h, lh_engine_state state) {
    int64_t limit_us = lh_clock_us() + 20000000;
    while (lh_engine_current_state(h->engine) != state) {
        assert_true(lh_clock_us() < limit_us);
        pause_ms(2);
    }
}

static lh_engine_options options_of(rig *h, const char *listen) {
    return (lh_engine_options){.replicas = 1,
                               .fleet = {.model = &h->profile,
                                         .chain_name = "main",
                                         .origin = {.site = "", .has_tls = false},
                                         .workers_expected = 1,
                                         .context = 256,
                                         .kv_type = "f32",
                                         .rows_max = 64,
                                         .renew_us = 50000,
                                         .lease_us = 1000000,
                                         .probation_us = 500000,
                                         .first_epoch = 100},
                               .scheduler = {.sequences_max = 8,
                                             .queue_max = 40,
                                             .overlap = {LH_OVERLAP_MANUAL, 16, 1},
                                             .rows_max = 64,
                                             .vocabulary = h->profile.vocabulary,
                                             .step_timeout_us = 20000000,
                                             .replay_timeout_us = 3000000},
                               .model_file = h->file,
                               .model_name = "tiny",
                               .fleet_listen = listen,
                               .limits = lh_h2_default_limits(),
                               .digest_threads = 2,
                               .traces = h->traces};
}

static void open_rig(rig *h) {
    lh_log_set_level(LH_LOG_ERROR);
    h->file = open_tiny();
    assert_int_equal(lh_model_profile_read(lh_model_file_gguf(h->file), &h->profile, NULL), LH_OK);
    assert_int_equal(lh_trace_store_create(8, 1 << 20, &h->traces, NULL), LH_OK);
    lh_engine_options options = options_of(h, "127.0.0.1:0");
    assert_int_equal(lh_engine_create(&options, &h->engine, NULL), LH_OK);
    h->worker = scripted_worker_start(lh_engine_fleet_port(h->engine));
    wait_for_state(h, LH_ENGINE_READY);
}

static void close_rig(rig *h) {
    lh_engine_destroy(h->engine);
    if (h->worker)
        scripted_worker_stop(h->worker);
    lh_trace_store_destroy(h->traces);
    lh_model_file_close(h->file);
}

/* ---- Clients ---- */

typedef struct client {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t first, prompt_tokens, count;
    bool is_wrong, is_finished, is_failed;
    lh_status status;
} client;

static void on_event(void *context, const lh_sequence_event *event) {
    client *c = context;
    pthread_mutex_lock(&c->mutex);
    if (event->kind == LH_SEQUENCE_TOKEN) {
        uint32_t position = c->prompt_tokens + c->count++;
        c->is_wrong |= event->position != position ||
                       event->token != scripted_worker_token(c->first, position);
    }
    c->is_finished |= event->kind == LH_SEQUENCE_FINISHED;
    c->is_failed |= event->kind == LH_SEQUENCE_FAILED;
    c->status = event->status;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

static lh_status submit_traced(rig *h, client *c, uint32_t first, uint32_t prompt_tokens,
                               uint32_t max_tokens, uint64_t trace, uint64_t *handle) {
    uint32_t prompt[256];
    lh_error error;
    *c = (client){.first = first, .prompt_tokens = prompt_tokens};
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    for (uint32_t i = 0; i < prompt_tokens; i++)
        prompt[i] = first;
    return lh_engine_submit(
        h->engine,
        &(lh_sequence_request){.prompt = prompt,
                               .prompt_tokens = prompt_tokens,
                               .max_tokens = max_tokens,
                               .sampling = {.top_p = 1, .repetition_penalty = 1},
                               .on_event = on_event,
                               .context = c,
                               .trace = trace},
        1, handle, &error);
}

static lh_status submit(rig *h, client *c, uint32_t first, uint32_t prompt_tokens,
                        uint32_t max_tokens, uint64_t *handle) {
    return submit_traced(h, c, first, prompt_tokens, max_tokens, 0, handle);
}

static void wait_for_end(client *c) {
    pthread_mutex_lock(&c->mutex);
    while (!c->is_finished && !c->is_failed)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

static void wait_for_empty_worker(const rig *h) {
    int64_t limit_us = lh_clock_us() + 20000000;
    while (scripted_worker_sequences(h->worker) > 0) {
        assert_true(lh_clock_us() < limit_us);
        pause_ms(1);
    }
}

static void a_sequence_runs_through(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    client c;
    uint64_t handle;
    assert_int_equal(submit(&h, &c, 9, 50, 100, &handle), LH_OK);
    wait_for_end(&c);
    assert_true(c.is_finished && !c.is_wrong);
    assert_int_equal(c.count, 100);
    wait_for_empty_worker(&h);
    lh_engine_cancel(h.engine, handle);
    close_rig(&h);
}

/* Chunks of 16 rows, 50 in all, and three more tokens of one row. */
static void a_traced_sequence_leaves_its_steps(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    client c;
    uint64_t handle, number = lh_trace_store_open(h.traces, "one", "", lh_clock_us());
    assert_int_equal(submit_traced(&h, &c, 9, 50, 4, number, &handle), LH_OK);
    wait_for_end(&c);
    int64_t limit_us = lh_clock_us() + 20000000;
    while (!lh_trace_store_is_settled(h.traces, number)) {
        assert_true(lh_clock_us() < limit_us);
        pause_ms(1);
    }
    lh_trace *trace = lh_trace_store_get(h.traces, number);
    assert_int_equal(trace->entry_count, 7);
    assert_int_equal(trace->token_count, 4);
    for (uint32_t i = 0; i < 7; i++) {
        const lh_trace_step *step = trace->entries[i].step;
        assert_int_equal(step->status, LH_OK);
        assert_int_equal(step->rows, i < 3 ? 16 : i == 3 ? 2 : 1);
        assert_true(step->results_us >= step->submitted_us);
        assert_true(step->formed_us > 0 && step->formed_us <= step->submitted_us);
        assert_true(step->answered_us >= step->submitted_us);
    }
    lh_trace_destroy(trace);
    close_rig(&h);
}

static void what_there_is_room_for_is_said(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    lh_engine_room room = lh_engine_current_room(h.engine);
    assert_int_equal(room.sequences_max, 48);
    assert_int_equal(room.sequences_free, 48);
    assert_int_equal(room.running + room.waiting, 0);
    assert_true(room.positions_max > 0 && room.positions_max == room.positions_free);
    scripted_worker_hold(h.worker, true);
    client c;
    uint64_t handle;
    assert_int_equal(submit(&h, &c, 9, 50, 100, &handle), LH_OK);
    int64_t limit_us = lh_clock_us() + 20000000;
    while (lh_engine_current_room(h.engine).running == 0) {
        assert_true(lh_clock_us() < limit_us);
        pause_ms(1);
    }
    room = lh_engine_current_room(h.engine);
    assert_int_equal(room.sequences_free, 47);
    assert_int_equal(room.waiting, 0);
    assert_true(room.positions_free < room.positions_max);
    char *text = lh_engine_fleet_json(h.engine);
    assert_non_null(strstr(text, "\"state\":\"ready\""));
    assert_non_null(strstr(text, "\"running\":1"));
    free(text);
    close_rig(&h);
}

static void *run_client(void *argument) {
    rig *h = argument;
    client c;
    uint64_t handle;
    uint32_t wrong = 0, finished = 0;
    for (uint32_t i = 0; i < 40; i++) {
        lh_status status = submit(h, &c, i, 1 + i * 3 % 60, 20, &handle);
        if (status != LH_OK) {
            wrong += status != LH_ERR_BUSY;
            pause_ms(1);
            continue;
        }
        if (i % 3 == 0) {
            pause_ms(i % 5);
            lh_engine_cancel(h->engine, handle);
        } else {
            wait_for_end(&c);
            finished += c.is_finished;
            wrong += c.is_wrong || !c.is_finished || c.count != 20;
        }
        if (i % 10 == 0)
            free(lh_engine_fleet_json(h->engine));
    }
    return (void *)(uintptr_t)(wrong * 1000 + finished);
}

static void many_threads_share_it(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_client, &h), 0);
    uintptr_t finished = 0;
    for (int i = 0; i < 6; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_true((uintptr_t)result < 1000);
        finished += (uintptr_t)result;
    }
    assert_true(finished > 0);
    wait_for_empty_worker(&h);
    close_rig(&h);
}

/* The request is reset and the pages are freed, while the worker still sits on the step. */
static void a_cancel_reaches_the_worker(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    scripted_worker_hold(h.worker, true);
    client c;
    uint64_t handle;
    assert_int_equal(submit(&h, &c, 9, 100, 100, &handle), LH_OK);
    int64_t limit_us = lh_clock_us() + 20000000;
    while (scripted_worker_sequences(h.worker) == 0 && lh_clock_us() < limit_us)
        pause_ms(1);
    lh_engine_cancel(h.engine, handle);
    wait_for_empty_worker(&h);
    assert_true(scripted_worker_resets(h.worker) > 0);
    scripted_worker_hold(h.worker, false);
    assert_int_equal(c.count, 0);
    client after;
    assert_int_equal(submit(&h, &after, 3, 20, 5, &handle), LH_OK);
    wait_for_end(&after);
    assert_true(after.is_finished && !after.is_wrong);
    close_rig(&h);
}

/* A flipped bit in a report: refused, whatever it would have said, and the next one counts. */
static void a_garbled_report_is_refused(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    assert_int_equal(scripted_worker_refusals(h.worker), 0);
    scripted_worker_garble(h.worker, 20);
    int64_t limit_us = lh_clock_us() + 20000000;
    while (scripted_worker_refusals(h.worker) < 20) {
        assert_true(lh_clock_us() < limit_us);
        pause_ms(2);
    }
    wait_for_state(&h, LH_ENGINE_READY);
    client c;
    uint64_t handle;
    assert_int_equal(submit(&h, &c, 9, 50, 20, &handle), LH_OK);
    wait_for_end(&c);
    assert_true(c.is_finished && !c.is_wrong);
    close_rig(&h);
}

/* The worker's process goes and another one comes: the stream goes on. */
static void another_worker_takes_the_stream_over(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    scripted_worker_hold(h.worker, true);
    client c;
    uint64_t handle;
    assert_int_equal(submit(&h, &c, 9, 20, 100, &handle), LH_OK);
    scripted_worker_stop(h.worker);
    h.worker = scripted_worker_start(lh_engine_fleet_port(h.engine));
    wait_for_end(&c);
    assert_true(c.is_finished && !c.is_wrong);
    assert_int_equal(c.count, 100);
    close_rig(&h);
}

static void without_a_worker_it_ends_cleanly(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    scripted_worker_hold(h.worker, true);
    client c, late;
    uint64_t handle;
    assert_int_equal(submit(&h, &c, 9, 20, 100, &handle), LH_OK);
    scripted_worker_stop(h.worker);
    h.worker = NULL;
    wait_for_end(&c);
    assert_true(c.is_failed);
    assert_int_equal(c.status, LH_ERR_UNAVAILABLE);
    wait_for_state(&h, LH_ENGINE_NO_CHAIN);
    assert_int_equal(submit(&h, &late, 9, 20, 100, &handle), LH_ERR_UNAVAILABLE);
    close_rig(&h);
}

static void stopping_fails_what_is_left(void **state) {
    (void)state;
    rig h = {0};
    open_rig(&h);
    scripted_worker_hold(h.worker, true);
    client c, late;
    uint64_t handle;
    assert_int_equal(submit(&h, &c, 9, 20, 100, &handle), LH_OK);
    lh_engine_drain(h.engine);
    wait_for_state(&h, LH_ENGINE_DRAINING);
    pause_ms(20);
    assert_int_equal(submit(&h, &late, 9, 20, 100, &handle), LH_ERR_UNAVAILABLE);
    assert_false(c.is_failed);
    close_rig(&h);
    assert_true(c.is_failed);
}

static void a_port_in_use_is_said(void **state) {
    (void)state;
    rig h = {0}, second = {0};
    open_rig(&h);
    char listen[32];
    lh_error error;
    snprintf(listen, sizeof listen, "127.0.0.1:%d", lh_engine_fleet_port(h.engine));
    second.file = open_tiny();
    assert_int_equal(lh_model_profile_read(lh_model_file_gguf(second.file), &second.profile, NULL),
                     LH_OK);
    lh_engine_options options = options_of(&second, listen);
    assert_int_not_equal(lh_engine_create(&options, &second.engine, &error), LH_OK);
    assert_non_null(strstr(error.message, listen));
    lh_model_file_close(second.file);
    close_rig(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_runs_through),
        cmocka_unit_test(a_traced_sequence_leaves_its_steps),
        cmocka_unit_test(what_there_is_room_for_is_said),
        cmocka_unit_test(many_threads_share_it),
        cmocka_unit_test(a_cancel_reaches_the_worker),
        cmocka_unit_test(a_garbled_report_is_refused),
        cmocka_unit_test(another_worker_takes_the_stream_over),
        cmocka_unit_test(without_a_worker_it_ends_cleanly),
        cmocka_unit_test(stopping_fails_what_is_left),
        cmocka_unit_test(a_port_in_use_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
