/* A connection's life: connect or accept, the handshake, reading, pumping, closing. */
#include "common/http2/transport.h"

#include "common/net/socket_options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PUMP_BYTES_MAX = 1 << 20, /* then others on the loop have their turn */
    LINGER_MS = 250,          /* for the peer to close after our last words */
    LINGER_BYTES_MAX = 64 << 10,
    ENROLMENT_MS_MAX = 10000, /* of a connection without a certificate */
    /* of one that waits for its turn, so that none takes long */
    TURN_BYTES_MAX = 4096
};

/* Of the first buffer: all before it is initialized. */
#define BUFFERS_OFFSET (offsetof(lh_h2_transport, output) + offsetof(lh_h2_output, bytes))

static void close_handles(lh_h2_transport *transport);
static void on_idle(uv_idle_t *idle);
static void on_tick(uv_timer_t *timer);

static void wake(void *context) {
    lh_h2_transport *transport = context;
    if (!transport->down)
        uv_idle_start(&transport->idle, on_idle);
}

void lh_h2_transport_close(lh_h2_transport *transport, lh_status status, const char *reason) {
    if (transport->closing)
        return;
    transport->closing = true;
    transport->close_status = status;
    snprintf(transport->close_reason, sizeof transport->close_reason, "%s", reason);
    wake(transport);
}

void lh_h2_transport_abort(lh_h2_transport *transport, lh_status status, const char *reason) {
    transport->is_curt = true;
    if (transport->down && !uv_is_closing((uv_handle_t *)&transport->tcp))
        close_handles(transport);
    lh_h2_transport_close(transport, status, reason);
}

static void close_uv(lh_h2_transport *transport, int code) {
    const char *reason = uv_strerror(code);
    if (code == UV_EOF && transport->ready)
        reason = "the peer closed the connection";
    else if (code == UV_EOF)
        reason = transport->tls
                     ? "the peer closed the connection in the TLS handshake"
                     : "the peer closed the connection before it spoke HTTP/2: does it expect TLS?";
    lh_h2_transport_close(transport,
                          code == UV_ETIMEDOUT      ? LH_ERR_TIMEOUT
                          : code == UV_ECONNREFUSED ? LH_ERR_UNAVAILABLE
                                                    : LH_ERR_CLOSED,
                          reason);
}

static void close_error(lh_h2_transport *transport, const lh_error *error) {
    lh_h2_transport_close(transport, error->status, error->message);
}

/* ---- The session's side ---- */

static void session_ping(lh_h2_transport *transport, uint64_t number) {
    lh_status status = lh_h2_session_ping(transport->session, number);
    if (status != LH_OK)
        lh_h2_transport_close(transport, status, lh_status_text(status));
}

static void on_session_settings(void *context) {
    lh_h2_transport *transport = context;
    if (transport->closing)
        return;
    transport->ready = true;
    uint64_t ping = lh_h2_liveness_start(&transport->liveness);
    if (ping)
        session_ping(transport, ping);
    if (transport->config.on_ready)
        transport->config.on_ready(transport->config.owner, transport);
}

static void on_session_ping_answer(void *context, uint64_t number) {
    lh_h2_transport *transport = context;
    int64_t sample_us = lh_h2_liveness_answered(&transport->liveness, number);
    if (sample_us && transport->config.on_round_trip && !transport->closing)
        transport->config.on_round_trip(transport->config.owner, transport, sample_us);
}

static void session_open(lh_h2_transport *transport) {
    static const lh_tls_identity nobody = {.kind = LH_TLS_NONE};
    const lh_h2_transport_config *config = &transport->config;
    transport->is_enrolling = transport->tls && config->role == LH_H2_SERVER &&
                              lh_tls_channel_is_enrolling(transport->tls);
    lh_h2_session_config session = {
        .role = config->role,
        .limits = config->limits,
        .peer = transport->peer,
        .connection = config->connection,
        .peer_identity = transport->tls ? lh_tls_channel_peer_identity(transport->tls) : &nobody,
        .on_request = transport->is_enrolling ? config->on_enrolment : config->on_request,
        .server_context =
            transport->is_enrolling ? config->enrolment_context : config->server_context,
        .authority = config->authority,
        .scheme = transport->tls ? "https" : "http",
        .on_wake = wake,
        .on_settings = on_session_settings,
        .on_ping_answer = on_session_ping_answer,
        .context = transport,
    };
    lh_error error;
    if (lh_h2_session_create(&session, &transport->session, &error) != LH_OK)
        close_error(transport, &error);
    wake(transport);
}

