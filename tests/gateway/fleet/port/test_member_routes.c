/* Joining, renewing, asking to be reached and being revoked, over loopback with TLS, in one
 * process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/base/state_folder.h"
#include "common/http2/client.h"
#include "common/net/tls_pin.h"
#include "common/protocol/join/join_messages_json.h"
#include "gateway/fleet/port/member_routes.h"
#include "tests/gateway/support/certificate_requests.h"
#include "tests/support/loop.h"

#include <openssl/pem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef lh_error

#define LIFE_S (30 * 86400)

typedef struct bench {
    char folder[64];
    uv_loop_t loop;
    lh_membership *membership;
    lh_tls_options tls;
    lh_h2_server *http;
    lh_member_routes *routes;
    char revoked[LH_NAME_BYTES];
    /* The client, and its one request at a time. */
    lh_h2_client *client;
    lh_tls_credentials *client_credentials;
    bool is_connected, has_state, is_closed;
    char reason[LH_ERROR_MESSAGE_BYTES];
    int http_status;
    size_t length;
    char body[LH_JOIN_ANSWER_BYTES_MAX + 1];
} bench;

/* ---- The server ---- */

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    bench *b = context;
    if (!lh_member_routes_take(b->routes, stream, request, events, stream_context))
        lh_h2_stream_respond(stream, 404, "of somebody else\n");
}

static void on_revoked(void *context, const char *worker) {
    bench *b = context;
    snprintf(b->revoked, sizeof b->revoked, "%s", worker);
}

static void open_membership(bench *b) {
    const lh_membership_options options = {.folder = b->folder, .certificate_life_s = LIFE_S};
    lh_membership_view view;
    assert_int_equal(lh_membership_open(&options, time(NULL), &b->membership, NULL), LH_OK);
    const lh_upkeep_moment moment = {.now_s = time(NULL)};
    assert_int_equal(lh_upkeep_refresh(lh_membership_upkeep(b->membership), &moment, &view, NULL),
                     LH_OK);
    lh_membership_view_reset(&view);
    b->tls = lh_membership_tls(b->membership);
    assert_int_equal(lh_tls_credentials_create(&b->tls, &b->tls.credentials, NULL), LH_OK);
}

static int open_bench(void **state) {
    bench *b = calloc(1, sizeof *b);
    const lh_h2_limits limits = lh_h2_default_limits();
    lh_log_set_level(LH_LOG_ERROR);
    strcpy(b->folder, "/tmp/longhaul-routes-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    assert_int_equal(uv_loop_init(&b->loop), 0);
    open_membership(b);
    assert_int_equal(lh_h2_server_create(&b->loop, "127.0.0.1:0", &b->tls, &limits, on_request, b,
                                         &b->http, NULL),
                     LH_OK);
    const lh_member_routes_options options = {.loop = &b->loop,
                                              .http = b->http,
                                              .tls = &b->tls,
                                              .limits = &limits,
                                              .membership = b->membership,
                                              .on_revoked = on_revoked,
                                              .context = b};
    assert_int_equal(lh_member_routes_create(&options, &b->routes, NULL), LH_OK);
    *state = b;
    return 0;
}

static void disconnect(bench *b) {
    bool is_gone = false;
    if (!b->client)
        return;
    lh_h2_client_close(b->client, loop_set_flag, &is_gone);
    loop_run_until_set(&b->loop, &is_gone);
    lh_tls_credentials_destroy(b->client_credentials);
    b->client = NULL;
    b->client_credentials = NULL;
}

static int close_bench(void **state) {
    bench *b = *state;
    char command[128];
    bool is_http_gone = false, are_routes_gone = false;
    disconnect(b);
    lh_h2_server_close(b->http, loop_set_flag, &is_http_gone);
    loop_run_until_set(&b->loop, &is_http_gone);
    lh_member_routes_close(b->routes, loop_set_flag, &are_routes_gone);
    loop_run_until_set(&b->loop, &are_routes_gone);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    lh_tls_credentials_destroy(b->tls.credentials);
    lh_membership_close(b->membership);
    snprintf(command, sizeof command, "rm -r %s", b->folder);
    free(b);
    return system(command);
}

/* ---- The client ---- */

static void on_state(void *context, bool connected, const char *reason) {
    bench *b = context;
    b->is_connected = connected;
    b->has_state = true;
    snprintf(b->reason, sizeof b->reason, "%s", reason);
}

/* False: the first attempt failed. */
static bool connect_with(bench *b, const lh_tls_options *tls) {
    lh_tls_options meant = lh_tls_options_for(tls, "");
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(b->http));
    b->has_state = b->is_connected = false;
    assert_int_equal(
        lh_h2_client_create(&b->loop, address, &meant, NULL, on_state, b, &b->client, NULL), LH_OK);
    loop_run_until_set(&b->loop, &b->has_state);
    return b->is_connected;
}

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    ((bench *)context)->http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    bench *b = context;
    assert_true(length < sizeof b->body - b->length);
    memcpy(b->body + b->length, bytes, length);
    b->length += length;
    b->body[b->length] = '\0';
    lh_h2_stream_consume(stream, length);
}

