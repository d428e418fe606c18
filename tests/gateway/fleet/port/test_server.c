/* The fleet port over loopback: reports, the ring's last hop, the model's weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/http2/client.h"
#include "common/protocol/control_seal.h"
#include "gateway/fleet/port/server.h"
#include "tests/support/certificates.h"
#include "tests/support/loop.h"
#include "tests/support/tiny_llama.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORTS        "/fleet/workers/"
#define BODY_BYTES_MAX (32u << 20)

static const char good[] =
    "{\"protocol\":4,\"instance\":\"00ff00ff00ff00ff\",\"site\":\"home\",\"version\":\"0.1.0\","
    "\"isa\":\"avx2\",\"threads\":8,\"addresses\":{\"tls\":null,\"plain\":\"[::1]:7101\"},"
    "\"memory_bytes\":1000,\"kv_bytes\":500,\"assignment\":null,\"compute\":null,\"next\":null,"
    "\"kv\":null,\"steps\":{\"active\":1,\"done\":2,\"failed\":3},\"leaving\":false}";

/* One request and what was answered. */
typedef struct exchange {
    lh_h2_stream *stream;
    int http_status;
    bool has_ended, is_closed;
    lh_status status;
    uint32_t pieces;
    size_t length;
    char *body; /* [BODY_BYTES_MAX], terminated */
} exchange;

typedef struct bench {
    uv_loop_t loop;
    lh_model_file *file;
    lh_fleet_server *server;
    lh_h2_client *client;
    bool is_connected;
    exchange only;
    /* What the owner answers, and what it was told. */
    lh_status verdict;
    lh_worker_report report;
    uint32_t reports, calls, results, epoch, unreadable;
    uint64_t step, sequence;
    char chain[LH_WORKER_NAME_BYTES];
    lh_tls_identity peer;
} bench;

/* ---- The owner ---- */

static lh_status on_report(void *context, const lh_worker_report *report, lh_fleet_answer *answer,
                           lh_error *error) {
    static const lh_model_profile profile = {.layers = 2};
    static const lh_fleet_options options = {.model = &profile, .kv_type = "f32"};
    bench *b = context;
    b->report = *report;
    b->reports++;
    *answer = (lh_fleet_answer){.options = &options,
                                .renew_us = 500000,
                                .lease_us = 3000000,
                                .has_assignment = true,
                                .assignment = {.chain = "main", .epoch = 7}};
    return b->verdict ? lh_fail(error, b->verdict, "no room for %s", report->name) : LH_OK;
}

static lh_status on_results(void *context, const char *chain, const lh_tls_identity *peer,
                            uint32_t epoch, uint64_t step, const lh_step_result *results,
                            uint32_t count, lh_error *error) {
    bench *b = context;
    b->calls++;
    snprintf(b->chain, sizeof b->chain, "%s", chain);
    b->peer = *peer;
    b->epoch = epoch;
    b->step = step;
    b->results += count;
    b->sequence = results[0].sequence;
    return b->verdict ? lh_fail(error, b->verdict, "an old epoch") : LH_OK;
}

static void on_unreadable(void *context, const char *chain, const lh_tls_identity *peer,
                          uint32_t epoch, uint64_t step, const char *message) {
    bench *b = context;
    b->unreadable++;
    snprintf(b->chain, sizeof b->chain, "%s", chain);
    b->peer = *peer;
    b->epoch = epoch;
    b->step = step;
    assert_true(message[0]);
}

/* ---- A client ---- */

static void on_state(void *context, bool connected, const char *reason) {
    (void)reason;
    ((bench *)context)->is_connected = connected;
}

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    ((exchange *)context)->http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    exchange *e = context;
    assert_true(e->length + length < BODY_BYTES_MAX);
    memcpy(e->body + e->length, bytes, length);
    e->length += length;
    e->pieces++;
    e->body[e->length] = 0;
    lh_h2_stream_consume(stream, length);
}

