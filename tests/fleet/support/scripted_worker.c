/* The scripted worker. */
#include "tests/fleet/support/scripted_worker.h"

#include "common/protocol/client/worker_client.h"
#include "common/protocol/control_seal.h"
#include "common/protocol/step_answer.h"

#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCES_MAX 256
#define REPORT_MS     10

typedef struct held {
    uint64_t sequence; /* 0: free */
    uint32_t first, length;
} held;

typedef struct step {
    scripted_worker *worker;
    lh_h2_stream *stream; /* NULL: closed */
    lh_step_reader *reader;
    lh_step_manifest head;
    lh_step_result results[64];
    uint32_t result_count;
    bool is_whole, is_posted, is_done;
    struct step *next;
} step;

struct scripted_worker {
    pthread_t thread;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_async_t wake;
    lh_h2_server *server;
    lh_h2_client *control;
    lh_worker_client *ring;
    char gateway[32], address[32];
    bool has_control, is_ring_connected;
    lh_h2_stream *put;
    char answer[16384];
    size_t answer_length;
    uint64_t epoch;
    held sequences[SEQUENCES_MAX];
    step *steps;
    int closing;
    atomic_bool is_stopping, holds;
    atomic_uint sequence_count, resets, garbled, refusals;
};

uint32_t scripted_worker_token(uint32_t first, uint32_t position) {
    return (first * 31 + position * 7) % 250;
}

/* ---- Steps ---- */

static held *find(scripted_worker *w, uint64_t sequence) {
    for (int i = 0; i < SEQUENCES_MAX; i++)
        if (w->sequences[i].sequence == sequence)
            return &w->sequences[i];
    return NULL;
}

static lh_status on_manifest(void *context, const lh_step_manifest *m, lh_error *error) {
    step *s = context;
    scripted_worker *w = s->worker;
    uint32_t row = 0;
    if (m->epoch != w->epoch)
        return lh_fail(error, LH_ERR_STALE, "another epoch");
    s->head = (lh_step_manifest){.epoch = m->epoch, .step = m->step, .step_class = m->step_class};
    for (uint32_t i = 0; i < m->segment_count; row += m->segments[i++].rows) {
        const lh_step_segment *segment = &m->segments[i];
        held *h = find(w, segment->sequence);
        if (!h) {
            h = find(w, 0);
            *h = (held){.sequence = segment->sequence, .first = m->tokens[row]};
            atomic_fetch_add(&w->sequence_count, 1);
        }
        if (h->length != segment->first_position)
            return lh_fail(error, LH_ERR_INVALID, "positions do not continue");
        h->length += segment->rows;
        if (segment->ask.draws)
            s->results[s->result_count++] =
                (lh_step_result){.sequence = segment->sequence,
                                 .position = h->length,
                                 .answer.token = scripted_worker_token(h->first, h->length)};
    }
    for (uint32_t i = 0; i < m->truncation_count; i++) {
        held *h = find(w, m->truncations[i].sequence);
        if (h) {
            h->sequence = 0;
            atomic_fetch_sub(&w->sequence_count, 1);
        }
    }
    return LH_OK;
}

static void post(step *s) {
    lh_step_submission *submission;
    lh_error error;
    s->is_posted = true;
    if (lh_worker_client_submit(s->worker->ring, &s->head, s, &submission, &error) != LH_OK) {
        lh_h2_stream_respond(s->stream, 502, "{}");
        s->is_done = true;
        return;
    }
    size_t capacity = lh_step_results_bytes(s->results, s->result_count) + 64, length = 0;
    uint8_t *bytes = malloc(capacity);
    lh_status status =
        lh_step_encode_results(s->results, s->result_count, bytes, capacity, &length, &error);
    assert(status == LH_OK);
    (void)status;
    lh_step_submission_write(submission, bytes, length);
    lh_step_submission_end(submission);
}

static void advance(scripted_worker *w) {
    for (step **at = &w->steps; *at;) {
        step *s = *at;
        if (s->stream && s->is_whole && !s->is_posted && !atomic_load(&w->holds))
            post(s);
        if (s->stream || (s->is_posted && !s->is_done)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        lh_step_reader_destroy(s->reader);
        free(s);
    }
}

static void on_ring_done(void *context, void *step_context, lh_status status, const char *blamed,
                         const char *message) {
    step *s = step_context;
    (void)context;
    (void)blamed;
    (void)message;
    s->is_done = true;
    if (s->stream)
        lh_h2_stream_respond(s->stream, status == LH_OK ? 200 : lh_step_answer_http_status(status),
                             "{}");
}

static void on_ring_state(void *context, bool connected, const char *reason) {
    scripted_worker *w = context;
    (void)reason;
    w->is_ring_connected = connected;
}

static void on_step_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    step *s = context;
    lh_error error;
    lh_h2_stream_consume(stream, length);
    lh_status status = lh_step_reader_feed(s->reader, bytes, length, &error);
    if (status != LH_OK) {
        lh_h2_stream_respond(stream, lh_step_answer_http_status(status), "{}");
        s->is_done = s->is_posted = true;
    }
}