static void on_stream_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    ((bench *)context)->is_closed = true;
}

/* The HTTP status; the answer is in b->body. Frees the text. */
static int ask(bench *b, const char *method, const char *path, char *text) {
    static const lh_h2_stream_events events = {
        .on_response = on_response, .on_body = on_body, .on_closed = on_stream_closed};
    lh_h2_stream *stream;
    b->http_status = 0;
    b->length = 0;
    b->is_closed = false;
    assert_int_equal(
        lh_h2_client_submit(b->client, method, path, NULL, 0, 0, &events, b, &stream, NULL), LH_OK);
    if (text)
        lh_h2_stream_write(stream, text, strlen(text));
    lh_h2_stream_end(stream);
    loop_run_until_set(&b->loop, &b->is_closed);
    free(text);
    return b->http_status;
}

/* ---- A worker ---- */

typedef struct member {
    EVP_PKEY *key;
    lh_join_grant *grant;
    char file[192], trust[192];
} member;

static lh_join_token invite(bench *b) {
    const lh_invitation_terms terms = {.site = "office", .name = "", .uses_max = 1, .life_s = 3600};
    lh_join_token token;
    assert_int_equal(lh_membership_invite(b->membership, &terms, time(NULL), &token, NULL), LH_OK);
    return token;
}

static char *request_text(const member *m, const lh_join_token *token, const char *name) {
    lh_join_request *request = calloc(1, sizeof *request);
    char *csr = make_request(m->key, name, NULL);
    memcpy(request->token, token->id, sizeof request->token);
    memcpy(request->secret, token->secret, sizeof request->secret);
    snprintf(request->name, sizeof request->name, "%s", name);
    snprintf(request->csr, sizeof request->csr, "%s", csr);
    snprintf(request->version, sizeof request->version, "test");
    request->time_s = time(NULL);
    char *text = lh_join_request_render(request);
    free(csr);
    free(request);
    return text;
}

/* Key and certificate in one file, the bundle in another. */
static void keep(bench *b, member *m) {
    assert_int_equal(lh_join_grant_parse(b->body, b->length, m->grant, NULL), LH_OK);
    snprintf(m->file, sizeof m->file, "%s/%s.pem", b->folder, m->grant->name);
    snprintf(m->trust, sizeof m->trust, "%s/%s.trust", b->folder, m->grant->name);
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem;
    PEM_write_bio_PrivateKey(bio, m->key, NULL, NULL, 0, NULL, NULL);
    BIO_puts(bio, m->grant->certificate);
    long length = BIO_get_mem_data(bio, &pem);
    assert_int_equal(
        lh_state_file_write(b->folder, strrchr(m->file, '/') + 1, pem, (size_t)length, NULL),
        LH_OK);
    assert_int_equal(lh_state_file_write(b->folder, strrchr(m->trust, '/') + 1, m->grant->trust,
                                         strlen(m->grant->trust), NULL),
                     LH_OK);
    BIO_free(bio);
}

/* With a token, over a connection that believes its pin alone. The HTTP status. */
static int join(bench *b, member *m, const lh_join_token *token, const char *name) {
    lh_tls_pin *pin = calloc(1, sizeof *pin);
    lh_tls_options tls = {0};
    memcpy(pin->digest, token->pin, sizeof pin->digest);
    *m = (member){.key = make_key("P-256"), .grant = calloc(1, sizeof *m->grant)};
    assert_int_equal(lh_tls_pin_open(pin, &b->client_credentials, NULL), LH_OK);
    tls.credentials = b->client_credentials;
    assert_true(connect_with(b, &tls));
    int http_status = ask(b, "POST", LH_JOIN_PATH, request_text(m, token, name));
    if (http_status == 200)
        keep(b, m);
    disconnect(b);
    free(pin);
    return http_status;
}

static void release(member *m) {
    EVP_PKEY_free(m->key);
    free(m->grant);
}

static bool connect_as(bench *b, const member *m) {
    lh_tls_options tls = {.certificate_file = m->file, .key_file = m->file, .ca_file = m->trust};
    assert_int_equal(lh_tls_credentials_create(&tls, &b->client_credentials, NULL), LH_OK);
    tls.credentials = b->client_credentials;
    return connect_with(b, &tls);
}