/* ---- Reading ---- */

static lh_status receive_sealed(lh_h2_transport *transport, const uint8_t *bytes, size_t length,
                                lh_error *error) {
    lh_status status = lh_tls_channel_receive(transport->tls, bytes, length, error);
    if (status == LH_OK && !transport->session && lh_tls_channel_is_open(transport->tls))
        session_open(transport);
    while (status == LH_OK && transport->session && !transport->closing) {
        size_t plain_length;
        status = lh_tls_channel_read(transport->tls, transport->plain, sizeof transport->plain,
                                     &plain_length, error);
        if (status == LH_OK && plain_length == 0)
            break;
        if (status == LH_OK)
            status =
                lh_h2_session_receive(transport->session, transport->plain, plain_length, error);
    }
    return status;
}

static bool must_wait(const lh_h2_transport *transport) {
    return transport->config.on_wait && (!transport->ready || transport->is_enrolling);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)suggested;
    lh_h2_transport *transport = handle->data;
    *buffer = uv_buf_init((char *)transport->input,
                          must_wait(transport) ? TURN_BYTES_MAX : sizeof transport->input);
}

static void take(lh_h2_transport *transport, size_t length) {
    lh_error error;
    lh_status status = transport->tls ? receive_sealed(transport, transport->input, length, &error)
                                      : lh_h2_session_receive(transport->session, transport->input,
                                                              length, &error);
    if (status != LH_OK)
        close_error(transport, &error);
    wake(transport);
}

/* Discards what the peer sends after our GOAWAY, and stops reading after LINGER_BYTES_MAX: a peer
 * that never stops sending would cost us time for ever. */
static void on_read_when_down(lh_h2_transport *transport, ssize_t length) {
    if (length < 0) {
        close_handles(transport);
        return;
    }
    transport->lingered_bytes += (size_t)length;
    if (transport->lingered_bytes > LINGER_BYTES_MAX)
        uv_read_stop((uv_stream_t *)&transport->tcp);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer) {
    lh_h2_transport *transport = stream->data;
    (void)buffer; /* it is the input */
    if (length != 0 && transport->down) {
        on_read_when_down(transport, length);
        return;
    }
    if (transport->closing || length == 0)
        return;
    if (length < 0) {
        transport->peer_closed = true;
        close_uv(transport, (int)length);
        return;
    }
    transport->heard = true;
    lh_h2_liveness_heard(&transport->liveness);
    if (!must_wait(transport)) {
        take(transport, (size_t)length);
        return;
    }
    uv_read_stop(stream);
    transport->waiting_bytes = (size_t)length;
    transport->config.on_wait(transport->config.owner, transport);
}

void lh_h2_transport_take_turn(lh_h2_transport *transport) {
    size_t length = transport->waiting_bytes;
    transport->waiting_bytes = 0;
    if (transport->closing)
        return;
    assert(length > 0);
    uv_read_start((uv_stream_t *)&transport->tcp, on_alloc, on_read);
    take(transport, length);
}

/* ---- Writing ---- */

static void take_sealed(lh_h2_transport *transport) {
    lh_h2_output *output = &transport->output;
    output->used += lh_tls_channel_take(transport->tls, output->bytes + output->used,
                                        LH_H2_OUTPUT_BYTES_MAX - output->used);
}

/* Fills the empty output. A failing session may leave some last words in it. */
static lh_status gather(lh_h2_transport *transport, lh_error *error) {
    lh_h2_output *output = &transport->output;
    size_t length;
    output->used = 0;
    if (!transport->tls)
        return lh_h2_session_pull(transport->session, output->bytes, output->limit, &output->used,
                                  error);
    take_sealed(transport);
    if (output->used || !transport->session)
        return LH_OK;
    lh_status status =
        lh_h2_session_pull(transport->session, transport->plain, output->limit, &length, error);
    if (length) {
        lh_status sealed = lh_tls_channel_write(transport->tls, transport->plain, length, error);
        status = status == LH_OK ? sealed : status;
        take_sealed(transport);
    }
    return status;
}

