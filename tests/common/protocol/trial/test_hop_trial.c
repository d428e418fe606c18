/* The sending side: what is said of a hop for each way in which it can be sound, or not. */
#include "common/http2/server.h"
#include "common/protocol/step_answer.h"
#include "common/protocol/trial/hop_trial.h"
#include "common/protocol/trial/trial_request.h"
#include "tests/common/support/raw_peer.h"
#include "tests/support/certificates.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WIDTH 576u

typedef enum peer_habit { PEER_TAKES, PEER_REFUSES, PEER_IS_NO_WORKER, PEER_IS_SILENT } peer_habit;

/* The far end of the hop, and what this end says of it. */
typedef struct bench {
    uv_loop_t loop;
    lh_h2_limits limits;
    lh_h2_server *server; /* NULL: closed */
    peer_habit habit;
    const char *name;
    uint32_t requests;
    char path[64], peers[8][64]; /* the ends of the connections that the requests came by */
    char address[32];
    lh_hop_trial *trial;
    uint32_t changes;
    bool server_closed, trial_closed, step_done;
    lh_status step_status;
} bench;

static bench b;

/* ---- The far end ---- */

static void on_silent_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)context;
    (void)status;
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events silent_events = {.on_closed = on_silent_closed};
    (void)context;
    assert_true(b.requests < 8);
    snprintf(b.peers[b.requests++], sizeof b.peers[0], "%s", request->peer);
    snprintf(b.path, sizeof b.path, "%s", request->path);
    const char *width = strstr(request->path, "/trials/");
    if (b.habit == PEER_IS_SILENT) {
        *events = &silent_events;
    } else if (b.habit == PEER_IS_NO_WORKER || !width) {
        lh_h2_stream_respond(stream, 200, "{}");
    } else if (b.habit == PEER_REFUSES) {
        char *problem = lh_step_answer_render(b.name, LH_ERR_UNAVAILABLE, "it is leaving");
        lh_h2_stream_respond(stream, 503, problem);
        free(problem);
    } else {
        lh_trial_take(NULL, stream, request, b.name, strtoull(width + 8, NULL, 10), events,
                      stream_context);
    }
}

/* On the same port as before, if there was one. */
static void open_server(const lh_tls_options *tls) {
    lh_error error;
    if (lh_h2_server_create(&b.loop, b.address[0] ? b.address : "127.0.0.1:0", tls, &b.limits,
                            on_request, NULL, &b.server, &error) != LH_OK)
        fail_msg("%s", error.message);
    snprintf(b.address, sizeof b.address, "127.0.0.1:%d", lh_h2_server_port(b.server));
}

static void close_server(void) {
    b.server_closed = false;
    lh_h2_server_close(b.server, loop_set_flag, &b.server_closed);
    b.server = NULL;
    loop_run_until_set(&b.loop, &b.server_closed);
}

/* ---- This end ---- */

static void on_change(void *context) {
    assert_ptr_equal(context, &b);
    b.changes++;
}

static void on_done(void *context, void *step_context, lh_status status, const char *worker,
                    const char *message) {
    assert_ptr_equal(context, &b);
    (void)step_context;
    (void)worker;
    (void)message;
    b.step_done = true;
    b.step_status = status;
}

static lh_worker_client *open_client(const lh_tls_options *tls, uint32_t lanes) {
    static const lh_worker_client_events events = {.on_done = on_done};
    lh_worker_client *client;
    lh_error error;
    if (lh_worker_client_create(&b.loop, b.address, "main", tls, &b.limits, &events, &b, &client,
                                &error) != LH_OK)
        fail_msg("%s", error.message);
    assert_int_equal(lh_worker_client_add_lanes(client, &b.loop, tls, &b.limits, lanes, NULL),
                     LH_OK);
    return client;
}

static lh_hop_trial_options options_for(const char *next, uint32_t width) {
    return (lh_hop_trial_options){
        .next = next, .address = b.address, .width = width, .on_change = on_change, .context = &b};
}

static void begin(const lh_tls_options *tls, uint32_t lanes, const lh_hop_trial_options *options) {
    assert_int_equal(lh_hop_trial_create(&b.loop, open_client(tls, lanes), options, &b.trial, NULL),
                     LH_OK);
    assert_int_equal(lh_hop_trial_read(b.trial)->state, LH_HOP_TRIAL_RUNNING);
}

static void try_next(const char *next) {
    const lh_hop_trial_options options = options_for(next, WIDTH);
    begin(NULL, 0, &options);
}

