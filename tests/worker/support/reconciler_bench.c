#include "tests/worker/support/reconciler_bench.h"

#include "common/protocol/client/worker_client.h"
#include "tests/support/loop.h"
#include "tests/support/tiny_llama.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const wanted wanted_whole = {.generation = 10, .last_layer = 4, .context = 256, .wire = "f32"};

/* ---- What is waited for ---- */

#define PATIENCE_MS 20000

bool report_has(reconciler_bench *b, const char *text) {
    return strstr(b->gateway.report, text);
}

uint64_t report_number(reconciler_bench *b, const char *name) {
    char field[64];
    snprintf(field, sizeof field, "\"%s\":", name);
    const char *at = strstr(b->gateway.report, field);
    if (!at)
        fail_msg("no '%s' in %s", name, b->gateway.report);
    return strtoull(at + strlen(field), NULL, 10);
}

typedef struct awaited {
    reconciler_bench *bench;
    const char *text;
} awaited;

static bool text_has_come(void *context) {
    const awaited *a = context;
    return report_has(a->bench, a->text);
}

void expect_report(reconciler_bench *b, const char *text) {
    awaited a = {.bench = b, .text = text};
    if (!loop_run_until(&b->loop, text_has_come, &a, PATIENCE_MS))
        fail_msg("no '%s' in %s", text, b->gateway.report);
}

void await_reports(reconciler_bench *b, int count) {
    control_gateway_await(&b->gateway, count);
}

void expect_flag(reconciler_bench *b, const bool *flag) {
    loop_run_until_set(&b->loop, flag);
}

/* ---- The gateway ---- */

void open_gateway(reconciler_bench *b) {
    control_gateway_open(&b->gateway, &b->loop, NULL);
}

void close_gateway(reconciler_bench *b) {
    control_gateway_close(&b->gateway);
}

void want_nothing(reconciler_bench *b) {
    strcpy(b->gateway.answer,
           "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":true,\"assignment\":null}");
}

void want_what_is_there(reconciler_bench *b) {
    strcpy(b->gateway.answer,
           "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":false,\"assignment\":null}");
}

void renew_after_an_hour(reconciler_bench *b) {
    static const char soon[] = "{\"renew_ms\":20,";
    char rest[sizeof b->gateway.answer];
    assert_memory_equal(b->gateway.answer, soon, sizeof soon - 1);
    strcpy(rest, b->gateway.answer + sizeof soon - 1);
    snprintf(b->gateway.answer, sizeof b->gateway.answer, "{\"renew_ms\":3600000,%.4000s", rest);
}

static void render_stage(const reconciler_bench *b, const wanted *w, char text[1024]) {
    snprintf(text, 1024,
             "\"model\":{\"name\":\"tiny\",\"file_bytes\":%zu,\"header_bytes\":%zu,\"header_"
             "sha256\":\"%s\",\"weights_url\":\"%s/weights\",\"tensors_url\":\"%s/"
             "tensors\"},\"first_layer\":%u,\"last_layer\":%u,\"layers\":4,\"context\":%u,\"rows_"
             "max\":64,\"steps_max\":4,\"activations\":\"q8\",\"wire\":\"%s\"",
             b->model_bytes, b->header_bytes, b->header_sha256, range_server_url(b->files),
             range_server_url(b->files), w->first_layer, w->last_layer, w->context, w->wire);
    if (!w->first_member)
        return;
    size_t length = strlen(text);
    snprintf(text + length, 1024 - length,
             ",\"team\":{\"own\":1,\"epoch\":7,\"secret\":\"%064d\",\"members\":[{\"name\":\"v\","
             "\"address\":\"%s\",\"weight\":1},{\"name\":\"w\",\"address\":\"h:1\",\"weight\":1}]}",
             0, w->first_member);
}

void want(reconciler_bench *b, const wanted *w) {
    char stage[1024];
    render_stage(b, w, stage);
    snprintf(b->gateway.answer, sizeof(b->gateway.answer),
             "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":true,\"assignment\":{\"generation\":%"
             "u,\"chain\":\"c\",\"epoch\":%u,%s,\"next\":{\"gateway\":true}}}",
             w->generation, w->generation, stage);
}

static void add(reconciler_bench *b, const char *field) {
    size_t length = strlen(b->gateway.answer);
    snprintf(b->gateway.answer + length - 1, sizeof(b->gateway.answer) - length + 1, ",%s}", field);
}

void want_prepared(reconciler_bench *b, const wanted *next, bool holds) {
    char stage[1024], field[1100];
    render_stage(b, next, stage);
    snprintf(field, sizeof(field), "\"prepare\":{%s,\"chain\":\"c\",\"hold\":%s}", stage,
             holds ? "true" : "false");
    add(b, field);
}