static void on_end(lh_h2_stream *stream, void *context) {
    (void)stream;
    ((exchange *)context)->has_ended = true;
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    exchange *e = context;
    (void)stream;
    e->status = status;
    e->is_closed = true;
}

static void begin_as(bench *b, exchange *e, const char *method, const char *path, const char *range,
                     int send_class) {
    static const lh_h2_stream_events events = {
        .on_response = on_response, .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    const lh_h2_header header = {"range", range};
    char *body = e->body ? e->body : malloc(BODY_BYTES_MAX);
    assert_non_null(body);
    body[0] = 0;
    *e = (exchange){.body = body};
    assert_int_equal(lh_h2_client_submit(b->client, method, path, &header, range != NULL,
                                         send_class, &events, e, &e->stream, NULL),
                     LH_OK);
}

static void begin(bench *b, exchange *e, const char *method, const char *path, const char *range) {
    begin_as(b, e, method, path, range, 1);
}

static bool is_above_zero(void *number) {
    return *(const uint32_t *)number > 0;
}

static void run_until(bench *b, uint32_t *number) {
    assert_true(loop_run_until(&b->loop, is_above_zero, number, 20000));
}

static int ask_with(bench *b, const char *method, const char *path, const char *range,
                    const void *body, size_t length) {
    begin(b, &b->only, method, path, range);
    if (length > 0)
        lh_h2_stream_write(b->only.stream, body, length);
    lh_h2_stream_end(b->only.stream);
    loop_run_until_set(&b->loop, &b->only.is_closed);
    return b->only.http_status;
}

static int ask(bench *b, const char *method, const char *path) {
    return ask_with(b, method, path, NULL, "", 0);
}

static bool is_answered(void *exchanged) {
    return ((const exchange *)exchanged)->http_status != 0;
}

/* ---- Life ---- */

/* A model of many frames. */
static lh_model_file *open_model(void) {
    char path[] = "/tmp/longhaul-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tiny_llama tiny = tiny_llama_default();
    tiny.vocabulary = 150000;
    tiny_llama_save(&tiny, path);
    lh_model_file *file;
    assert_int_equal(lh_model_file_open(path, &file, NULL), LH_OK);
    unlink(path);
    assert_true(lh_model_file_size(file) > 2 * 4194304);
    return file;
}

static void connect_client(bench *b, const lh_tls_options *tls) {
    const lh_h2_limits limits = lh_h2_default_limits();
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_fleet_server_port(b->server));
    assert_int_equal(
        lh_h2_client_create(&b->loop, address, tls, &limits, on_state, b, &b->client, NULL), LH_OK);
    loop_run_until_set(&b->loop, &b->is_connected);
}

static void open_bench(bench *b, const lh_tls_options *tls, const lh_tls_options *client_tls) {
    const lh_fleet_server_owner owner = {b, on_report, on_results, on_unreadable, NULL};
    const lh_h2_limits limits = lh_h2_default_limits();
    *b = (bench){.file = open_model()};
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    assert_int_equal(lh_fleet_server_create(&b->loop, "127.0.0.1:0", tls, &limits, "tiny", b->file,
                                            &owner, &b->server, NULL),
                     LH_OK);
    connect_client(b, client_tls);
}

static void close_bench(bench *b) {
    bool is_client_closed = false, is_server_closed = false;
    lh_fleet_server_close(b->server, loop_set_flag, &is_server_closed);
    loop_run_until_set(&b->loop, &is_server_closed);
    lh_h2_client_close(b->client, loop_set_flag, &is_client_closed);
    loop_run_until_set(&b->loop, &is_client_closed);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    lh_model_file_close(b->file);
    free(b->only.body);
}

/* ---- Reports ---- */

/* Under the name of `sealed_as`. */
static int report_as(bench *b, const char *path, const char *sealed_as, const char *text) {
    char *sealed = lh_control_seal(sealed_as, strdup(text));
    assert_non_null(sealed);
    int http_status = ask_with(b, "PUT", path, NULL, sealed, strlen(sealed));
    free(sealed);
    return http_status;
}

