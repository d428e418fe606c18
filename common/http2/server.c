/* The listening side: a socket and the connections that it took. */
#include "common/http2/server.h"

#include "common/base/log.h"
#include "common/http2/transport.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKLOG = 128 };

struct lh_h2_server {
    uv_loop_t *loop;
    lh_h2_limits limits;
    lh_h2_on_request *on_request;
    void *context;
    lh_tls_context *tls;
    uv_tcp_t listener;
    bool listening; /* the handle is not closed yet */
    int port;
    lh_h2_transport *transports;
    uint32_t transport_count;
    bool closing;
    void (*on_closed)(void *);
    void *closed_context;
};

static void release(lh_h2_server *server) {
    if (server->listening || server->transports)
        return;
    if (server->on_closed)
        server->on_closed(server->closed_context);
    lh_tls_context_destroy(server->tls);
    free(server);
}

/* ---- Connections ---- */

static void on_down(void *owner, lh_h2_transport *transport, lh_status status, const char *reason) {
    (void)owner;
    lh_log(status == LH_ERR_CLOSED ? LH_LOG_DEBUG : LH_LOG_WARN, "h2",
           "connection closed peer=%s reason=\"%s\"", transport->peer, reason);
}

static void on_released(void *owner, lh_h2_transport *transport) {
    (void)transport;
    lh_h2_server *server = owner;
    assert(server->transport_count > 0);
    server->transport_count--;
    if (server->closing)
        release(server);
}

static lh_h2_transport *add_transport(lh_h2_server *server) {
    lh_h2_transport_config config = {
        .loop = server->loop,
        .limits = &server->limits,
        .role = LH_H2_SERVER,
        .tls = server->tls,
        .on_request = server->on_request,
        .server_context = server->context,
        .on_down = on_down,
        .on_released = on_released,
        .owner = server,
        .list = &server->transports,
    };
    lh_h2_transport *transport;
    lh_error error;
    if (lh_h2_transport_create(&config, &transport, &error) != LH_OK) {
        lh_log(LH_LOG_ERROR, "h2", "cannot take a connection reason=\"%s\"", error.message);
        return NULL;
    }
    server->transport_count++;
    return transport;
}

static void on_refused_closed(uv_handle_t *handle) {
    free(handle);
}

/* A connection over the limit is taken and closed: it would wait in the backlog otherwise. */
static void refuse(lh_h2_server *server) {
    uv_tcp_t *tcp = malloc(sizeof *tcp);
    if (!tcp)
        return;
    uv_tcp_init(server->loop, tcp);
    uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)tcp);
    uv_close((uv_handle_t *)tcp, on_refused_closed);
}

static void on_connection(uv_stream_t *listener, int code) {
    lh_h2_server *server = listener->data;
    if (code < 0) {
        lh_log(LH_LOG_WARN, "h2", "accept failed reason=\"%s\"", uv_strerror(code));
        return;
    }
    lh_h2_transport *transport =
        server->transport_count < server->limits.connections_max ? add_transport(server) : NULL;
    if (transport)
        lh_h2_transport_accept(transport, listener);
    else
        refuse(server);
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

static void on_listener_closed(uv_handle_t *handle) {
    lh_h2_server *server = handle->data;
    server->listening = false;
    release(server);
}

static lh_status listen_on(lh_h2_server *server, const struct sockaddr_storage *address,
                           const char *text, lh_error *error) {
    uv_tcp_init(server->loop, &server->listener);
    server->listener.data = server;
    server->listening = true;
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
    if (tls)
        status = lh_tls_context_create(LH_TLS_SERVER, tls, &server->tls, error);
    if (status == LH_OK)
        status = listen_on(server, &target, listen, error);
    if (status == LH_OK)
        *out = server;
    else if (server->listening) /* freed when the loop runs */
        uv_close((uv_handle_t *)&server->listener, on_listener_closed);
    else
        release(server);
    return status;
}

int lh_h2_server_port(const lh_h2_server *server) {
    return server->port;
}

void lh_h2_server_close(lh_h2_server *server, void (*on_closed)(void *), void *context) {
    if (server->closing)
        return;
    server->closing = true;
    server->on_closed = on_closed;
    server->closed_context = context;
    uv_close((uv_handle_t *)&server->listener, on_listener_closed);
    for (lh_h2_transport *t = server->transports; t; t = t->next)
        lh_h2_transport_close(t, LH_ERR_CLOSED, "the server is closing");
}