static bool is_refused(void *context) {
    const bench *b = context;
    return b->has_state && !b->is_connected && strstr(b->reason, "revoked");
}

/* ---- Tests ---- */

static void whoever_joins_is_let_in_at_once(void **state) {
    bench *b = *state;
    member office;
    lh_join_token token = invite(b);
    assert_int_equal(join(b, &office, &token, "office"), 200);
    assert_string_equal(office.grant->observed, "127.0.0.1");
    assert_true(connect_as(b, &office));
    assert_int_equal(ask(b, "GET", "/fleet/trust", NULL), 200);
    assert_string_equal(b->body, office.grant->trust);
    uint8_t digest[LH_SHA256_BYTES];
    char hex[LH_SHA256_HEX_BYTES];
    assert_int_equal(lh_sha256_digest(b->body, b->length, digest), LH_OK);
    lh_sha256_render(digest, hex);
    assert_string_equal(lh_member_routes_trust_sha256(b->routes), hex);
    assert_string_equal(lh_member_list_find(lh_member_routes_members(b->routes), "office")->site,
                        "office");
    release(&office);
}

static void a_refusal_says_why(void **state) {
    bench *b = *state;
    member office, attic;
    lh_join_refusal refusal;
    lh_join_token token = invite(b);
    assert_int_equal(join(b, &office, &token, "office"), 200);
    assert_int_equal(join(b, &attic, &token, "attic"), 403);
    assert_int_equal(lh_join_refusal_parse(b->body, b->length, &refusal, NULL), LH_OK);
    assert_int_equal(refusal.code, LH_JOIN_TOKEN_USED);
    assert_non_null(strstr(refusal.message, "longhaul-gateway token"));
    release(&office);
    release(&attic);
}

/* Two thirds of the life of all certificates are over. */
static void let_time_pass(bench *b) {
    lh_records_change change;
    assert_int_equal(lh_records_begin(b->folder, &change, NULL), LH_OK);
    for (size_t i = 0; i < change.records.members.count; i++)
        change.records.members.members[i].issued_s -= 2 * (int64_t)LIFE_S;
    assert_int_equal(lh_records_commit(&change, NULL), LH_OK);
}

static void a_member_renews_its_own_certificate(void **state) {
    bench *b = *state;
    member office;
    lh_join_token token = invite(b);
    assert_int_equal(join(b, &office, &token, "office"), 200);
    assert_true(connect_as(b, &office));
    lh_join_renewal *renewal = calloc(1, sizeof *renewal);
    char *csr = make_new_request();
    snprintf(renewal->csr, sizeof renewal->csr, "%s", csr);
    renewal->time_s = time(NULL);
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/attic/certificate", lh_join_renewal_render(renewal)), 403);
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/office/certificate", lh_join_renewal_render(renewal)), 429);
    assert_non_null(strstr(b->body, "not_due"));
    let_time_pass(b);
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/office/certificate", lh_join_renewal_render(renewal)), 200);
    assert_int_equal(lh_join_grant_parse(b->body, b->length, office.grant, NULL), LH_OK);
    assert_string_equal(office.grant->site, "office");
    renewal->time_s -= 86400;
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/office/certificate", lh_join_renewal_render(renewal)), 400);
    assert_int_equal(ask(b, "GET", "/fleet/workers/office/certificate", NULL), 405);
    assert_int_equal(ask(b, "POST", "/fleet/workers/office/else", NULL), 404);
    free(csr);
    free(renewal);
    release(&office);
}

static void a_revoked_member_is_put_out(void **state) {
    bench *b = *state;
    member office;
    lh_join_token token = invite(b);
    assert_int_equal(join(b, &office, &token, "office"), 200);
    assert_true(connect_as(b, &office));
    assert_string_equal(b->revoked, "");
    assert_int_equal(lh_membership_revoke_worker(b->membership, "office", time(NULL), NULL), LH_OK);
    assert_true(loop_run_until(&b->loop, is_refused, b, 20000));
    assert_string_equal(b->revoked, "office");
    release(&office);
}