static void on_step_end(lh_h2_stream *stream, void *context) {
    step *s = context;
    (void)stream;
    s->is_whole = true;
    advance(s->worker);
}

static void on_step_closed(lh_h2_stream *stream, void *context, lh_status status) {
    step *s = context;
    (void)stream;
    s->stream = NULL;
    if (status == LH_ERR_CANCELLED)
        atomic_fetch_add(&s->worker->resets, 1);
}

static void on_request(void *server_context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **context) {
    static const lh_h2_stream_events stream_events = {
        .on_body = on_step_body, .on_end = on_step_end, .on_closed = on_step_closed};
    static const lh_step_reader_events reader_events = {.on_manifest = on_manifest};
    scripted_worker *w = server_context;
    lh_error error;
    step *s = calloc(1, sizeof *s);
    assert(s && strncmp(request->path, "/chains/main/steps/", 19) == 0);
    lh_status status = lh_step_reader_create(0, &reader_events, s, &s->reader, &error);
    assert(status == LH_OK);
    (void)status;
    s->worker = w;
    s->stream = stream;
    s->next = w->steps;
    w->steps = s;
    *events = &stream_events;
    *context = s;
}

/* ---- Reports ---- */

static void adopt(scripted_worker *w) {
    size_t length = 0;
    if (lh_control_unseal("scripted", w->answer, w->answer_length, &length, NULL) != LH_OK)
        return;
    json_t *answer = json_loadb(w->answer, length, 0, NULL);
    json_t *assignment = json_object_get(answer, "assignment");
    uint64_t epoch = (uint64_t)json_integer_value(json_object_get(assignment, "epoch"));
    if (assignment && !json_is_null(assignment) && epoch != w->epoch) {
        w->epoch = epoch;
        memset(w->sequences, 0, sizeof w->sequences);
        atomic_store(&w->sequence_count, 0);
    }
    json_decref(answer);
}

static void on_put_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    scripted_worker *w = context;
    lh_h2_stream_consume(stream, length);
    assert(length <= sizeof w->answer - w->answer_length);
    memcpy(w->answer + w->answer_length, bytes, length);
    w->answer_length += length;
}

static void on_put_response(lh_h2_stream *stream, void *context, int http_status) {
    scripted_worker *w = context;
    (void)stream;
    if (http_status == 400)
        atomic_fetch_add(&w->refusals, 1);
}

static void on_put_closed(lh_h2_stream *stream, void *context, lh_status status) {
    scripted_worker *w = context;
    (void)stream;
    w->put = NULL;
    if (status == LH_OK)
        adopt(w);
}

static void report(scripted_worker *w) {
    static const lh_h2_stream_events events = {
        .on_response = on_put_response, .on_body = on_put_body, .on_closed = on_put_closed};
    char assignment[160] = "null", body[1024];
    lh_error error;
    if (w->put || !w->has_control || atomic_load(&w->is_stopping))
        return;
    if (w->epoch)
        snprintf(assignment, sizeof assignment,
                 "{\"generation\":%llu,\"state\":\"ready\",\"done_bytes\":1,\"total_bytes\":1,"
                 "\"error\":null}",
                 (unsigned long long)w->epoch);
    snprintf(body, sizeof body,
             "{\"protocol\":4,\"instance\":\"0000000000000001\",\"site\":\"s\",\"version\":\"0\","
             "\"isa\":\"none\",\"threads\":1,\"addresses\":{\"tls\":null,\"plain\":\"%s\"},"
             "\"memory_bytes\":1000000000,\"kv_bytes\":1,\"assignment\":%s,\"next\":{\"connected\":"
             "%s,\"round_trip_us\":1,\"bytes_sent\":1},\"kv\":{\"pages_total\":64,\"pages_free\":"
             "64,\"page_positions\":16,\"page_bytes\":1,\"sequences\":0},\"steps\":{\"active\":0,"
             "\"done\":0,\"failed\":0},\"leaving\":false}",
             w->address, assignment, w->is_ring_connected ? "true" : "false");
    w->answer_length = 0;
    if (lh_h2_client_submit(w->control, "PUT", "/fleet/workers/scripted", NULL, 0, 0, &events, w,
                            &w->put, &error) != LH_OK)
        return;
    char *message = lh_control_seal("scripted", strdup(body));
    assert(message);
    size_t length = strlen(message);
    uint32_t garbled = atomic_load(&w->garbled);
    if (garbled > 0) {
        size_t bit = garbled * 7919 % (8 * length);
        message[bit / 8] = (char)(message[bit / 8] ^ (1 << bit % 8));
        atomic_fetch_sub(&w->garbled, 1);
    }
    lh_h2_stream_write(w->put, message, length);
    lh_h2_stream_end(w->put);
    free(message);
}

