/* The connecting side: one connection at a time, kept up.
 *
 * Happy path: resolve the name, connect to its addresses in turn, and the one that answers with
 * HTTP/2 becomes `current`. When it goes, connect again with back-off. Before it runs out of stream
 * ids a `successor` is connected; it takes over at a moment when `current` has no open stream, so
 * that no later request can arrive before an earlier one. A connection whose peer said GOAWAY takes
 * no more streams and drains in the list beside the new one. */
#include "common/http2/client.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"
#include "common/base/random_id.h"
#include "common/http2/prober.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_MS_MIN = 50,
    RETRY_MS_MAX = 1000,
    STREAM_IDS = 1 << 30 /* odd numbers below 2^31 */
};

struct lh_h2_client {
    uv_loop_t *loop;
    lh_h2_limits limits;
    lh_h2_on_client_state *on_state;
    void *context;
    lh_tls_context *tls;
    lh_address address;
    char authority[LH_HOST_BYTES + 16];

    uv_timer_t retry;
    int64_t retry_ms;
    uv_getaddrinfo_t resolving;
    bool is_resolving;
    struct addrinfo *addresses, *next_address; /* of the attempt */

    lh_h2_transport *current, *attempt, *successor; /* all of them in the list too */
    lh_h2_transport *transports;
    uint32_t submitted;  /* on the current connection */
    uint64_t bytes_sent; /* on those that are gone */
    lh_h2_prober prober; /* of the current connection */
    int open_handles;    /* of `retry` and the prober's */

    bool connected, told, closing;
    bool refused;                        /* by the last attempt */
    char reason[LH_ERROR_MESSAGE_BYTES]; /* last told */
    void (*on_closed)(void *);
    void *closed_context;
};

static void attempt_start(lh_h2_client *client);

static void release(lh_h2_client *client) {
    if (client->open_handles > 0 || client->is_resolving || client->transports)
        return;
    if (client->on_closed)
        client->on_closed(client->closed_context);
    uv_freeaddrinfo(client->addresses);
    lh_tls_context_destroy(client->tls);
    free(client);
}

/* Tells the user what has changed: up, down, or another reason why it stays down. */
static void tell(lh_h2_client *client, bool connected, const char *reason) {
    if (client->closing ||
        (client->told && connected == client->connected && strcmp(reason, client->reason) == 0))
        return;
    client->told = true;
    client->connected = connected;
    snprintf(client->reason, sizeof client->reason, "%s", reason);
    client->on_state(client->context, connected, client->reason);
}

/* ---- Attempts ---- */

static void on_retry(uv_timer_t *timer) {
    attempt_start(timer->data);
}

/* Back-off with jitter of a quarter, so that a fleet does not come back in step. */
static void retry_later(lh_h2_client *client) {
    if (client->closing || client->attempt || client->successor || client->is_resolving)
        return;
    int64_t wait_ms = client->retry_ms - client->retry_ms / 4 +
                      (int64_t)(lh_random_u64() % (uint64_t)(client->retry_ms / 2 + 1));
    client->retry_ms = lh_min_i64(client->retry_ms * 2, RETRY_MS_MAX);
    uv_timer_start(&client->retry, on_retry, (uint64_t)wait_ms, 0);
}

static void attempt_failed(lh_h2_client *client, const char *reason) {
    if (!client->current)
        tell(client, false, reason);
    retry_later(client);
}

static void promote(lh_h2_client *client) {
    assert(client->successor);
    client->current = client->successor;
    client->successor = NULL;
    client->submitted = 0;
    lh_h2_prober_attach(&client->prober, client->current);
    client->retry_ms = RETRY_MS_MIN;
    client->refused = false;
    tell(client, true, "connected");
}

/* The current connection takes no more streams: its open ones run to their end in the list. */
static void retire(lh_h2_client *client, const char *reason) {
    client->current = NULL;
    lh_h2_prober_attach(&client->prober, NULL);
    if (client->successor)
        promote(client);
    else
        tell(client, false, reason);
    if (!client->current)
        retry_later(client);
}

static bool is_idle(const lh_h2_transport *transport) {
    return lh_h2_session_open_streams(transport->session) == 0;
}

/* Hands over to the successor if nothing is under way. */
static void renew_if_idle(lh_h2_client *client) {
    lh_h2_transport *old = client->current;
    if (!old || !client->successor || !is_idle(old))
        return;
    promote(client);
    lh_h2_transport_close(old, LH_ERR_CLOSED, "renewed");
}

