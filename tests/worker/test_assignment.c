/* A worker and a scripted gateway: from a report to a stage that serves, and through every change of mind; with the gateway
 * away, wrong and back again. */
#include "common/digest.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/range_server.h"
#include "worker/api/worker_client.h"
#include "worker/assignment.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct wanted {
    uint32_t generation, first_layer, last_layer, context;
    const char *wire;
} wanted;

/* The gateway, the worker, and the files between them. */
typedef struct bench {
    uv_loop_t loop;
    lh_h2_server *gateway;
    int port;
    char answer[2048]; /* to every PUT */
    int answer_status;
    char report[4096]; /* of the last PUT */
    int puts;
    uint32_t results;
    range_server *files;
    uint8_t *model;
    char header_sha256[LH_SHA256_HEX_BYTES], *tensors;
    size_t model_bytes, header_bytes;
    char folder[64], url[64];
    lh_weight_cache *cache;
    lh_thread_pool *pool;
    lh_server *server;
    lh_assignment_keeper *keeper;
    bool server_closed, keeper_closed, gateway_closed, told;
} bench;

/* ---- The loop ---------------------------------------------------------------------------------------------- */

static void tick(uv_timer_t *timer) {
    --*(int *)timer->data;
}

/* Runs the loop until the condition holds; false: it did not within ten seconds. */
static bool run_until(bench *b, bool (*holds)(bench *, const char *), const char *text) {
    int ticks = 2000;
    uv_timer_t *timer = malloc(sizeof(*timer));
    assert_non_null(timer);
    uv_timer_init(&b->loop, timer);
    timer->data = &ticks;
    uv_timer_start(timer, tick, 5, 5);
    while (ticks > 0 && !holds(b, text)) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    bool held = holds(b, text);
    uv_close((uv_handle_t *)timer, (uv_close_cb)(void (*)(void))free);
    return held;
}

static bool report_has(bench *b, const char *text) {
    return strstr(b->report, text) != NULL;
}

static void expect_report(bench *b, const char *text) {
    if (!run_until(b, report_has, text)) {
        fail_msg("no '%s' in %s", text, b->report);
    }
}

static bool flag_is_set(bench *b, const char *flag) {
    (void)b;
    return *(const bool *)flag;
}

static void expect_flag(bench *b, const bool *flag) {
    assert_true(run_until(b, flag_is_set, (const char *)flag));
}

static void set_flag(void *context) {
    *(bool *)context = true;
}

/* ---- The gateway ------------------------------------------------------------------------------------------- */

typedef struct request {
    bench *bench;
    bool is_put;
    char body[4096];
    size_t length;
} request;

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    request *q = context;
    assert_true(q->length + length < sizeof(q->body));
    memcpy(q->body + q->length, bytes, length);
    q->length += length;
    lh_h2_stream_consume(stream, length);
}

static void on_end(lh_h2_stream *stream, void *context) {
    request *q = context;
    bench *b = q->bench;
    if (q->is_put) {
        memcpy(b->report, q->body, sizeof(b->report));
        b->puts++;
        lh_h2_stream_respond(stream, b->answer_status, b->answer);
    } else {
        b->results++;
        lh_h2_stream_respond(stream, 200, "{}");
    }
}

static void on_request_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    free(context);
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *headers,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events request_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_request_closed};
    (void)stream;
    request *q = calloc(1, sizeof(*q));
    assert_non_null(q);
    q->bench = context;
    q->is_put = strcmp(headers->method, "PUT") == 0;
    if (q->is_put) {
        assert_string_equal(headers->path, "/fleet/workers/w");
    } else {
        assert_int_equal(strncmp(headers->path, "/chains/c/steps/", 16), 0);
    }
    *events = &request_events;
    *stream_context = q;
}