static void a_report_is_answered_with_what_the_owner_says(void **state) {
    (void)state;
    bench b;
    size_t length = 0;
    open_bench(&b, NULL, NULL);
    assert_int_equal(report_as(&b, REPORTS "w-1", "w-1", good), 200);
    assert_int_equal(b.reports, 1);
    assert_string_equal(b.report.name, "w-1");
    assert_string_equal(b.report.site, "home");
    assert_int_equal(lh_control_unseal("w-1", b.only.body, b.only.length, &length, NULL), LH_OK);
    b.only.body[length] = 0;
    json_t *answer = json_loads(b.only.body, 0, NULL);
    json_t *assignment = json_object_get(answer, "assignment");
    assert_int_equal(json_integer_value(json_object_get(assignment, "epoch")), 7);
    json_t *model = json_object_get(assignment, "model");
    assert_string_equal(json_string_value(json_object_get(model, "name")), "tiny");
    /* the paths that it names are there */
    assert_int_equal(ask(&b, "GET", json_string_value(json_object_get(model, "weights_url"))), 200);
    assert_int_equal(ask(&b, "GET", json_string_value(json_object_get(model, "tensors_url"))), 503);
    json_decref(answer);
    close_bench(&b);
}

static void the_owners_refusal_is_told(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL, NULL);
    b.verdict = LH_ERR_LIMIT;
    assert_int_equal(report_as(&b, REPORTS "w-1", "w-1", good), 503);
    assert_string_equal(b.only.body, "no room for w-1\n");
    close_bench(&b);
}

/* Nothing of it reaches the owner. */
static void a_report_that_is_not_sound_is_refused(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL, NULL);
    assert_int_equal(ask_with(&b, "PUT", REPORTS "w-1", NULL, good, sizeof good - 1), 400);
    assert_int_equal(report_as(&b, REPORTS "w-1", "w-2", good), 400);
    assert_int_equal(report_as(&b, REPORTS "w-1", "w-1", "{\"protocol\":4}"), 400);
    assert_non_null(strstr(b.only.body, "the worker's report: instance"));
    assert_int_equal(report_as(&b, REPORTS "w%201", "w 1", good), 400);
    assert_non_null(strstr(b.only.body, "a worker's name is"));
    assert_int_equal(report_as(&b, REPORTS, "", good), 400);
    assert_int_equal(b.reports, 0);
    close_bench(&b);
}

/* 64 KiB with the seal; and not a byte more, in however many pieces. */
static void a_report_has_a_bound(void **state) {
    (void)state;
    bench b;
    char *text = malloc(LH_CONTROL_BODY_BYTES_MAX);
    assert_non_null(text);
    open_bench(&b, NULL, NULL);
    for (uint32_t over = 0; over < 2; over++) {
        size_t seal = strlen("\ncrc32c=00000000\n");
        size_t padded = LH_CONTROL_BODY_BYTES_MAX - seal + over;
        char *wide = malloc(padded + 1);
        assert_non_null(wide);
        memset(wide, ' ', padded);
        memcpy(wide, good, sizeof good - 1);
        wide[padded] = 0;
        assert_int_equal(report_as(&b, REPORTS "w-1", "w-1", wide), over ? 413 : 200);
        free(wide);
    }
    begin(&b, &b.only, "PUT", REPORTS "w-1", NULL);
    memset(text, ' ', LH_CONTROL_BODY_BYTES_MAX);
    for (int i = 0; i < 3; i++)
        lh_h2_stream_write(b.only.stream, text, LH_CONTROL_BODY_BYTES_MAX);
    lh_h2_stream_end(b.only.stream);
    loop_run_until_set(&b.loop, &b.only.is_closed);
    assert_int_equal(b.only.http_status, 413);
    assert_int_equal(b.reports, 1);
    close_bench(&b);
    free(text);
}

