/* The listening side: a socket and the connections that it took.
 *
 * The loop on which it runs carries everybody's tokens, and anybody can reach the port. A handshake
 * of TLS costs the loop half a millisecond, and the one who begins it next to nothing; so strangers
 * could take all of its time. Therefore they have a share of it (time_share.h), and what exceeds
 * the share waits:
 *
 *     kernel's backlog --accept--> what it has said waits --turn--> ... --turn--> PROVEN
 *                                  (at most 4 KiB, in its place)                  reads at will
 *
 * A turn is the next step of a handshake, of the first bytes of HTTP/2, or of a request to join;
 * with each, one more connection is accepted. What that took is spent, and when nothing is left of
 * the share, those that come wait for a timer. Connections that have proven themselves are read at
 * once. Members that come while strangers flood the port wait among them, for a second or two where
 * as many come from the same address as there are places (connection_places.h says whose turn it
 * is).
 *
 * A thread of its own for handshakes would not need the waiting, but the share: on a machine whose
 * processors are busy with layers, what strangers make that thread do is taken from them. */
#include "common/http2/server.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"
#include "common/http2/time_share.h"
#include "common/http2/transport.h"
#include "common/net/connection_places.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BACKLOG = 128,
    /* The share of newcomers: 5 %, and 20 % in the clear, where libcurl cannot use a connection
     * twice: there each report of a worker is one. */
    PARTS = 20,
    PARTS_IN_THE_CLEAR = 5,
    /* A connection costs this much outside of its turns, as measured: libuv accepts it, writes to
     * it, and closes it. */
    UNSEEN_US = 100,
    /* A proven connection costs this much before its faults or floods end it (conduct.h). It is
     * charged to the share, so that a peer which connects again and again is slowed down. */
    FAULTS_US = 2000
};

struct lh_h2_server {
    uv_loop_t *loop;
    lh_h2_limits limits;
    lh_h2_on_request *on_request;
    void *context;
    lh_h2_on_request *on_enrolment; /* NULL: it enrols nobody */
    void *enrolment_context;
    lh_tls_context *tls;
    uv_tcp_t listener;
    uv_timer_t turns;
    int open_handles;
    bool is_connection_waiting; /* libuv has taken it from the backlog, and takes no more */
    int port;
    lh_h2_transport *transports;
    lh_connection_places places;
    lh_h2_time_share share; /* of those that have not proven themselves */
    lh_log_limit log_limit; /* of lines that strangers can cause */
    uint64_t accepted;      /* connections, so far */
    bool closing;
    void (*on_closed)(void *);
    void *closed_context;
};

/* The place comes first: the places name it by this. */
typedef struct connection {
    lh_connection_place place;
    bool has_place;
    lh_h2_server *server;
    lh_h2_transport *transport;
} connection;

static void release(lh_h2_server *server) {
    if (server->open_handles > 0 || server->transports)
        return;
    if (server->on_closed)
        server->on_closed(server->closed_context);
    lh_tls_context_destroy(server->tls);
    free(server);
}

static void warn(lh_h2_server *server, const char *message, const char *peer, const char *reason) {
    unsigned long long left_out;
    if (lh_log_limit_take(&server->log_limit, lh_clock_us(), &left_out))
        lh_log(LH_LOG_WARN, "h2", "%s peer=%s reason=\"%s\" left_out=%llu", message, peer, reason,
               left_out);
}

/* ---- Connections ---- */

static void leave_place(connection *c) {
    if (c->has_place)
        lh_connection_places_remove(&c->server->places, &c->place);
    c->has_place = false;
}

static void note_activity(lh_h2_server *server) {
    lh_connection_place *place;
    TAILQ_FOREACH(place, &server->places.new_list, links) {
        place->is_active = ((const connection *)place)->transport->heard;
    }
    TAILQ_FOREACH(place, &server->places.proven_list, links) {
        const lh_h2_transport *transport = ((const connection *)place)->transport;
        place->is_active = lh_h2_session_has_served(transport->session);
        place->is_busy = !transport->down && lh_h2_session_open_streams(transport->session) > 0;
    }
}

/* It has come, or proven itself: perhaps another has to go. */
static void make_room_for(connection *newcomer) {
    lh_h2_server *server = newcomer->server;
    note_activity(server);
    lh_connection_place *surplus = lh_connection_places_surplus(&server->places, &newcomer->place);
    if (!surplus)
        return;
    connection *c = (connection *)surplus;
    leave_place(c);
    if (c == newcomer)
        lh_h2_transport_close(c->transport, LH_ERR_LIMIT, "all places for connections are taken");
    else
        lh_h2_transport_abort(c->transport, LH_ERR_BUSY, "another connection has got its place");
}