static void on_ready(void *owner, lh_h2_transport *transport) {
    lh_h2_client *client = owner;
    if (client->closing)
        return;
    client->attempt = NULL;
    client->successor = transport;
    if (client->current)
        renew_if_idle(client);
    else
        promote(client);
}

static void on_change(void *owner, lh_h2_transport *transport) {
    lh_h2_client *client = owner;
    if (client->closing || !transport->ready)
        return;
    if (transport == client->current)
        lh_h2_prober_on_pumped(&client->prober);
    bool leaving = lh_h2_session_is_shutting_down(transport->session);
    if (transport == client->current && leaving)
        retire(client, "the peer is going away");
    else if (transport == client->current)
        renew_if_idle(client);
    else if (transport == client->successor && leaving)
        lh_h2_transport_close(transport, LH_ERR_CLOSED, "the peer is going away");
    if (transport != client->current && transport != client->successor && is_idle(transport))
        lh_h2_transport_close(transport, LH_ERR_CLOSED, "drained");
}

static void on_round_trip(void *owner, lh_h2_transport *transport, int64_t round_trip_us) {
    lh_h2_client *client = owner;
    if (transport == client->current)
        lh_h2_link_on_round_trip(&client->prober.link, round_trip_us);
}

static void connect_next(lh_h2_client *client);

static void on_down(void *owner, lh_h2_transport *transport, lh_status status, const char *reason) {
    lh_h2_client *client = owner;
    if (transport == client->attempt) {
        client->attempt = NULL;
        client->refused = status == LH_ERR_UNAVAILABLE;
        if (client->next_address && !client->closing)
            connect_next(client);
        else
            attempt_failed(client, reason);
    } else if (transport == client->successor) {
        client->successor = NULL;
        attempt_failed(client, reason);
    } else if (transport == client->current) {
        retire(client, reason);
    }
}

static void on_released(void *owner, lh_h2_transport *transport) {
    lh_h2_client *client = owner;
    client->bytes_sent += transport->output.bytes_sent;
    if (client->closing)
        release(client);
}

static void connect_to(lh_h2_client *client, const struct sockaddr *address) {
    lh_h2_transport_config config = {
        .loop = client->loop,
        .limits = &client->limits,
        .role = LH_H2_CLIENT,
        .tls = client->tls,
        .host = client->address.host,
        .authority = client->authority,
        .on_ready = on_ready,
        .on_change = on_change,
        .on_round_trip = on_round_trip,
        .on_down = on_down,
        .on_released = on_released,
        .owner = client,
        .list = &client->transports,
    };
    lh_error error;
    if (lh_h2_transport_create(&config, &client->attempt, &error) != LH_OK) {
        client->attempt = NULL;
        attempt_failed(client, error.message);
        return;
    }
    lh_h2_transport_connect(client->attempt, address);
}

static void connect_next(lh_h2_client *client) {
    const struct addrinfo *info = client->next_address;
    client->next_address = info->ai_next;
    connect_to(client, info->ai_addr);
}

static void on_resolved(uv_getaddrinfo_t *request, int code, struct addrinfo *addresses) {
    lh_h2_client *client = request->data;
    char reason[LH_ERROR_MESSAGE_BYTES];
    client->is_resolving = false;
    uv_freeaddrinfo(client->addresses);
    client->addresses = client->next_address = code == 0 ? addresses : NULL;
    if (client->closing) {
        release(client);
    } else if (client->next_address) {
        connect_next(client);
    } else {
        snprintf(reason, sizeof reason, "the name %.200s is not found: %s", client->address.host,
                 uv_strerror(code));
        attempt_failed(client, reason);
    }
}