static void answer_of(bench *b, exchange *e) {
    assert_true(loop_run_until(&b->loop, is_answered, e, 20000));
}

/* Those that are begun and not sent: none of them holds up who has sent one. */
static void a_peer_may_begin_so_many_reports_at_once(void **state) {
    (void)state;
    enum { SHARE = 128 };
    static exchange begun[SHARE + 1];
    bench b;
    open_bench(&b, NULL, NULL);
    for (int i = 0; i <= SHARE; i++) {
        begun[i].body = b.only.body; /* answers are short, and one is looked at */
        begin_as(&b, &begun[i], "PUT", REPORTS "w-1", NULL, 2); /* what is whole goes before */
        b.only.body = begun[i].body;
    }
    answer_of(&b, &begun[SHARE]);
    assert_int_equal(begun[SHARE].http_status, 429);
    for (int i = 0; i < SHARE; i++)
        assert_int_equal(begun[i].http_status, 0);
    lh_h2_stream_cancel(begun[0].stream);
    loop_run_until_set(&b.loop, &begun[0].is_closed);
    assert_int_equal(report_as(&b, REPORTS "w-1", "w-1", good), 200);
    close_bench(&b);
}

/* Of one site. */
static void a_certificate_speaks_for_one_worker(void **state) {
    (void)state;
    static const struct {
        const char *names, *says; /* says: NULL: it is accepted */
    } rows[] = {
        {"URI:longhaul://worker/w-1?site=home", NULL},
        {"URI:longhaul://worker/w-1?site=office",
         "the certificate is that of worker w-1 of site office, the report that of worker w-1 of "
         "site home\n"},
        {"URI:longhaul://worker/home?site=home", "the certificate is that of worker home of site "
                                                 "home, the report that of worker w-1 of site "
                                                 "home\n"},
        {"URI:longhaul://gateway",
         "the certificate is that of the gateway, the report that of worker w-1 of site home\n"},
    };
    authority ca;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "Longhaul test CA", NULL, 30);
    authority_issue(&ca, "gateway", "ca", "?", "URI:longhaul://gateway", 30);
    lh_tls_options server = authority_options(&ca, "gateway", "ca");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b;
        authority_issue(&ca, "client", "ca", "w-1", rows[i].names, 30);
        lh_tls_options own = authority_options(&ca, "client", "ca"),
                       client = lh_tls_options_for(&own, "");
        open_bench(&b, &server, &client);
        assert_int_equal(report_as(&b, REPORTS "w-1", "w-1", good), rows[i].says ? 403 : 200);
        assert_int_equal(b.reports, rows[i].says ? 0 : 1);
        if (rows[i].says)
            assert_string_equal(b.only.body, rows[i].says);
        close_bench(&b);
    }
    authority_close(&ca);
}

static int report_of(bench *b, const char *instance) {
    char text[sizeof good];
    memcpy(text, good, sizeof text);
    memcpy(strstr(text, "00ff00ff00ff00ff"), instance, 16);
    return report_as(b, REPORTS "w-1", "w-1", text);
}

/* At another address; the same one would say that the first has gone. */
static void a_second_process_does_not_get_a_name(void **state) {
    (void)state;
    bench b;
    char text[sizeof good];
    memcpy(text, good, sizeof text);
    memcpy(strstr(text, "00ff00ff00ff00ff"), "0000000000000002", 16);
    memcpy(strstr(text, ":7101"), ":7102", 5);
    open_bench(&b, NULL, NULL);
    assert_int_equal(report_of(&b, "0000000000000001"), 200);
    assert_int_equal(report_as(&b, REPORTS "w-1", "w-1", text), 409);
    assert_non_null(strstr(b.only.body, "a worker named w-1 is serving from 127.0.0.1:"));
    assert_non_null(strstr(b.only.body, "(instance 0000000000000001)"));
    assert_int_equal(b.reports, 1);
    assert_int_equal(report_of(&b, "0000000000000001"), 200);
    assert_int_equal(report_of(&b, "0000000000000003"), 200);
    close_bench(&b);
}