static bool is_in_state(void *state) {
    return lh_hop_trial_read(b.trial)->state == *(const lh_hop_trial_state *)state;
}

static void await(lh_hop_trial_state state) {
    if (!loop_run_until(&b.loop, is_in_state, &state, 20000))
        fail_msg("it is %s: %s", lh_hop_trial_state_name(lh_hop_trial_read(b.trial)->state),
                 lh_hop_trial_read(b.trial)->error);
}

/* The address, and then this. */
static void expect_failure(const char *reason) {
    char expected[400];
    await(LH_HOP_TRIAL_FAILED);
    snprintf(expected, sizeof expected, "%s: %s", b.address, reason);
    assert_string_equal(lh_hop_trial_read(b.trial)->error, expected);
}

static void end_trial(void) {
    uint32_t changes = b.changes;
    b.trial_closed = false;
    lh_hop_trial_close(b.trial, loop_set_flag, &b.trial_closed);
    assert_false(b.trial_closed); /* from the loop */
    loop_run_until_set(&b.loop, &b.trial_closed);
    assert_int_equal(b.changes, changes);
    b.trial = NULL;
}

static int set_up(void **state) {
    (void)state;
    memset(&b, 0, sizeof b);
    uv_loop_init(&b.loop);
    b.limits = lh_h2_default_limits();
    b.name = "attic";
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (b.trial)
        end_trial();
    if (b.server)
        close_server();
    uv_run(&b.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b.loop), 0);
    return 0;
}

/* ---- Tests ---- */

static void a_hop_that_takes_a_step_is_proven(void **state) {
    (void)state;
    open_server(NULL);
    for (lh_wire_type wire = LH_WIRE_F32; wire <= LH_WIRE_Q8; wire++) {
        lh_hop_trial_options options = options_for("attic", WIDTH);
        options.wire = wire;
        begin(NULL, wire, &options);
        await(LH_HOP_TRIAL_PROVEN);
        assert_string_equal(b.path, "/chains/main/trials/576");
        const lh_hop_trial_report *report = lh_hop_trial_read(b.trial);
        assert_string_equal(report->next, "attic");
        assert_string_equal(report->address, b.address);
        assert_string_equal(report->error, "");
        assert_int_equal(b.changes, wire + 1);
        end_trial();
    }
}

static void the_gateway_takes_a_manifest(void **state) {
    (void)state;
    open_server(NULL);
    b.name = "";
    const lh_hop_trial_options options = options_for("", 0);
    begin(NULL, 0, &options);
    await(LH_HOP_TRIAL_PROVEN);
    assert_string_equal(b.path, "/chains/main/trials/0");
    assert_string_equal(lh_hop_trial_read(b.trial)->address, "");
}

static uint64_t bytes_of(uint32_t width) {
    static const lh_worker_client_events events = {.on_done = on_done};
    const lh_hop_trial_options options = options_for("attic", width);
    lh_hop_profile profile;
    begin(NULL, 0, &options);
    await(LH_HOP_TRIAL_PROVEN);
    lh_worker_client *client = lh_hop_trial_take(b.trial, &events, &b);
    lh_worker_client_read_profile(client, &profile);
    lh_worker_client_close(client, NULL, NULL);
    end_trial();
    return profile.bytes_sent;
}

/* Some 32 KiB, unless that were more rows than 64, or less than one. */
static void how_much_a_step_carries(void **state) {
    (void)state;
    open_server(NULL);
    assert_in_range(bytes_of(1), 64 * 4, 4 << 10);
    assert_in_range(bytes_of(WIDTH), 30 << 10, 36 << 10);
    assert_in_range(bytes_of(LH_STEP_WIDTH_MAX), 256 << 10, 264 << 10);
}

static void a_port_where_nobody_listens(void **state) {
    (void)state;
    open_server(NULL);
    close_server();
    try_next("attic");
    expect_failure("connection refused");
    loop_run_for(&b.loop, 300); /* it goes on trying */
    assert_int_equal(b.changes, 1);
    open_server(NULL);
    await(LH_HOP_TRIAL_PROVEN);
    assert_int_equal(b.changes, 2);
}

static void a_port_that_says_nothing(void **state) {
    (void)state;
    raw_peer peer = {0};
    snprintf(b.address, sizeof b.address, "127.0.0.1:%d", raw_peer_listen(&peer, &b.loop, NULL, 0));
    b.limits.connect_timeout_ms = 100;
    try_next("attic");
    expect_failure("no HTTP/2 connection within 100 ms");
    end_trial();
    raw_peer_close(&peer);
}