void want_tried(reconciler_bench *b, const char *address) {
    char next[400] = "{\"gateway\":true}", field[500];
    if (address)
        snprintf(next, sizeof next,
                 "{\"gateway\":false,\"name\":\"attic\",\"address\":\"%s\",\"tls\":false}",
                 address);
    snprintf(field, sizeof field,
             "\"try\":{\"chain\":\"c\",\"width\":32,\"wire\":\"f32\",\"next\":%s}", next);
    add(b, field);
}

void want_surveyed(reconciler_bench *b, int port) {
    char field[300];
    snprintf(field, sizeof field,
             "\"survey\":{\"bytes_max\":100000,\"next\":{\"gateway\":false,\"name\":\"w\","
             "\"address\":\"127.0.0.1:%d\",\"tls\":false}}",
             port);
    add(b, field);
}

void say_of_leaving(reconciler_bench *b, const char *text) {
    char field[400];
    snprintf(field, sizeof(field), "\"leave\":%s", text);
    add(b, field);
}

/* ---- The bench ---- */

static void make_model(reconciler_bench *b, const char *architecture) {
    tiny_llama model = tiny_llama_of(architecture);
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

void start_worker(reconciler_bench *b) {
    lh_server_options server = {.loop = &b->loop,
                                .name = "w",
                                .listen = "127.0.0.1:0",
                                .limits = lh_h2_default_limits(),
                                .inbox_bytes = 1u << 20,
                                .outbox_bytes = 1u << 20};
    lh_error error;
    assert_int_equal(lh_server_create(&server, &b->server, &error), LH_OK);
    lh_reconciler_options options = {.loop = &b->loop,
                                     .server = b->server,
                                     .name = "w",
                                     .site = "s",
                                     .address_plain = "127.0.0.1:1",
                                     .address_tls = "",
                                     .address_members = "h:1",
                                     .memory_bytes = 1u << 30,
                                     .job = {.gateway_url = b->gateway.url,
                                             .cache = b->cache,
                                             .pool = b->pool,
                                             .kv_bytes = 4u << 20,
                                             .member_listener = -1}};
    assert_int_equal(lh_kernels_select(NULL, &options.job.kernels, &error), LH_OK);
    assert_int_equal(lh_reconciler_create(&options, &b->reconciler, &error), LH_OK);
}

void stop_worker(reconciler_bench *b) {
    b->reconciler_closed = b->server_closed = false;
    lh_reconciler_close(b->reconciler, loop_set_flag, &b->reconciler_closed);
    expect_flag(b, &b->reconciler_closed);
    lh_server_close(b->server, loop_set_flag, &b->server_closed);
    expect_flag(b, &b->server_closed);
}

void reconciler_bench_open(reconciler_bench *b) {
    reconciler_bench_open_with(b, "llama");
}

void reconciler_bench_open_with(reconciler_bench *b, const char *architecture) {
    memset(b, 0, sizeof *b);
    uv_loop_init(&b->loop);
    make_model(b, architecture);
    strcpy(b->folder, "/tmp/longhaul-test-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    assert_int_equal(lh_weight_cache_open(b->folder, &b->cache, NULL), LH_OK);
    assert_int_equal(lh_thread_pool_create(2, &b->pool, NULL), LH_OK);
    want_nothing(b);
    open_gateway(b);
    start_worker(b);
}

void reconciler_bench_open_serving(reconciler_bench *b) {
    reconciler_bench_open(b);
    want(b, &wanted_whole);
    expect_report(b, "\"generation\":10,\"state\":\"ready\"");
}

void reconciler_bench_close(reconciler_bench *b) {
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

/* ---- A step as the hop before submits it ---- */

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

lh_status run_step(reconciler_bench *b, uint32_t epoch) {
    static const lh_worker_client_events events = {.on_state = on_state, .on_done = on_done};
    static const uint32_t tokens[3] = {1, 2, 3};
    step s = {0};
    char address[32];
    lh_h2_limits limits = lh_h2_default_limits();
    lh_worker_client *client;
    lh_step_submission *submission;
    lh_step_segment segment = {.sequence = 1,
                               .rows = 3,
                               .ask.draws = true,
                               .ask.sampling = {.top_p = 1, .repetition_penalty = 1}};
    lh_step_manifest manifest = {.epoch = epoch,
                                 .step = 1,
                                 .step_class = LH_STEP_PREFILL,
                                 .rows = 3,
                                 .tokens = tokens,
                                 .segment_count = 1,
                                 .segments = &segment};
    snprintf(address, sizeof(address), "127.0.0.1:%d", lh_server_port(b->server, false));
    assert_int_equal(
        lh_worker_client_create(&b->loop, address, "c", NULL, &limits, &events, &s, &client, NULL),
        LH_OK);
    expect_flag(b, &s.connected);
    assert_int_equal(lh_worker_client_submit(client, &manifest, &s, &submission, NULL), LH_OK);
    lh_step_submission_end(submission);
    expect_flag(b, &s.done);
    lh_worker_client_close(client, loop_set_flag, &s.closed);
    expect_flag(b, &s.closed);
    return s.status;
}