/* Over TLS, whatever its address. */
static void a_name_is_free_when_its_connection_has_gone(void **state) {
    (void)state;
    authority ca;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "Longhaul test CA", NULL, 30);
    authority_issue(&ca, "gateway", "ca", "?", "URI:longhaul://gateway", 30);
    authority_issue(&ca, "worker", "ca", "?", "URI:longhaul://worker/w-1?site=home", 30);
    lh_tls_options server = authority_options(&ca, "gateway", "ca"),
                   own = authority_options(&ca, "worker", "ca"),
                   client_tls = lh_tls_options_for(&own, "");
    bench b;
    open_bench(&b, &server, &client_tls);
    assert_int_equal(report_of(&b, "0000000000000001"), 200);
    lh_h2_client *first = b.client;
    b.is_connected = false;
    connect_client(&b, &client_tls);
    assert_int_equal(report_of(&b, "0000000000000002"), 409);
    bool has_closed = false;
    lh_h2_client_close(first, loop_set_flag, &has_closed);
    loop_run_until_set(&b.loop, &has_closed);
    while (report_of(&b, "0000000000000002") == 409) /* until the server has read that */
        ;
    assert_int_equal(b.only.http_status, 200);
    close_bench(&b);
    authority_close(&ca);
}

/* Of any chain, of width 0. */
static void a_step_of_a_trial_is_taken(void **state) {
    (void)state;
    const lh_step_manifest manifest = {.epoch = 0}, other = {.epoch = 7};
    uint8_t body[256];
    size_t length;
    bench b;
    open_bench(&b, NULL, NULL);
    assert_int_equal(lh_step_encode_manifest(&manifest, body, sizeof body, &length, NULL), LH_OK);
    assert_int_equal(ask_with(&b, "POST", "/chains/next/trials/0", NULL, body, length), 200);
    assert_string_equal(b.only.body, "{\"worker\": \"\"}");
    assert_int_equal(lh_step_encode_manifest(&other, body, sizeof body, &length, NULL), LH_OK);
    assert_int_equal(ask_with(&b, "POST", "/chains/next/trials/0", NULL, body, length), 400);
    assert_int_equal(ask(&b, "POST", "/chains/next/trials/5"), 404);
    assert_int_equal(ask(&b, "POST", "/chains//trials/0"), 404);
    assert_int_equal(b.calls, 0);
    close_bench(&b);
}

