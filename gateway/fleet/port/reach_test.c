/* A lookup where the host is a name, then a client that is closed as soon as it
 * is connected, or has said why it is not. */
#include "gateway/fleet/port/reach_test.h"

#include "common/base/clock.h"
#include "common/http2/client.h"
#include "common/net/address.h"
#include "common/protocol/join/join_messages_json.h"
#include "gateway/fleet/port/body_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 5000

/* Where a worker was seen: now, and when each of its certificates was issued. */
enum { SEEN_MAX = LH_MEMBER_CERTIFICATES_MAX + 1 };

/* One of a worker at a time. The stream is there until the client has answered
 * or given up. */
static const lh_stream_quota_limits quota_limits = {
    .peer_max = 1, .all_max = 16, .stall_ms = 8000, .whole_ms = 10000};

typedef struct reach_test {
    lh_body_reader body; /* first: its address is the test's */
    lh_reach_tests *tests;
    char worker[LH_NAME_BYTES];
    uint64_t seen[SEEN_MAX]; /* lh_address_key */
    size_t seen_count;
    int port;
    uv_getaddrinfo_t lookup;
    bool is_looking_up;
    lh_h2_client *client; /* NULL: not yet, or it is closing */
    int64_t begun_us;
    bool is_client_open; /* until it has closed */
} reach_test;

static void free_when_all_is_closed(reach_test *test) {
    if (!test->body.stream && !test->is_client_open && !test->is_looking_up)
        free(test);
}

static void on_client_closed(void *context) {
    reach_test *test = context;
    test->is_client_open = false;
    free_when_all_is_closed(test);
}

static void close_client(reach_test *test) {
    lh_h2_client *client = test->client;
    test->client = NULL;
    if (client)
        lh_h2_client_close(client, on_client_closed, test);
}

/* ---- Answers ---- */

static void answer(reach_test *test, const lh_join_reach *reach) {
    char *text = lh_join_reach_render(reach);
    if (test->body.stream)
        lh_h2_stream_respond(test->body.stream, text ? 200 : 500,
                             text ? text : "the gateway is out of memory\n");
    free(text);
}

static void respond_error(reach_test *test, lh_status status, const lh_error *error) {
    char text[LH_ERROR_MESSAGE_BYTES + 1];
    snprintf(text, sizeof text, "%.*s\n", LH_ERROR_MESSAGE_BYTES - 2, error->message);
    if (test->body.stream)
        lh_h2_stream_respond(test->body.stream, status == LH_ERR_NO_MEMORY ? 500 : 400, text);
}

/* ---- Connecting ---- */

/* The first word decides: what the client would try again is the worker's to
 * ask again. */
static void on_state(void *context, bool connected, const char *reason) {
    reach_test *test = context;
    lh_join_reach reach = {.is_reached = connected, .us = lh_clock_us() - test->begun_us};
    if (!test->client)
        return;
    snprintf(reach.error, sizeof reach.error, "%.*s", (int)sizeof reach.error - 1, reason);
    answer(test, &reach);
    close_client(test);
}

static void connect_to(reach_test *test, const struct sockaddr *target) {
    char address[LH_ADDRESS_TEXT_BYTES];
    lh_error error;
    lh_tls_options tls = lh_tls_options_for(test->tests->tls, test->worker);
    lh_address_render(target, address);
    test->begun_us = lh_clock_us();
    lh_status status = lh_h2_client_create(test->tests->loop, address, &tls, &test->tests->limits,
                                           on_state, test, &test->client, &error);
    test->is_client_open = status == LH_OK;
    if (status != LH_OK)
        respond_error(test, status, &error);
}

static bool is_seen_at(const reach_test *test, const struct sockaddr *address) {
    for (size_t i = 0; i < test->seen_count; i++)
        if (test->seen[i] == lh_address_key(address))
            return true;
    return false;
}

static void refuse_others_address(reach_test *test) {
    answer(test, &(lh_join_reach){.is_untried = true,
                                  .error = "the gateway tries no address but the one from which it "
                                           "sees this worker come, and this is another one"});
}

/* ---- A name ---- */

static void set_port(struct sockaddr *address, int port) {
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)(void *)address)->sin_port = htons((uint16_t)port);
}

/* A name that is not known and one of somebody else have one answer, so that nothing is learnt. */
static void on_looked_up(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found) {
    reach_test *test = lookup->data;
    struct addrinfo *own = status == 0 ? found : NULL;
    test->is_looking_up = false;
    while (own && !is_seen_at(test, own->ai_addr))
        own = own->ai_next;
    if (test->body.stream && own) {
        set_port(own->ai_addr, test->port);
        connect_to(test, own->ai_addr);
    } else {
        refuse_others_address(test);
    }
    uv_freeaddrinfo(found);
    free_when_all_is_closed(test);
}