static void give_turns(lh_h2_server *server);

static void on_wait(void *owner, lh_h2_transport *transport) {
    connection *c = owner;
    (void)transport;
    lh_connection_places_wait(&c->server->places, &c->place);
    give_turns(c->server);
}

static void on_ready(void *owner, lh_h2_transport *transport) {
    connection *c = owner;
    if (!c->has_place || transport->is_enrolling) /* anybody may come so far to enrol */
        return;
    lh_connection_places_prove(&c->server->places, &c->place);
    make_room_for(c);
}

static void on_down(void *owner, lh_h2_transport *transport, lh_status status, const char *reason) {
    connection *c = owner;
    if (c->place.is_proven && (status == LH_ERR_LIMIT || status == LH_ERR_PROTOCOL))
        lh_h2_time_share_spend(&c->server->share, FAULTS_US, lh_clock_us());
    if (status != LH_ERR_CLOSED)
        warn(c->server, "connection closed", transport->peer, reason);
    else
        lh_log(LH_LOG_DEBUG, "h2", "connection closed peer=%s reason=\"%s\"", transport->peer,
               reason);
}

static void on_released(void *owner, lh_h2_transport *transport) {
    (void)transport;
    connection *c = owner;
    lh_h2_server *server = c->server;
    leave_place(c);
    free(c);
    if (server->closing)
        release(server);
}

static connection *add_connection(lh_h2_server *server) {
    connection *c = calloc(1, sizeof *c);
    lh_h2_transport_config config = {
        .loop = server->loop,
        .limits = &server->limits,
        .role = LH_H2_SERVER,
        .tls = server->tls,
        .connection = ++server->accepted,
        .on_request = server->on_request,
        .server_context = server->context,
        .on_enrolment = server->on_enrolment,
        .enrolment_context = server->enrolment_context,
        .on_wait = on_wait,
        .on_ready = on_ready,
        .on_down = on_down,
        .on_released = on_released,
        .owner = c,
        .list = &server->transports,
    };
    lh_error error = {.message = "out of memory"};
    if (!c || lh_h2_transport_create(&config, &c->transport, &error) != LH_OK) {
        free(c);
        warn(server, "cannot take a connection", "", error.message);
        return NULL;
    }
    c->server = server;
    return c;
}

static void on_refused_closed(uv_handle_t *handle) {
    free(handle);
}

/* Without memory for it, it is taken and closed: it would wait in the backlog otherwise. */
static void refuse(lh_h2_server *server) {
    uv_tcp_t *tcp = malloc(sizeof *tcp);
    if (!tcp)
        return;
    uv_tcp_init(server->loop, tcp);
    uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)tcp);
    uv_close((uv_handle_t *)tcp, on_refused_closed);
}

static void take_connection(lh_h2_server *server) {
    server->is_connection_waiting = false;
    connection *c = add_connection(server);
    if (!c) {
        refuse(server);
        return;
    }
    lh_h2_transport_accept(c->transport, (uv_stream_t *)&server->listener);
    lh_connection_places_add(&server->places, &c->place, c->transport->address);
    c->has_place = true;
    make_room_for(c);
}

static void on_connection(uv_stream_t *listener, int code) {
    lh_h2_server *server = listener->data;
    if (code < 0) {
        warn(server, "accept failed", "", uv_strerror(code));
        return;
    }
    server->is_connection_waiting = true;
    give_turns(server);
}

/* ---- Turns ---- */

/* Deals with one connection that waits, and accepts one. False: none waits. */
static bool give_turn(lh_h2_server *server) {
    int64_t begin_us = lh_clock_thread_us();
    lh_connection_place *place = lh_connection_places_take_turn(&server->places);
    bool has_come = server->is_connection_waiting;
    if (place)
        lh_h2_transport_take_turn(((connection *)place)->transport);
    if (has_come)
        take_connection(server);
    int64_t spent_us = lh_clock_thread_us() - begin_us + (has_come ? UNSEEN_US : 0);
    lh_h2_time_share_spend(&server->share, spent_us, lh_clock_us());
    return place || has_come;
}

static void on_turn(uv_timer_t *timer) {
    give_turns(timer->data);
}

/* Gives turns as long as the share lasts, and starts the timer for those that are left. */
static void give_turns(lh_h2_server *server) {
    int64_t wait_us = 0;
    bool do_wait = true;
    while (do_wait && wait_us == 0) {
        wait_us = lh_h2_time_share_wait_us(&server->share, lh_clock_us());
        do_wait = wait_us > 0 || give_turn(server);
    }
    if (do_wait && !server->closing)
        uv_timer_start(&server->turns, on_turn, (uint64_t)(wait_us + 999) / 1000, 0);
}