static void paths_and_methods_that_there_are_not(void **state) {
    (void)state;
    static const struct {
        const char *method, *path;
        int http_status;
    } rows[] = {
        {"GET", REPORTS "w-1", 405},
        {"POST", REPORTS "w-1", 405},
        {"GET", "/chains/main/steps/1", 405},
        {"PUT", "/chains/main/steps/1", 405},
        {"POST", "/chains/main", 404},
        {"POST", "/chains/main/step/1", 404},
        {"POST", "/chains//steps/1", 404},
        {"POST", "/chains/x234567890123456789012345678901234567890123456789012345678901234/steps/1",
         404},
        {"POST", "/chains/main/steps/01", 400},
        {"POST", "/chains/main/steps/", 400},
        {"POST", "/chains/main/steps/-1", 400},
        {"GET", "/fleet/models/0000/weights", 404},
        {"GET", "/", 404},
        {"PUT", "/fleet/worker/w-1", 404},
        {"POST", "/", 404},
    };
    bench b;
    open_bench(&b, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (ask(&b, rows[i].method, rows[i].path) != rows[i].http_status)
            fail_msg("%s %s gave %d", rows[i].method, rows[i].path, b.only.http_status);
    assert_int_equal(b.reports + b.calls, 0);
    close_bench(&b);
}

/* ---- The ring's last hop ---- */

typedef struct step_body {
    uint8_t bytes[4096];
    size_t length;
} step_body;

static step_body encode(const lh_step_manifest *manifest, uint32_t results) {
    const lh_step_result some[2] = {{.sequence = 5}, {.sequence = 6}};
    step_body body = {.length = 0};
    size_t more = 0;
    assert_int_equal(
        lh_step_encode_manifest(manifest, body.bytes, sizeof body.bytes, &body.length, NULL),
        LH_OK);
    assert_int_equal(lh_step_encode_results(some, results, body.bytes + body.length,
                                            sizeof body.bytes - body.length, &more, NULL),
                     LH_OK);
    body.length += more;
    return body;
}

static int post(bench *b, const char *step, const step_body *body) {
    char path[64];
    snprintf(path, sizeof path, "/chains/main/steps/%s", step);
    return ask_with(b, "POST", path, NULL, body->bytes, body->length);
}

/* Before the request has ended. */
static void tokens_are_handed_on_at_once(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL, NULL);
    const step_body body = encode(&(lh_step_manifest){.epoch = 3, .step = 7}, 2);
    begin(&b, &b.only, "POST", "/chains/main/steps/7", NULL);
    lh_h2_stream_write(b.only.stream, body.bytes, body.length);
    run_until(&b, &b.calls);
    assert_int_equal(b.calls, 1);
    assert_int_equal(b.results, 2);
    assert_string_equal(b.chain, "main");
    assert_int_equal(b.peer.kind, LH_TLS_NONE);
    assert_int_equal(b.epoch, 3);
    assert_int_equal(b.step, 7);
    assert_int_equal(b.sequence, 5);
    assert_int_equal(b.only.http_status, 0);
    lh_h2_stream_end(b.only.stream);
    loop_run_until_set(&b.loop, &b.only.is_closed);
    assert_int_equal(b.only.http_status, 200);
    assert_string_equal(b.only.body, "{}");
    assert_int_equal(b.calls, 1);
    close_bench(&b);
}

static void steps_that_are_not_the_gateways_are_refused(void **state) {
    (void)state;
    const lh_step_segment segment = {.sequence = 1, .rows = 1};
    const lh_step_truncation truncation = {.sequence = 1};
    const uint32_t token = 1;
    const step_body good_step = encode(&(lh_step_manifest){.epoch = 3, .step = 7}, 1);
    const step_body with_rows = encode(&(lh_step_manifest){.epoch = 3,
                                                           .step = 7,
                                                           .rows = 1,
                                                           .tokens = &token,
                                                           .segment_count = 1,
                                                           .segments = &segment},
                                       1);
    const step_body with_truncation = encode(
        &(lh_step_manifest){
            .epoch = 3, .step = 7, .truncation_count = 1, .truncations = &truncation},
        1);
    step_body cut = good_step, torn = good_step;
    bench b;
    open_bench(&b, NULL, NULL);
    assert_int_equal(post(&b, "8", &good_step), 400);
    assert_non_null(strstr(b.only.body, "step 7 came under the path of step 8"));
    assert_int_equal(b.step, 8);
    assert_int_equal(b.epoch, 0);
    assert_int_equal(post(&b, "7", &with_rows), 400);
    assert_non_null(strstr(b.only.body, "a manifest with rows came to the gateway"));
    assert_int_equal(post(&b, "7", &with_truncation), 400);
    assert_int_equal(b.unreadable, 3);
    torn.bytes[torn.length - 1] ^= 1;
    assert_int_equal(post(&b, "7", &torn), 400);
    assert_int_equal(b.calls, 0);
    assert_int_equal(b.unreadable, 4);
    assert_string_equal(b.chain, "main");
    assert_int_equal(b.step, 7);
    assert_int_equal(b.epoch, 3);
    cut.length--;
    assert_int_not_equal(post(&b, "7", &cut), 200);
    assert_int_equal(b.calls, 0);
    assert_int_equal(b.unreadable, 5);
    close_bench(&b);
}