static void somebody_else_answers(void **state) {
    (void)state;
    char expected[100];
    open_server(NULL);
    b.name = "b";
    try_next("attic");
    await(LH_HOP_TRIAL_FAILED);
    snprintf(expected, sizeof expected, "worker 'b' answers at %s, not 'attic'", b.address);
    assert_string_equal(lh_hop_trial_read(b.trial)->error, expected);
    b.name = "";
    bool is_other = false;
    for (int i = 0; i < 2000 && !is_other; i++) {
        loop_run_for(&b.loop, 10);
        is_other = strncmp(lh_hop_trial_read(b.trial)->error, "the gateway answers at ", 23) == 0;
    }
    assert_true(is_other);
    assert_int_equal(b.changes, 2);
    b.name = "attic";
    await(LH_HOP_TRIAL_PROVEN);
    end_trial();
    try_next("");
    await(LH_HOP_TRIAL_FAILED);
    snprintf(expected, sizeof expected, "worker 'attic' answers at %s, not the gateway", b.address);
    assert_string_equal(lh_hop_trial_read(b.trial)->error, expected);
}

static void a_refusal_is_passed_on(void **state) {
    (void)state;
    open_server(NULL);
    b.habit = PEER_REFUSES;
    try_next("attic");
    expect_failure("worker 'attic' refuses a step of the trial: it is leaving");
    uint64_t begun_ms = uv_now(&b.loop);
    while (b.requests < 2)
        uv_run(&b.loop, UV_RUN_ONCE);
    loop_run_for(&b.loop, 50);
    assert_int_equal(b.changes, 1); /* the same again: it is not told twice */
    b.habit = PEER_TAKES;
    await(LH_HOP_TRIAL_PROVEN);
    assert_int_equal(b.requests, 3);
    assert_true(uv_now(&b.loop) - begun_ms >= 500 + 1000); /* the pauses grow */
    assert_string_equal(b.peers[0], b.peers[1]);           /* the connection stays */
}

/* It comes back sooner than the pause is over. */
static void a_pause_outlasts_the_connection(void **state) {
    (void)state;
    open_server(NULL);
    b.habit = PEER_REFUSES;
    try_next("attic");
    await(LH_HOP_TRIAL_FAILED);
    uint64_t begun_ms = uv_now(&b.loop);
    b.habit = PEER_TAKES;
    close_server();
    open_server(NULL);
    await(LH_HOP_TRIAL_PROVEN);
    assert_true(uv_now(&b.loop) - begun_ms >= 500);
}

static void one_that_takes_everything_and_has_no_name(void **state) {
    (void)state;
    char expected[100];
    open_server(NULL);
    b.habit = PEER_IS_NO_WORKER;
    b.name = "";
    const lh_hop_trial_options options = options_for("", 0);
    begin(NULL, 0, &options);
    await(LH_HOP_TRIAL_FAILED);
    snprintf(expected, sizeof expected, "%s took a step and did not say who it is", b.address);
    assert_string_equal(lh_hop_trial_read(b.trial)->error, expected);
}

static void an_answer_that_never_comes(void **state) {
    (void)state;
    open_server(NULL);
    b.habit = PEER_IS_SILENT;
    lh_hop_trial_options options = options_for("attic", WIDTH);
    options.answer_ms = 100;
    begin(NULL, 0, &options);
    expect_failure("a step of the trial was not answered within 100 ms");
    assert_int_equal(b.changes, 1);
    b.habit = PEER_TAKES;
    await(LH_HOP_TRIAL_PROVEN);
    assert_int_equal(b.changes, 2);
}