static void on_written(lh_h2_output *output, int code) {
    lh_h2_transport *transport = output->context;
    lh_h2_liveness_written(&transport->liveness);
    if (code < 0)
        close_uv(transport, code);
    wake(transport);
}

static void pump(lh_h2_transport *transport) {
    lh_h2_output *output = &transport->output;
    transport->dry = false;
    for (size_t pumped = 0; !output->writing && !transport->closing; pumped += output->used) {
        lh_error error;
        if (pumped >= PUMP_BYTES_MAX) {
            wake(transport);
            return;
        }
        if (lh_h2_output_is_full(output))
            return;
        if (gather(transport, &error) != LH_OK)
            close_error(transport, &error);
        transport->dry = output->used == 0;
        if (transport->dry)
            return;
        int code = lh_h2_output_flush(output);
        if (code < 0)
            close_uv(transport, code);
    }
}

/* ---- Closing ---- */

static void on_handle_closed(uv_handle_t *handle) {
    lh_h2_transport *transport = handle->data;
    assert(transport->open_handles > 0 && transport->down);
    if (--transport->open_handles > 0)
        return;
    if (transport->session)
        lh_h2_session_destroy(transport->session);
    lh_tls_channel_destroy(transport->tls);
    lh_h2_transport **link = transport->config.list;
    while (*link != transport)
        link = &(*link)->next;
    *link = transport->next;
    transport->config.on_released(transport->config.owner, transport);
    free(transport);
}

static void close_handles(lh_h2_transport *transport) {
    assert(!uv_is_closing((uv_handle_t *)&transport->tcp));
    uv_close((uv_handle_t *)&transport->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&transport->timer, on_handle_closed);
    uv_close((uv_handle_t *)&transport->output.drain, on_handle_closed);
    uv_close((uv_handle_t *)&transport->idle, on_handle_closed);
}

/* GOAWAY and the TLS alert. False when the kernel does not take all at once. */
static bool say_goodbye(lh_h2_transport *transport) {
    lh_h2_output *output = &transport->output;
    if (output->writing || transport->peer_closed ||
        !uv_is_writable((uv_stream_t *)&transport->tcp))
        return false;
    if (transport->session) {
        lh_h2_session_shut_down(transport->session);
        gather(transport, NULL);
        if (!lh_h2_output_try(output))
            return false;
    }
    if (!transport->tls)
        return true;
    lh_tls_channel_shut_down(transport->tls);
    output->used = 0;
    take_sealed(transport);
    return lh_h2_output_try(output);
}

static void on_lingered(uv_timer_t *timer) {
    close_handles(timer->data);
}

/* A socket closed with unread bytes in it sends a reset, which may destroy our last words at the
 * peer: so say that nothing follows, and read on for a moment. */
static bool linger(lh_h2_transport *transport) {
    if (transport->close_status == LH_ERR_TIMEOUT || transport->is_curt ||
        shutdown(lh_h2_output_descriptor(&transport->output), SHUT_WR) != 0)
        return false;
    uv_read_start((uv_stream_t *)&transport->tcp, on_alloc, on_read); /* for the end of it */
    uv_timer_start(&transport->timer, on_lingered, LINGER_MS, 0);
    return true;
}

static void go_down(lh_h2_transport *transport) {
    assert(transport->closing && !transport->down);
    transport->down = true;
    bool said = say_goodbye(transport);
    if (transport->session)
        lh_h2_session_fail(transport->session, transport->close_status);
    transport->config.on_down(transport->config.owner, transport, transport->close_status,
                              transport->close_reason);
    if (!said || !linger(transport))
        close_handles(transport);
}

static void on_idle(uv_idle_t *idle) {
    lh_h2_transport *transport = idle->data;
    uv_idle_stop(idle);
    pump(transport);
    lh_error error;
    if (!transport->closing && transport->session &&
        lh_h2_session_is_done(transport->session, &error))
        close_error(transport, &error);
    if (!transport->closing && transport->config.on_change)
        transport->config.on_change(transport->config.owner, transport);
    if (transport->closing && !transport->down)
        go_down(transport);
}

/* ---- Time ---- */