static void open_gateway(bench *b) {
    lh_h2_limits limits = lh_h2_default_limits();
    char listen[32];
    snprintf(listen, sizeof(listen), "127.0.0.1:%d", b->port);
    lh_error error;
    if (lh_h2_server_create(&b->loop, listen, NULL, &limits, on_request, b, &b->gateway, &error) != LH_OK) {
        fail_msg("%s", error.message);
    }
    b->port = lh_h2_server_port(b->gateway);
}

static void close_gateway(bench *b) {
    b->gateway_closed = false;
    lh_h2_server_close(b->gateway, set_flag, &b->gateway_closed);
    expect_flag(b, &b->gateway_closed);
}

static void want_nothing(bench *b) {
    strcpy(b->answer, "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":true,\"assignment\":null}");
}

static void want_what_is_there(bench *b) {
    strcpy(b->answer, "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":false,\"assignment\":null}");
}

static void want(bench *b, const wanted *w) {
    snprintf(
        b->answer, sizeof(b->answer),
        "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":true,\"assignment\":{\"generation\":%u,\"chain\":"
        "\"c\",\"epoch\":%u,"
        "\"model\":{\"name\":\"tiny\",\"file_bytes\":%zu,\"header_bytes\":%zu,\"header_sha256\":\"%s\","
        "\"weights_url\":\"%s/weights\",\"tensors_url\":\"%s/tensors\"},\"first_layer\":%u,\"last_layer\":%u,"
        "\"layers\":4,\"context\":%u,\"rows_max\":64,\"steps_max\":4,\"wire\":\"%s\","
        "\"next\":{\"gateway\":true}}}",
        w->generation, w->generation, b->model_bytes, b->header_bytes, b->header_sha256,
        range_server_url(b->files), range_server_url(b->files), w->first_layer, w->last_layer, w->context,
        w->wire);
}

/* ---- The bench --------------------------------------------------------------------------------------------- */

static void make_model(bench *b) {
    tiny_llama model = tiny_llama_default();
    model.layers = 4;
    b->model = tiny_llama_bytes(&model, &b->model_bytes);
    lh_gguf *gguf;
    uint8_t digest[LH_SHA256_BYTES];
    assert_int_equal(lh_gguf_parse(b->model, b->model_bytes, b->model_bytes, &gguf, NULL), LH_OK);
    b->header_bytes = (size_t)lh_gguf_data_offset(gguf);
    assert_int_equal(lh_sha256_digest(b->model, b->header_bytes, digest), LH_OK);
    lh_sha256_render(digest, b->header_sha256);
    json_t *tensors = json_object();
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        char hex[LH_SHA256_HEX_BYTES], name[64];
        assert_int_equal(lh_sha256_digest(b->model + tensor->offset, tensor->bytes, digest), LH_OK);
        lh_sha256_render(digest, hex);
        snprintf(name, sizeof(name), "%.*s", (int)tensor->name.length, tensor->name.bytes);
        json_object_set_new(tensors, name, json_string(hex));
    }
    json_t *root = json_pack("{s:o}", "tensors", tensors);
    b->tensors = json_dumps(root, 0);
    json_decref(root);
    lh_gguf_destroy(gguf);
    b->files = range_server_create();
    range_server_add(b->files, "/weights", b->model, b->model_bytes);
    range_server_add(b->files, "/tensors", b->tensors, strlen(b->tensors));
}

static void start_worker(bench *b) {
    lh_server_options server = {.loop = &b->loop,
                                .name = "w",
                                .listen = "127.0.0.1:0",
                                .limits = lh_h2_default_limits(),
                                .inbox_bytes = 1u << 20,
                                .outbox_bytes = 1u << 20};
    lh_error error;
    assert_int_equal(lh_server_create(&server, &b->server, &error), LH_OK);
    snprintf(b->url, sizeof(b->url), "http://127.0.0.1:%d", b->port);
    lh_assignment_options options = {.loop = &b->loop,
                                     .server = b->server,
                                     .name = "w",
                                     .site = "s",
                                     .address_plain = "127.0.0.1:1",
                                     .gateway_url = b->url,
                                     .memory_bytes = 1u << 30,
                                     .job = {.cache = b->cache, .pool = b->pool, .kv_bytes = 4u << 20}};
    assert_int_equal(lh_kernels_select(NULL, &options.job.kernels, &error), LH_OK);
    assert_int_equal(lh_assignment_create(&options, &b->keeper, &error), LH_OK);
}