static void on_control_state(void *context, bool connected, const char *reason) {
    scripted_worker *w = context;
    (void)reason;
    w->has_control = connected;
}

static void on_timer(uv_timer_t *timer) {
    scripted_worker *w = timer->data;
    report(w);
    advance(w);
}

/* ---- Life ---- */

static void on_handle_closed(uv_handle_t *handle) {
    (void)handle;
}

static void on_part_closed(void *context) {
    scripted_worker *w = context;
    if (--w->closing > 0)
        return;
    uv_close((uv_handle_t *)&w->timer, on_handle_closed);
    uv_close((uv_handle_t *)&w->wake, on_handle_closed);
}

static void on_wake(uv_async_t *async) {
    scripted_worker *w = async->data;
    advance(w);
    if (!atomic_load(&w->is_stopping) || w->closing)
        return;
    w->closing = 3;
    uv_timer_stop(&w->timer);
    lh_worker_client_close(w->ring, on_part_closed, w);
    lh_h2_client_close(w->control, on_part_closed, w);
    lh_h2_server_close(w->server, on_part_closed, w);
}

static void *run(void *argument) {
    scripted_worker *w = argument;
    uv_run(&w->loop, UV_RUN_DEFAULT);
    return NULL;
}

scripted_worker *scripted_worker_start(int fleet_port) {
    static const lh_worker_client_events ring_events = {.on_state = on_ring_state,
                                                        .on_done = on_ring_done};
    lh_h2_limits limits = lh_h2_default_limits();
    lh_error error;
    scripted_worker *w = calloc(1, sizeof *w);
    assert(w);
    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->timer);
    uv_async_init(&w->loop, &w->wake, on_wake);
    w->timer.data = w->wake.data = w;
    snprintf(w->gateway, sizeof w->gateway, "127.0.0.1:%d", fleet_port);
    lh_status status = lh_h2_server_create(&w->loop, "127.0.0.1:0", NULL, &limits, on_request, w,
                                           &w->server, &error);
    assert(status == LH_OK);
    snprintf(w->address, sizeof w->address, "127.0.0.1:%d", lh_h2_server_port(w->server));
    status = lh_h2_client_create(&w->loop, w->gateway, NULL, &limits, on_control_state, w,
                                 &w->control, &error);
    assert(status == LH_OK);
    status = lh_worker_client_create(&w->loop, w->gateway, "main", NULL, &limits, &ring_events, w,
                                     &w->ring, &error);
    assert(status == LH_OK);
    uv_timer_start(&w->timer, on_timer, 0, REPORT_MS);
    pthread_create(&w->thread, NULL, run, w);
    return w;
}

void scripted_worker_stop(scripted_worker *w) {
    atomic_store(&w->is_stopping, true);
    uv_async_send(&w->wake);
    pthread_join(w->thread, NULL);
    for (step *s = w->steps, *next; s; s = next) {
        next = s->next;
        lh_step_reader_destroy(s->reader);
        free(s);
    }
    uv_loop_close(&w->loop);
    free(w);
}

void scripted_worker_hold(scripted_worker *w, bool hold) {
    atomic_store(&w->holds, hold);
    uv_async_send(&w->wake);
}

void scripted_worker_garble(scripted_worker *w, uint32_t reports) {
    atomic_store(&w->garbled, reports);
}

uint32_t scripted_worker_refusals(const scripted_worker *w) {
    return atomic_load(&w->refusals);
}

uint32_t scripted_worker_sequences(const scripted_worker *w) {
    return atomic_load(&w->sequence_count);
}

uint32_t scripted_worker_resets(const scripted_worker *w) {
    return atomic_load(&w->resets);
}