static void on_tick(uv_timer_t *timer) {
    lh_h2_transport *transport = timer->data;
    if (transport->closing)
        return;
    if (transport->session)
        lh_h2_session_note_time(transport->session, (uint64_t)transport->liveness.tick_ms);
    lh_h2_activity activity = {
        .ready = transport->ready,
        .writing = transport->output.writing,
        .mid_headers = transport->session && lh_h2_session_is_mid_headers(transport->session),
        .watched = transport->config.role == LH_H2_CLIENT ||
                   (transport->session && lh_h2_session_open_streams(transport->session) > 0),
    };
    lh_error error;
    uint64_t ping;
    lh_status status = lh_h2_liveness_tick(&transport->liveness, &activity, &ping, &error);
    transport->enrolment_ms += transport->is_enrolling ? transport->liveness.tick_ms : 0;
    if (status == LH_OK && transport->enrolment_ms >= ENROLMENT_MS_MAX)
        status = lh_fail(&error, LH_ERR_TIMEOUT, "a connection for joining lives for 10 s");
    if (status != LH_OK)
        close_error(transport, &error);
    else if (ping)
        session_ping(transport, ping);
}

/* ---- Opening ---- */

static void init_handles(lh_h2_transport *transport) {
    uv_tcp_init(transport->config.loop, &transport->tcp);
    uv_timer_init(transport->config.loop, &transport->timer);
    lh_h2_output_init(&transport->output, (uv_stream_t *)&transport->tcp, on_written, transport);
    uv_idle_init(transport->config.loop, &transport->idle);
    transport->tcp.data = transport->timer.data = transport->idle.data = transport;
    transport->connect.data = transport;
    transport->open_handles = 4;
    uint64_t tick_ms = (uint64_t)transport->liveness.tick_ms;
    uv_timer_start(&transport->timer, on_tick, tick_ms, tick_ms);
}

lh_status lh_h2_transport_create(const lh_h2_transport_config *config, lh_h2_transport **out,
                                 lh_error *error) {
    lh_h2_transport *transport = malloc(sizeof *transport);
    if (!transport)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    memset(transport, 0, BUFFERS_OFFSET); /* a connection that says nothing costs no buffers */
    transport->config = *config;
    lh_h2_liveness_init(&transport->liveness, config->limits);
    if (config->tls) {
        lh_status status = lh_tls_channel_create(config->tls, config->host, &transport->tls, error);
        if (status != LH_OK) {
            free(transport);
            return status;
        }
    }
    init_handles(transport);
    transport->next = *config->list;
    *config->list = transport;
    *out = transport;
    return LH_OK;
}

/* TCP stands. */
static void begin(lh_h2_transport *transport) {
    struct sockaddr_storage address = {0};
    const lh_h2_limits *limits = transport->config.limits;
    int length = sizeof address;
    lh_error error;
    int code = uv_tcp_getpeername(&transport->tcp, (struct sockaddr *)&address, &length);
    if (code == 0 &&
        lh_socket_set_options(lh_h2_output_descriptor(&transport->output), limits->dead_after_ms,
                              limits->congestion_control, &error) != LH_OK) {
        close_error(transport, &error);
        return;
    }
    if (code == 0)
        code = uv_read_start((uv_stream_t *)&transport->tcp, on_alloc, on_read);
    if (code < 0) {
        close_uv(transport, code);
        return;
    }
    lh_address_render((struct sockaddr *)&address, transport->peer);
    transport->address = lh_address_key((struct sockaddr *)&address);
    if (!transport->tls)
        session_open(transport);
    wake(transport);
}

void lh_h2_transport_accept(lh_h2_transport *transport, uv_stream_t *listener) {
    int code = uv_accept(listener, (uv_stream_t *)&transport->tcp);
    if (code < 0)
        close_uv(transport, code);
    else
        begin(transport);
}

static void on_connected(uv_connect_t *connect, int code) {
    lh_h2_transport *transport = connect->data;
    if (transport->closing)
        return;
    if (code < 0)
        close_uv(transport, code);
    else
        begin(transport);
}

void lh_h2_transport_connect(lh_h2_transport *transport, const struct sockaddr *address) {
    int code = uv_tcp_connect(&transport->connect, &transport->tcp, address, on_connected);
    if (code < 0)
        close_uv(transport, code);
}