/* ---- Opening and closing ---- */

/* A host by name is resolved here and now: this is for start-up. */
static lh_status resolve(uv_loop_t *loop, const lh_address *address,
                         struct sockaddr_storage *target, lh_error *error) {
    if (lh_address_is_literal(address, target))
        return LH_OK;
    uv_getaddrinfo_t request;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char port[8];
    snprintf(port, sizeof port, "%d", address->port);
    int code = uv_getaddrinfo(loop, &request, NULL, address->host, port, &hints);
    if (code < 0)
        return lh_fail(error, LH_ERR_INVALID, "cannot listen on %s: %s", address->host,
                       uv_strerror(code));
    memcpy(target, request.addrinfo->ai_addr, request.addrinfo->ai_addrlen);
    uv_freeaddrinfo(request.addrinfo);
    return LH_OK;
}

static void on_handle_closed(uv_handle_t *handle) {
    lh_h2_server *server = handle->data;
    server->open_handles--;
    release(server);
}

static void close_handles(lh_h2_server *server) {
    uv_close((uv_handle_t *)&server->listener, on_handle_closed);
    uv_close((uv_handle_t *)&server->turns, on_handle_closed);
}

static lh_status listen_on(lh_h2_server *server, const struct sockaddr_storage *address,
                           const char *text, lh_error *error) {
    uv_tcp_init(server->loop, &server->listener);
    uv_timer_init(server->loop, &server->turns);
    server->listener.data = server->turns.data = server;
    server->open_handles = 2;
    int code = uv_tcp_bind(&server->listener, (const struct sockaddr *)address, 0);
    if (code == 0)
        code = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
    struct sockaddr_storage bound = {0};
    int length = sizeof bound;
    if (code == 0)
        code = uv_tcp_getsockname(&server->listener, (struct sockaddr *)&bound, &length);
    if (code < 0)
        return lh_fail(error, LH_ERR_IO, "cannot listen on %s: %s", text, uv_strerror(code));
    server->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                     : ((struct sockaddr_in *)&bound)->sin_port);
    return LH_OK;
}

lh_status lh_h2_server_create(uv_loop_t *loop, const char *listen, const lh_tls_options *tls,
                              const lh_h2_limits *limits, lh_h2_on_request *on_request,
                              void *server_context, lh_h2_server **out, lh_error *error) {
    lh_address address;
    struct sockaddr_storage target;
    lh_status status = lh_address_parse(listen, &address, error);
    if (status == LH_OK)
        status = resolve(loop, &address, &target, error);
    if (status != LH_OK)
        return status;
    lh_h2_server *server = calloc(1, sizeof *server);
    if (!server)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    server->loop = loop;
    server->limits = limits ? *limits : lh_h2_default_limits();
    server->on_request = on_request;
    server->context = server_context;
    lh_h2_time_share_init(&server->share, tls ? PARTS : PARTS_IN_THE_CLEAR, lh_clock_us());
    lh_connection_places_init(&server->places, server->limits.new_connections_max,
                              server->limits.connections_max);
    if (tls)
        status = lh_tls_context_create(LH_TLS_SERVER, tls, &server->tls, error);
    if (status == LH_OK)
        status = listen_on(server, &target, listen, error);
    if (status == LH_OK)
        *out = server;
    else if (server->open_handles > 0) /* freed when the loop runs */
        close_handles(server);
    else
        release(server);
    return status;
}

void lh_h2_server_set_enrolment(lh_h2_server *server, lh_h2_on_request *on_request, void *context) {
    lh_tls_context_enrol(server->tls);
    server->on_enrolment = on_request;
    server->enrolment_context = context;
}

void lh_h2_server_drop_revoked(lh_h2_server *server) {
    for (lh_h2_transport *t = server->transports; t; t = t->next)
        if (t->tls && !lh_tls_channel_is_admitted(t->tls, server->tls))
            lh_h2_transport_close(t, LH_ERR_PROTOCOL, "the peer's certificate was revoked");
}

int lh_h2_server_port(const lh_h2_server *server) {
    return server->port;
}

bool lh_h2_server_has_connection(const lh_h2_server *server, uint64_t number) {
    const lh_h2_transport *t = server->transports;
    while (t && t->config.connection != number)
        t = t->next;
    return t && !t->closing;
}

void lh_h2_server_close(lh_h2_server *server, void (*on_closed)(void *), void *context) {
    if (server->closing)
        return;
    server->closing = true;
    server->on_closed = on_closed;
    server->closed_context = context;
    close_handles(server);
    for (lh_h2_transport *t = server->transports; t; t = t->next)
        lh_h2_transport_close(t, LH_ERR_CLOSED, "the server is closing");
}