/* Whoever sends it need not send the rest. */
static void what_is_wrong_is_told_before_the_step_has_ended(void **state) {
    (void)state;
    const step_body body = encode(&(lh_step_manifest){.epoch = 3, .step = 7}, 1);
    bench b;
    open_bench(&b, NULL, NULL);
    begin(&b, &b.only, "POST", "/chains/main/steps/8", NULL);
    lh_h2_stream_write(b.only.stream, body.bytes, body.length);
    assert_true(loop_run_until(&b.loop, is_answered, &b.only, 20000));
    assert_int_equal(b.only.http_status, 400);
    lh_h2_stream_end(b.only.stream);
    loop_run_until_set(&b.loop, &b.only.is_closed);
    assert_int_equal(b.calls, 0);
    close_bench(&b);
}

static void the_owners_refusal_of_results_is_the_answer(void **state) {
    (void)state;
    step_body body = encode(&(lh_step_manifest){.epoch = 3, .step = 7}, 1);
    bench b;
    open_bench(&b, NULL, NULL);
    b.verdict = LH_ERR_STALE;
    assert_int_equal(post(&b, "7", &body), 409);
    assert_non_null(strstr(b.only.body, "an old epoch"));
    assert_int_equal(b.calls, 1);
    b.verdict = LH_ERR_BUSY;
    assert_int_equal(post(&b, "7", &body), 429);
    assert_int_equal(b.unreadable, 0);
    body.bytes[body.length++] = 1; /* behind results that are taken */
    b.verdict = LH_OK;
    assert_int_equal(post(&b, "7", &body), 400);
    assert_int_equal(b.calls, 3);
    assert_int_equal(b.unreadable, 1);
    close_bench(&b);
}

/* What opens the last worker's connection before tokens need it. */
static void probes_are_counted(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL, NULL);
    assert_int_equal(ask_with(&b, "POST", "/probe", NULL, good, 100), 200);
    assert_string_equal(b.only.body, "{\"bytes\": 100}");
    assert_int_equal(ask(&b, "GET", "/probe"), 404);
    close_bench(&b);
}

/* ---- The model ---- */

static void wake(void *async) {
    uv_async_send(async);
}

static void on_woken(uv_async_t *async) {
    *(bool *)async->data = true;
    uv_close((uv_handle_t *)async, NULL);
}

static void digests_are_given_when_they_are_there(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL, NULL);
    bool is_done = false;
    uv_async_t async = {.data = &is_done};
    const char *path = lh_fleet_server_model(b.server)->tensors_path;
    assert_int_equal(ask(&b, "GET", path), 503);
    assert_int_equal(uv_async_init(&b.loop, &async, on_woken), 0);
    assert_int_equal(lh_model_file_start_digests(b.file, 1, "", wake, &async, NULL), LH_OK);
    loop_run_until_set(&b.loop, &is_done);
    assert_int_equal(ask(&b, "GET", path), 200);
    json_t *answer = json_loads(b.only.body, 0, NULL),
           *tensors = json_object_get(answer, "tensors");
    const lh_gguf *gguf = lh_model_file_gguf(b.file);
    assert_int_equal(json_object_size(tensors), lh_gguf_tensor_count(gguf));
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        char name[128], hex[LH_SHA256_HEX_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
        lh_sha256_render(lh_model_file_tensor_digest(b.file, i), hex);
        assert_string_equal(json_string_value(json_object_get(tensors, name)), hex);
    }
    json_decref(answer);
    close_bench(&b);
}

static void assert_bytes(const bench *b, const exchange *e, uint64_t offset, uint64_t length) {
    assert_int_equal(e->status, LH_OK);
    assert_true(e->has_ended);
    assert_int_equal(e->length, length);
    uint8_t *bytes = malloc(length);
    assert_non_null(bytes);
    assert_int_equal(lh_model_file_read(b->file, offset, bytes, length, NULL), LH_OK);
    assert_memory_equal(e->body, bytes, length);
    free(bytes);
}