static void look_up(reach_test *test, const char *host) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    test->lookup.data = test;
    test->is_looking_up =
        uv_getaddrinfo(test->tests->loop, &test->lookup, on_looked_up, host, NULL, &hints) == 0;
    if (!test->is_looking_up)
        refuse_others_address(test);
}

/* ---- The request ---- */

static void on_whole(lh_body_reader *body) {
    reach_test *test = (reach_test *)body;
    char text[LH_JOIN_ADDRESS_BYTES];
    struct sockaddr_storage target;
    lh_address address;
    lh_error error;
    lh_status status = lh_join_reach_request_parse(body->bytes, body->length, text, &error);
    if (status == LH_OK)
        status = lh_address_parse(text, &address, &error);
    if (status != LH_OK) {
        respond_error(test, status, &error);
        return;
    }
    test->port = address.port;
    if (!lh_address_is_literal(&address, &target))
        look_up(test, address.host);
    else if (is_seen_at(test, (struct sockaddr *)&target))
        connect_to(test, (struct sockaddr *)&target);
    else
        refuse_others_address(test);
}

static void on_body_closed(lh_body_reader *body) {
    reach_test *test = (reach_test *)body;
    close_client(test);
    free_when_all_is_closed(test);
}

/* address: an IP address with a port. */
static void note_seen(reach_test *test, const lh_address *address) {
    struct sockaddr_storage seen;
    if (test->seen_count < SEEN_MAX && lh_address_is_literal(address, &seen))
        test->seen[test->seen_count++] = lh_address_key((struct sockaddr *)&seen);
}

static void note_all_seen(reach_test *test, const lh_member_list *members, const char *peer) {
    lh_address address;
    if (lh_address_parse(peer, &address, NULL) == LH_OK)
        note_seen(test, &address);
    for (size_t i = 0; members && i < members->count; i++) {
        const lh_member *member = &members->members[i];
        lh_address observed = {.port = 1};
        snprintf(observed.host, sizeof observed.host, "%s", member->observed);
        if (strcmp(member->name, test->worker) == 0)
            note_seen(test, &observed);
    }
}

/* True: it may ask now. A worker's certificate is its name, wherever it asks from. */
static bool count_attempt(lh_reach_tests *tests, const char *worker) {
    uint8_t digest[LH_SHA256_BYTES] = {0};
    uint64_t key;
    int64_t now_us = lh_clock_us();
    if (lh_sha256_digest(worker, strlen(worker), digest) != LH_OK)
        return false;
    memcpy(&key, digest, sizeof key);
    bool is_allowed = lh_attempt_limit_allows(&tests->attempts, key, now_us);
    if (is_allowed)
        lh_attempt_limit_note(&tests->attempts, key, now_us);
    return is_allowed;
}

void lh_reach_tests_take(lh_reach_tests *tests, const lh_member_list *members, lh_h2_stream *stream,
                         const lh_h2_request *request, const lh_h2_stream_events **events,
                         void **context) {
    if (!count_attempt(tests, request->peer_identity->name)) {
        lh_h2_stream_respond(stream, 429, "a worker may ask ten times a minute\n");
        return;
    }
    reach_test *test = calloc(1, sizeof *test);
    if (!test) {
        lh_h2_stream_respond(stream, 503, "the gateway is out of memory\n");
        return;
    }
    test->tests = tests;
    snprintf(test->worker, sizeof test->worker, "%s", request->peer_identity->name);
    note_all_seen(test, members, request->peer);
    test->body.on_whole = on_whole;
    test->body.on_closed = on_body_closed;
    if (lh_body_reader_begin(&test->body, &tests->quota, stream, request, events, context) != LH_OK)
        free(test);
}

void lh_reach_tests_init(lh_reach_tests *tests, uv_loop_t *loop, const lh_tls_options *tls,
                         const lh_h2_limits *limits) {
    *tests = (lh_reach_tests){.loop = loop, .tls = tls, .limits = *limits};
    tests->limits.connect_timeout_ms = WAIT_MS;
    lh_stream_quota_init(&tests->quota, loop, "tests of workers' addresses", &quota_limits);
}

void lh_reach_tests_close(lh_reach_tests *tests, void (*on_closed)(void *), void *context) {
    lh_stream_quota_close(&tests->quota, on_closed, context);
}