static void certificates(void **state) {
    (void)state;
    authority ca;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "Longhaul test CA", NULL, 30);
    authority_issue(&ca, "other-ca", NULL, "Somebody else's CA", NULL, 30);
    authority_issue(&ca, "attic", "ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    authority_issue(&ca, "b", "ca", "attic", "IP:127.0.0.1,URI:longhaul://worker/b?site=home", 30);
    authority_issue(&ca, "stranger", "other-ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    const struct {
        const char *server, *client, *reason; /* NULL: proven */
    } rows[] = {
        {"attic", "attic", NULL},
        {"b", "attic", "worker attic was expected and worker b of site home has answered"},
        {"stranger", "attic",
         "the peer's certificate is not signed by our CA: unable to get local issuer certificate"},
        {"attic", "stranger", "the peer does not accept our certificate: not signed by its CA"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const lh_tls_options server = authority_options(&ca, rows[i].server, "ca"),
                             own = authority_options(&ca, rows[i].client, "ca"),
                             client = lh_tls_options_for(&own, "attic");
        const lh_hop_trial_options options = options_for("attic", WIDTH);
        open_server(&server);
        begin(&client, 0, &options);
        if (rows[i].reason)
            expect_failure(rows[i].reason);
        else
            await(LH_HOP_TRIAL_PROVEN);
        end_trial();
        close_server();
    }
    authority_close(&ca);
}

static void a_hop_that_is_lost_is_proven_again(void **state) {
    (void)state;
    open_server(NULL);
    try_next("attic");
    await(LH_HOP_TRIAL_PROVEN);
    close_server();
    await(LH_HOP_TRIAL_FAILED);
    assert_non_null(strstr(lh_hop_trial_read(b.trial)->error, b.address));
    open_server(NULL);
    await(LH_HOP_TRIAL_PROVEN);
    assert_int_equal(b.requests, 2);
}

/* Its step ends first, but why is said by the connection. */
static void a_connection_that_goes_with_the_step(void **state) {
    (void)state;
    open_server(NULL);
    b.habit = PEER_IS_SILENT;
    try_next("attic");
    while (b.requests == 0)
        uv_run(&b.loop, UV_RUN_ONCE);
    close_server();
    await(LH_HOP_TRIAL_FAILED);
    assert_null(strstr(lh_hop_trial_read(b.trial)->error, "the hop to"));
    b.habit = PEER_TAKES;
    open_server(NULL);
    await(LH_HOP_TRIAL_PROVEN);
}

static void its_connections_go_to_the_chain(void **state) {
    (void)state;
    static const lh_worker_client_events events = {.on_done = on_done};
    const lh_step_manifest manifest = {.epoch = 3, .step = 42};
    lh_step_submission *step;
    open_server(NULL);
    try_next("attic");
    await(LH_HOP_TRIAL_PROVEN);
    lh_worker_client *client = lh_hop_trial_take(b.trial, &events, &b);
    end_trial(); /* what is left of it */
    assert_true(lh_worker_client_is_connected(client));
    assert_int_equal(lh_worker_client_submit(client, &manifest, NULL, &step, NULL), LH_OK);
    lh_step_submission_end(step);
    loop_run_until_set(&b.loop, &b.step_done);
    assert_int_equal(b.step_status, LH_OK);
    assert_string_equal(b.path, "/chains/main/steps/42");
    assert_string_equal(b.peers[0], b.peers[1]);
    lh_worker_client_close(client, NULL, NULL);
}

static void it_may_end_at_any_time(void **state) {
    (void)state;
    open_server(NULL);
    b.habit = PEER_IS_SILENT;
    for (int turns = 0; b.requests == 0; turns++) {
        try_next("attic");
        for (int i = 0; i < turns; i++)
            uv_run(&b.loop, UV_RUN_ONCE);
        end_trial();
        assert_int_equal(b.changes, 0);
    }
}

static void without_memory_there_is_no_trial(void **state) {
    (void)state;
    open_server(NULL);
    lh_worker_client *client = open_client(NULL, 0);
    const lh_hop_trial_options options = options_for("attic", WIDTH);
    for (size_t n = 1; n <= 2; n++) {
        failing_malloc_arm(n);
        lh_status status = lh_hop_trial_create(&b.loop, client, &options, &b.trial, NULL);
        assert_true(failing_malloc_disarm());
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
    assert_int_equal(lh_hop_trial_create(&b.loop, client, &options, &b.trial, NULL), LH_OK);
    await(LH_HOP_TRIAL_PROVEN);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_hop_that_takes_a_step_is_proven),
        TEST(the_gateway_takes_a_manifest),
        TEST(how_much_a_step_carries),
        TEST(a_port_where_nobody_listens),
        TEST(a_port_that_says_nothing),
        TEST(somebody_else_answers),
        TEST(a_refusal_is_passed_on),
        TEST(a_pause_outlasts_the_connection),
        TEST(one_that_takes_everything_and_has_no_name),
        TEST(an_answer_that_never_comes),
        TEST(certificates),
        TEST(a_hop_that_is_lost_is_proven_again),
        TEST(a_connection_that_goes_with_the_step),
        TEST(its_connections_go_to_the_chain),
        TEST(it_may_end_at_any_time),
        TEST(without_memory_there_is_no_trial),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