static void attempt_start(lh_h2_client *client) {
    if (client->closing || client->attempt || client->successor || client->is_resolving)
        return;
    uv_timer_stop(&client->retry);
    struct sockaddr_storage literal;
    if (lh_address_is_literal(&client->address, &literal)) {
        connect_to(client, (struct sockaddr *)&literal);
        return;
    }
    char port[8];
    snprintf(port, sizeof port, "%d", client->address.port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    client->resolving.data = client;
    int code = uv_getaddrinfo(client->loop, &client->resolving, on_resolved, client->address.host,
                              port, &hints);
    client->is_resolving = code == 0;
    if (code < 0)
        attempt_failed(client, uv_strerror(code));
}

/* ---- Opening and closing ---- */

lh_status lh_h2_client_create(uv_loop_t *loop, const char *address, const lh_tls_options *tls,
                              const lh_h2_limits *limits, lh_h2_on_client_state *on_state,
                              void *context, lh_h2_client **out, lh_error *error) {
    lh_h2_client *client = calloc(1, sizeof *client);
    if (!client)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    lh_status status = lh_address_parse(address, &client->address, error);
    if (status == LH_OK && tls)
        status = lh_tls_context_create(LH_TLS_CLIENT, tls, &client->tls, error);
    if (status != LH_OK) {
        free(client);
        return status;
    }
    client->loop = loop;
    client->limits = limits ? *limits : lh_h2_default_limits();
    client->on_state = on_state;
    client->context = context;
    client->retry_ms = RETRY_MS_MIN;
    snprintf(client->authority, sizeof client->authority, "%s", address);
    uv_timer_init(loop, &client->retry);
    client->retry.data = client;
    lh_h2_prober_open(&client->prober, loop, &client->limits);
    client->open_handles = 3;
    /* from the loop, so that nothing is told inside this call */
    uv_timer_start(&client->retry, on_retry, 0, 0);
    *out = client;
    return LH_OK;
}

static void on_handle_closed(uv_handle_t *handle) {
    lh_h2_client *client = handle->data;
    assert(client->open_handles > 0);
    client->open_handles--;
    release(client);
}

void lh_h2_client_close(lh_h2_client *client, void (*on_closed)(void *), void *context) {
    if (client->closing)
        return;
    client->closing = true;
    client->connected = false;
    client->on_closed = on_closed;
    client->closed_context = context;
    uv_close((uv_handle_t *)&client->retry, on_handle_closed);
    lh_h2_prober_close(&client->prober, on_handle_closed, client);
    if (client->is_resolving)
        uv_cancel((uv_req_t *)&client->resolving);
    for (lh_h2_transport *t = client->transports; t; t = t->next)
        lh_h2_transport_close(t, LH_ERR_CLOSED, "the client is closing");
}

/* ---- Use ---- */

bool lh_h2_client_is_connected(const lh_h2_client *client) {
    return client->current && !client->closing;
}

void lh_h2_client_read_link(const lh_h2_client *client, lh_h2_client_link *link) {
    const lh_h2_prober *prober = &client->prober;
    int64_t least_round_trip_us;
    *link = (lh_h2_client_link){.estimate = lh_link_meter_read(&prober->link.meter, lh_clock_us()),
                                .refused = client->refused && !client->current,
                                .ready_bytes =
                                    lh_h2_link_read_window(&prober->link, &least_round_trip_us),
                                .bytes_sent = client->bytes_sent,
                                .probe_bytes_sent = prober->total_bytes};
    for (const lh_h2_transport *t = client->transports; t; t = t->next)
        link->bytes_sent += t->output.bytes_sent;
}

void lh_h2_client_expect_bulk(lh_h2_client *client, bool is_expected) {
    if (!client->closing)
        lh_h2_prober_expect(&client->prober, is_expected);
}

/* Sees to it that ids do not run out. LH_ERR_BUSY: they nearly have, and the current connection
 * must become idle first. */
static lh_status renew_in_time(lh_h2_client *client, lh_error *error) {
    uint32_t soft = client->limits.renew_after,
             hard = soft < STREAM_IDS / 2 ? soft * 2 : STREAM_IDS - 1;
    if (client->submitted < soft)
        return LH_OK;
    renew_if_idle(client);
    if (!client->successor && client->submitted >= soft &&
        !uv_is_active((uv_handle_t *)&client->retry))
        uv_timer_start(&client->retry, on_retry, 0, 0);
    if (client->submitted >= hard)
        return lh_fail(error, LH_ERR_BUSY, "the connection to %.200s is being renewed",
                       client->authority);
    return LH_OK;
}

lh_status lh_h2_client_submit(lh_h2_client *client, const char *method, const char *path,
                              const lh_h2_header *extra, size_t extra_count, int send_class,
                              const lh_h2_stream_events *events, void *context,
                              lh_h2_stream **stream, lh_error *error) {
    if (!lh_h2_client_is_connected(client) || client->current->closing)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "not connected to %.200s: %.80s",
                       client->authority, client->reason);
    lh_status status = renew_in_time(client, error);
    if (status != LH_OK)
        return status;
    status = lh_h2_session_submit(client->current->session, method, path, extra, extra_count,
                                  send_class, events, context, stream, error);
    client->submitted += status == LH_OK;
    return status;
}