static void an_address_that_nobody_answers_is_told(void **state) {
    bench *b = *state;
    member office;
    lh_join_reach reach;
    char address[32];
    lh_join_token token = invite(b);
    assert_int_equal(join(b, &office, &token, "office"), 200);
    assert_true(connect_as(b, &office));
    /* the gateway itself is there, and is no worker */
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(b->http));
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/office/reach", lh_join_reach_request_render(address)), 200);
    assert_int_equal(lh_join_reach_parse(b->body, b->length, &reach, NULL), LH_OK);
    assert_false(reach.is_reached);
    assert_non_null(strstr(reach.error, "office"));
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/office/reach", lh_join_reach_request_render("127.0.0.1:1")),
        200);
    assert_int_equal(lh_join_reach_parse(b->body, b->length, &reach, NULL), LH_OK);
    assert_false(reach.is_reached);
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/office/reach", lh_join_reach_request_render("no address")),
        400);
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/attic/reach", lh_join_reach_request_render(address)), 403);
    release(&office);
}

/* The gateway is no scanner: of literal addresses and of names. */
static void no_address_but_the_workers_own_is_tried(void **state) {
    bench *b = *state;
    member office;
    lh_join_reach reach;
    char own[32];
    static const char *const others[] = {"127.0.0.2:%d", "192.0.2.1:%d", "[::1]:%d",
                                         "no-such-name.invalid:%d"};
    lh_join_token token = invite(b);
    assert_int_equal(join(b, &office, &token, "office"), 200);
    assert_true(connect_as(b, &office));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char address[64];
        snprintf(address, sizeof address, others[i], lh_h2_server_port(b->http));
        assert_int_equal(
            ask(b, "POST", "/fleet/workers/office/reach", lh_join_reach_request_render(address)),
            200);
        assert_int_equal(lh_join_reach_parse(b->body, b->length, &reach, NULL), LH_OK);
        assert_false(reach.is_reached);
        assert_true(reach.is_untried);
        assert_non_null(strstr(reach.error, "the gateway tries no address but the one"));
    }
    snprintf(own, sizeof own, "localhost:%d", lh_h2_server_port(b->http));
    assert_int_equal(
        ask(b, "POST", "/fleet/workers/office/reach", lh_join_reach_request_render(own)), 200);
    assert_int_equal(lh_join_reach_parse(b->body, b->length, &reach, NULL), LH_OK);
    assert_false(reach.is_untried);
    release(&office);
}

static void a_worker_asks_ten_times_a_minute(void **state) {
    bench *b = *state;
    member office;
    lh_join_token token = invite(b);
    assert_int_equal(join(b, &office, &token, "office"), 200);
    assert_true(connect_as(b, &office));
    for (int i = 0; i < 12; i++)
        assert_int_equal(ask(b, "POST", "/fleet/workers/office/reach",
                             lh_join_reach_request_render("127.0.0.1:1")),
                         i < 10 ? 200 : 429);
    release(&office);
}

/* The answer has no taker: nothing is left behind, and the certificate counts. */
static void whoever_hangs_up_has_joined_all_the_same(void **state) {
    bench *b = *state;
    member office;
    lh_join_token token = invite(b);
    assert_int_equal(join(b, &office, &token, "office"), 200);
    assert_true(connect_as(b, &office));
    static const lh_h2_stream_events events = {.on_closed = on_stream_closed};
    let_time_pass(b);
    for (int i = 0; i < 4; i++) {
        lh_h2_stream *stream;
        lh_join_renewal *renewal = calloc(1, sizeof *renewal);
        char *csr = make_new_request();
        snprintf(renewal->csr, sizeof renewal->csr, "%s", csr);
        renewal->time_s = time(NULL);
        char *text = lh_join_renewal_render(renewal);
        assert_int_equal(lh_h2_client_submit(b->client, "POST", "/fleet/workers/office/certificate",
                                             NULL, 0, 0, &events, b, &stream, NULL),
                         LH_OK);
        lh_h2_stream_write(stream, text, strlen(text));
        lh_h2_stream_end(stream);
        b->is_closed = false;
        loop_run_for(&b->loop, (uint64_t)(2 * i));
        if (!b->is_closed) /* else a fast machine has answered, and the stream is gone */
            lh_h2_stream_cancel(stream);
        loop_run_until_set(&b->loop, &b->is_closed);
        free(text);
        free(csr);
        free(renewal);
    }
    loop_run_for(&b->loop, 5);
    release(&office);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)
    const struct CMUnitTest tests[] = {
        TEST(whoever_joins_is_let_in_at_once),
        TEST(a_refusal_says_why),
        TEST(a_member_renews_its_own_certificate),
        TEST(a_revoked_member_is_put_out),
        TEST(an_address_that_nobody_answers_is_told),
        TEST(no_address_but_the_workers_own_is_tried),
        TEST(a_worker_asks_ten_times_a_minute),
        TEST(whoever_hangs_up_has_joined_all_the_same),
    };
    signal(SIGPIPE, SIG_IGN); /* as the programs do */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