static void stop_worker(bench *b) {
    b->keeper_closed = b->server_closed = false;
    lh_assignment_close(b->keeper, set_flag, &b->keeper_closed);
    expect_flag(b, &b->keeper_closed);
    lh_server_close(b->server, set_flag, &b->server_closed);
    expect_flag(b, &b->server_closed);
}

static void open_bench(bench *b) {
    memset(b, 0, sizeof(*b));
    uv_loop_init(&b->loop);
    make_model(b);
    strcpy(b->folder, "/tmp/longhaul-test-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    assert_int_equal(lh_weight_cache_open(b->folder, &b->cache, NULL), LH_OK);
    assert_int_equal(lh_thread_pool_create(2, &b->pool, NULL), LH_OK);
    b->answer_status = 200;
    want_nothing(b);
    open_gateway(b);
    start_worker(b);
}

static void close_bench(bench *b) {
    stop_worker(b);
    close_gateway(b);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    lh_thread_pool_destroy(b->pool);
    lh_weight_cache_close(b->cache);
    range_server_destroy(b->files);
    free(b->model);
    free(b->tensors);
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", b->folder);
    assert_int_equal(system(command), 0);
}

/* ---- A step as the hop before submits it ------------------------------------------------------------------- */

typedef struct step {
    bool connected, done, closed;
    lh_status status;
} step;

static void on_state(void *context, bool connected, const char *reason) {
    (void)reason;
    ((step *)context)->connected = connected;
}

static void on_done(void *context, void *step_context, lh_status status, const char *worker,
                    const char *message) {
    (void)context;
    (void)worker;
    (void)message;
    step *s = step_context;
    s->done = true;
    s->status = status;
}

static lh_status run_step(bench *b, uint32_t epoch) {
    static const lh_worker_client_events events = {.on_state = on_state, .on_done = on_done};
    static const uint32_t tokens[3] = {1, 2, 3};
    step s = {0};
    char address[32];
    lh_h2_limits limits = lh_h2_default_limits();
    lh_worker_client *client;
    lh_step_submission *submission;
    lh_step_segment segment = {
        .sequence = 1, .rows = 3, .sample = true, .sampling = {.top_p = 1, .repetition_penalty = 1}};
    lh_step_manifest manifest = {.epoch = epoch,
                                 .step = 1,
                                 .step_class = LH_STEP_PREFILL,
                                 .rows = 3,
                                 .tokens = tokens,
                                 .segment_count = 1,
                                 .segments = &segment};
    snprintf(address, sizeof(address), "127.0.0.1:%d", lh_server_port(b->server, false));
    assert_int_equal(
        lh_worker_client_create(&b->loop, address, "c", NULL, &limits, &events, &s, &client, NULL), LH_OK);
    expect_flag(b, &s.connected);
    assert_int_equal(lh_worker_client_submit(client, &manifest, &s, &submission, NULL), LH_OK);
    lh_step_submission_end(submission);
    expect_flag(b, &s.done);
    lh_worker_client_close(client, set_flag, &s.closed);
    expect_flag(b, &s.closed);
    return s.status;
}

/* ---- Tests ------------------------------------------------------------------------------------------------- */

static const wanted whole = {.generation = 10, .last_layer = 4, .context = 256, .wire = "f32"};

static void test_from_a_report_to_tokens(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    expect_report(&b, "\"assignment\":null");
    assert_true(report_has(&b, "\"site\":\"s\"") && report_has(&b, "\"plain\":\"127.0.0.1:1\""));
    assert_int_equal(run_step(&b, 10), LH_ERR_NOT_FOUND);
    want(&b, &whole);
    expect_report(&b, "\"assignment\":{\"generation\":10,\"state\":\"ready\"");
    expect_report(&b, "\"next\":{\"connected\":true");
    expect_report(&b, "\"kv\":{\"pages_total\":");
    assert_int_equal(run_step(&b, 10), LH_OK);
    assert_int_equal(b.results, 1);
    assert_int_equal(run_step(&b, 9), LH_ERR_STALE);
    expect_report(&b, "\"steps\":{\"active\":0,\"done\":1,\"failed\":2}");
    close_bench(&b);
}

static void test_a_new_epoch_keeps_the_weights(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    want(&b, &whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    assert_int_equal(run_step(&b, 10), LH_OK);
    unsigned requests = range_server_requests(b.files);
    wanted next = whole;
    next.generation = 11;
    next.wire = "f16";
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    assert_int_equal(run_step(&b, 11), LH_OK); /* the cache is empty: the sequence begins at 0 again */
    assert_int_equal(range_server_requests(b.files), requests);
    close_bench(&b);
}

static void test_without_a_plan_everything_stays(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    want(&b, &whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    want_what_is_there(&b);
    int puts = b.puts;
    while (b.puts < puts + 3) {
        uv_run(&b.loop, UV_RUN_ONCE);
    }
    assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    assert_int_equal(run_step(&b, 10), LH_OK);
    close_bench(&b);
}

/* What an answer changes is reported at once, and so is what else happens meanwhile: one PUT at a time. */
static void test_haste_upon_haste(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    want(&b, &whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    wanted next = whole;
    for (next.generation = 11; next.generation < 20; next.generation++) {
        want(&b, &next);
        int puts = b.puts;
        while (b.puts < puts + 3) {
            lh_assignment_leave(b.keeper, set_flag, &b.told);
            uv_run(&b.loop, UV_RUN_ONCE);
        }
    }
    expect_report(&b, "\"generation\":19,\"state\":\"ready\"");
    expect_flag(&b, &b.told);
    close_bench(&b);
}

static void test_other_layers_are_built_anew(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    want(&b, &whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    wanted next = whole;
    next.generation = 11;
    next.first_layer = 1;
    next.last_layer = 3;
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    want_nothing(&b);
    expect_report(&b, "\"assignment\":null");
    assert_true(report_has(&b, "\"kv\":null"));
    want(&b, &whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    assert_int_equal(run_step(&b, 10), LH_OK);
    close_bench(&b);
}

static void test_a_change_of_mind_while_fetching(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    range_server_fail(b.files, RANGE_SILENT, 1);
    want(&b, &whole);
    expect_report(&b, "\"state\":\"fetching\"");
    want_nothing(&b);
    expect_report(&b, "\"assignment\":null");
    want(&b, &whole);
    expect_report(&b, "\"state\":\"ready\"");
    close_bench(&b);
}

static void test_a_failure_is_told_and_tried_again(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    range_server_fail_whole(b.files, RANGE_404, 1);
    want(&b, &whole);
    expect_report(&b, "\"state\":\"failed\"");
    assert_false(report_has(&b, "\"error\":\"\""));
    expect_report(&b, "\"state\":\"ready\"");
    assert_true(report_has(&b, "\"error\":\"\""));
    wanted bad = whole;
    bad.generation = 12;
    bad.context = 100000; /* more than the model has */
    want(&b, &bad);
    expect_report(&b, "\"generation\":12,\"state\":\"failed\"");
    want(&b, &whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    close_bench(&b);
}

static void test_bad_answers_change_nothing(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    want(&b, &whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    const char *bad[] = {
        "",
        "nonsense",
        "{}",
        "[1]",
        "{\"renew_ms\":-5}",
        "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":true,\"assignment\":{\"generation\":11}}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        strcpy(b.answer, bad[i]);
        int puts = b.puts;
        while (b.puts < puts + 2) {
            uv_run(&b.loop, UV_RUN_ONCE);
        }
        assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    }
    b.answer_status = 500;
    int puts = b.puts;
    while (b.puts < puts + 2) {
        uv_run(&b.loop, UV_RUN_ONCE);
    }
    assert_int_equal(run_step(&b, 10), LH_OK);
    close_bench(&b);
}

static void test_the_gateway_restarts(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    want(&b, &whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    unsigned requests = range_server_requests(b.files);
    close_gateway(&b);
    b.report[0] = '\0';
    for (int i = 0; i < 20; i++) {
        uv_run(&b.loop, UV_RUN_NOWAIT);
        usleep(5000);
    }
    open_gateway(&b);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    expect_report(&b, "\"next\":{\"connected\":true");
    assert_int_equal(run_step(&b, 10), LH_OK);
    assert_int_equal(range_server_requests(b.files), requests);
    close_bench(&b);
}

static void test_the_worker_restarts_with_its_cache(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    want(&b, &whole);
    expect_report(&b, "\"state\":\"ready\"");
    char instance[64];
    snprintf(instance, sizeof(instance), "%.30s", strstr(b.report, "\"instance\""));
    stop_worker(&b);
    range_server_fail(b.files, RANGE_404, 1000); /* no weights any more: they are in the cache */
    b.report[0] = '\0';
    start_worker(&b);
    expect_report(&b, "\"state\":\"ready\"");
    assert_false(report_has(&b, instance));
    close_bench(&b);
}

static void test_leaving_is_told(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    expect_report(&b, "\"leaving\":false");
    lh_assignment_leave(b.keeper, set_flag, &b.told);
    expect_flag(&b, &b.told);
    assert_true(report_has(&b, "\"leaving\":true"));
    b.told = false;
    close_gateway(&b);
    lh_assignment_leave(b.keeper, set_flag, &b.told); /* nobody to tell: it does not wait for ever */
    expect_flag(&b, &b.told);
    open_gateway(&b);
    close_bench(&b);
}

static void close_server(void *context) {
    bench *b = context;
    b->server_closed = false;
    lh_server_close(b->server, set_flag, &b->server_closed);
}

static void close_keeper_then_server(void *context) {
    bench *b = context;
    lh_assignment_close(b->keeper, close_server, b);
}

static void test_closing_as_soon_as_leaving_is_told(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    want(&b, &whole);
    expect_report(&b, "\"state\":\"ready\"");
    want_nothing(&b);
    b.server_closed = false;
    /* While the stage is being taken away: the server is closed from within its own callback. */
    lh_assignment_leave(b.keeper, close_keeper_then_server, &b);
    expect_flag(&b, &b.server_closed);
    start_worker(&b);
    close_bench(&b);
}

static void test_closing_while_fetching(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    range_server_fail(b.files, RANGE_SILENT, 1);
    want(&b, &whole);
    expect_report(&b, "\"state\":\"fetching\"");
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_a_report_to_tokens),
        cmocka_unit_test(test_a_new_epoch_keeps_the_weights),
        cmocka_unit_test(test_without_a_plan_everything_stays),
        cmocka_unit_test(test_haste_upon_haste),
        cmocka_unit_test(test_other_layers_are_built_anew),
        cmocka_unit_test(test_a_change_of_mind_while_fetching),
        cmocka_unit_test(test_a_failure_is_told_and_tried_again),
        cmocka_unit_test(test_bad_answers_change_nothing),
        cmocka_unit_test(test_the_gateway_restarts),
        cmocka_unit_test(test_the_worker_restarts_with_its_cache),
        cmocka_unit_test(test_leaving_is_told),
        cmocka_unit_test(test_closing_as_soon_as_leaving_is_told),
        cmocka_unit_test(test_closing_while_fetching),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