static void weights_come_whole_or_by_a_range(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL, NULL);
    const char *path = lh_fleet_server_model(b.server)->weights_path;
    uint64_t size = lh_model_file_size(b.file);
    assert_int_equal(ask(&b, "GET", path), 200);
    assert_bytes(&b, &b.only, 0, size);
    assert_int_equal(ask_with(&b, "GET", path, "bytes=100-5000099", "", 0), 206);
    assert_bytes(&b, &b.only, 100, 5000000);
    assert_int_equal(ask_with(&b, "GET", path, "bytes=-1", "", 0), 206);
    assert_bytes(&b, &b.only, size - 1, 1);
    assert_int_equal(ask_with(&b, "GET", path, "bytes=0-1,4-5", "", 0), 200); /* is not known */
    assert_bytes(&b, &b.only, 0, size);
    assert_int_equal(ask_with(&b, "GET", path, "bytes=99999999-", "", 0), 416);
    assert_int_equal(ask_with(&b, "GET", path, "bytes=7", "", 0), 400);
    close_bench(&b);
}

/* Three at a time, of which the one in the middle gives up. */
static void transfers_do_not_hinder_each_other(void **state) {
    (void)state;
    bench b;
    exchange all[3] = {0};
    open_bench(&b, NULL, NULL);
    const char *path = lh_fleet_server_model(b.server)->weights_path;
    for (int i = 0; i < 3; i++) {
        begin(&b, &all[i], "GET", path, NULL);
        lh_h2_stream_end(all[i].stream);
    }
    run_until(&b, &all[1].pieces);
    lh_h2_stream_cancel(all[1].stream);
    for (int i = 0; i < 3; i++)
        loop_run_until_set(&b.loop, &all[i].is_closed);
    assert_bytes(&b, &all[0], 0, lh_model_file_size(b.file));
    assert_bytes(&b, &all[2], 0, lh_model_file_size(b.file));
    assert_int_not_equal(all[1].status, LH_OK);
    for (int i = 0; i < 3; i++)
        free(all[i].body);
    close_bench(&b);
}

/* Its streams end, and nothing of them is left. */
static void it_may_close_in_the_middle_of_a_transfer(void **state) {
    (void)state;
    bench b;
    open_bench(&b, NULL, NULL);
    begin(&b, &b.only, "GET", lh_fleet_server_model(b.server)->weights_path, NULL);
    run_until(&b, &b.only.pieces);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_answered_with_what_the_owner_says),
        cmocka_unit_test(the_owners_refusal_is_told),
        cmocka_unit_test(a_report_that_is_not_sound_is_refused),
        cmocka_unit_test(a_report_has_a_bound),
        cmocka_unit_test(a_peer_may_begin_so_many_reports_at_once),
        cmocka_unit_test(a_certificate_speaks_for_one_worker),
        cmocka_unit_test(a_second_process_does_not_get_a_name),
        cmocka_unit_test(a_name_is_free_when_its_connection_has_gone),
        cmocka_unit_test(a_step_of_a_trial_is_taken),
        cmocka_unit_test(paths_and_methods_that_there_are_not),
        cmocka_unit_test(tokens_are_handed_on_at_once),
        cmocka_unit_test(steps_that_are_not_the_gateways_are_refused),
        cmocka_unit_test(what_is_wrong_is_told_before_the_step_has_ended),
        cmocka_unit_test(the_owners_refusal_of_results_is_the_answer),
        cmocka_unit_test(probes_are_counted),
        cmocka_unit_test(digests_are_given_when_they_are_there),
        cmocka_unit_test(weights_come_whole_or_by_a_range),
        cmocka_unit_test(transfers_do_not_hinder_each_other),
        cmocka_unit_test(it_may_close_in_the_middle_of_a_transfer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
