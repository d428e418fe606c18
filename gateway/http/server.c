/* libmicrohttpd's callbacks. What the library answers by itself stays as it is, in HTML: a request
 * line or header that it cannot parse (400), headers that do not fit into its memory (414, 431), a
 * malformed chunk (400), a chunk's line that does not fit either (500, though the client is to
 * blame), an HTTP version that it does not know (505). It offers no way to replace those. All else
 * is answered through the handler.
 *
 * Two things are hidden from here until the library is newer. The head of its answer to a
 * Content-Length that is no number comes twice, since 0.9.75 goes on to its next state after it has
 * queued a refusal; 1.0 looks first. And a bare line feed ends a chunk's line: no callback sees
 * those lines. 1.0 refuses it with MHD_OPTION_CLIENT_DISCIPLINE_LVL at 1. Neither lets anything
 * through: the connection is closed behind each refusal, and behind every body in chunks. */
#include "gateway/http/server.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_limit.h"
#include "common/net/address.h"
#include "common/net/allowed_hosts.h"
#include "common/net/listener.h"
#include "gateway/http/connection.h"
#include "gateway/http/connection_table.h"
#include "gateway/http/handshake_limits.h"
#include "gateway/http/header_block.h"
#include "gateway/http/response.h"
#include "gateway/http/tls_certificate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEADER_BYTES_MAX (32u << 10)
/* The only version whose header block lies in memory as header_block.h expects; Debian 12 has
 * it. */
#define PARSED_IN_PLACE_VERSION "0.9.75"

struct lh_http_server {
    /* Connections point to it. */
    lh_http_surroundings around;
    struct MHD_Daemon *daemon;
    uint16_t port;
    bool check_block;
    lh_allowed_hosts hosts;

    lh_connection_table connections;
    pthread_mutex_t handshakes_mutex; /* guards the next, and is used with TLS alone */
    lh_handshake_limits handshakes;
    lh_log_limit handshakes_log;
};

lh_http_config lh_http_config_default(void) {
    return (lh_http_config){.threads = 4,
                            .connections = 4096,
                            .header_deadline_ms = 10000,
                            .body_deadline_ms = 30000,
                            .idle_deadline_ms = 60000,
                            .stall_deadline_ms = 30000,
                            .body_bytes_max = 8u << 20,
                            .bodies_bytes_max = 256u << 20,
                            .answers_bytes_max = 256u << 20};
}

/* ---- Connections. ---- */

/* With TLS, before anything is done for a connection. */
static enum MHD_Result on_accept(void *context, const struct sockaddr *peer, socklen_t length) {
    lh_http_server *server = context;
    int64_t now_us = lh_clock_us();
    unsigned long long left_out;
    (void)length;
    pthread_mutex_lock(&server->handshakes_mutex);
    bool begins = lh_handshake_limits_begin(&server->handshakes, lh_address_key(peer), now_us);
    pthread_mutex_unlock(&server->handshakes_mutex);
    if (!begins && lh_log_limit_take(&server->handshakes_log, now_us, &left_out)) {
        char text[LH_ADDRESS_TEXT_BYTES];
        lh_address_render(peer, text);
        lh_log(LH_LOG_WARN, "api",
               "too many TLS handshakes without a request: closed peer=%s left_out=%llu", text,
               left_out);
    }
    return begins ? MHD_YES : MHD_NO;
}

/* The first request of a connection has come. */
static void note_handshake(lh_http_server *server, const lh_http_exchange *exchange) {
    pthread_mutex_lock(&server->handshakes_mutex);
    lh_handshake_limits_complete(&server->handshakes, exchange->address, exchange->client,
                                 lh_clock_us());
    pthread_mutex_unlock(&server->handshakes_mutex);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
    lh_http_server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        lh_http_exchange *connection = lh_http_connection_create(&server->around, mhd, fd);
        *socket_context = connection;
        if (!connection)
            shutdown(fd, SHUT_RDWR);
        else if (!lh_connection_table_add(&server->connections, connection))
            lh_http_connection_refuse(connection, 0, NULL);
    } else if (*socket_context) {
        lh_connection_table_remove(&server->connections, *socket_context);
        lh_http_connection_destroy(*socket_context);
    }
}

static void *on_target(void *context, const char *target, struct MHD_Connection *mhd) {
    (void)context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    lh_http_exchange *exchange = info->socket_context;
    if (exchange && lh_http_connection_begin(exchange, target ? target : "")) {
        lh_http_connection_finish(exchange, false);
        return NULL;
    }
    return exchange;
}

/* Paths stay as they came: what is routed and authorised is what the client sent. */
static size_t on_unescape(void *context, struct MHD_Connection *mhd, char *text) {
    (void)context;
    (void)mhd;
    return strlen(text);
}

/* Before the body: the library takes an early answer, and closes the connection behind it. */
static enum MHD_Result refuse_early(lh_http_exchange *exchange, unsigned status,
                                    const char *message) {
    lh_http_reply reply = {.status = status, .close = true};
    exchange->around->handler.on_refusal(exchange->state, status, message, &reply);
    return lh_http_response_queue(exchange, &reply);
}

/* ---- A request comes in. ---- */

typedef struct gathering {
    lh_http_exchange *exchange;
    lh_http_header_block block;
    bool too_many;
} gathering;

static enum MHD_Result on_header(void *context, enum MHD_ValueKind kind, const char *name,
                                 size_t name_bytes, const char *value, size_t value_bytes) {
    (void)kind;
    gathering *all = context;
    size_t index = all->block.header_count;
    all->too_many = index == LH_HTTP_HEADERS_MAX;
    if (all->too_many)
        return MHD_NO;
    all->exchange->headers[index] = (lh_http_header){name, value ? value : ""};
    all->block.names[index] = (lh_http_piece){name, name_bytes};
    all->block.values[index] = (lh_http_piece){value ? value : "", value_bytes};
    all->block.header_count++;
    return MHD_YES;
}

/* Reads the headers into exchange->request. Returns 0, or the status of the refusal. */
static unsigned gather_headers(lh_http_server *server, lh_http_exchange *exchange,
                               const char *method, const char *version, lh_error *error) {
    gathering all = {.exchange = exchange,
                     .block = {.start = method,
                               .target = {exchange->wire_target, exchange->wire_target_bytes},
                               .version = {version, strlen(version)}}};
    MHD_get_connection_values_n(exchange->mhd, MHD_HEADER_KIND, on_header, &all);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    exchange->request.method = method;
    exchange->request.version = version;
    exchange->request.headers = exchange->headers;
    exchange->request.header_count = all.block.header_count;
    /* A long target is no header: it has its own status. */
    if (all.too_many || !info ||
        info->header_size > HEADER_BYTES_MAX + exchange->wire_target_bytes) {
        lh_fail(error, LH_ERR_LIMIT, "The headers are more than 100, or longer than 32 KiB.");
        return 431;
    }
    all.block.bytes = info->header_size;
    unsigned status = lh_http_request_check(&exchange->request, error);
    if (!status && server->check_block && !lh_http_header_block_is_plain(&all.block)) {
        lh_fail(error, LH_ERR_MALFORMED,
                "The headers hold a NUL, a folded line or a line that ends without CR.");
        return 400;
    }
    return status;
}

/* As gather_headers: whether the request is for this server at all. */
static unsigned check_host(const lh_http_server *server, const lh_http_request *request,
                           lh_error *error) {
    const char *host = lh_http_request_header(request, "Host");
    if (lh_allowed_hosts_permit(&server->hosts, host))
        return 0;
    lh_fail(error, LH_ERR_INVALID,
            "This request is for \"%.100s\". The server answers for localhost, and for the names "
            "that it is given with --allowed-hosts.",
            host);
    return 421;
}

static enum MHD_Result take_headers(lh_http_server *server, lh_http_exchange *exchange,
                                    const char *method, const char *version) {
    const lh_http_config *config = &server->around.config;
    const lh_http_handler *handler = &server->around.handler;
    exchange->headers_taken = true;
    lh_error error;
    unsigned status = gather_headers(server, exchange, method, version, &error);
    if (!status)
        status = check_host(server, &exchange->request, &error);
    if (!lh_http_connection_enter(exchange, LH_HTTP_PHASE_BODY, config->body_deadline_ms))
        return MHD_NO;
    lh_connection_table_wait(&server->connections, exchange, LH_HTTP_WAITS_TO_SEND);
    if (status)
        return refuse_early(exchange, status, error.message);
    if (exchange->request.announced_bytes > config->body_bytes_max)
        return refuse_early(exchange, 413, "The request's body is too large.");
    lh_http_reply reply = {0};
    void *state = NULL;
    bool goes_on =
        handler->on_headers(handler->context, exchange, &exchange->request, &reply, &state);
    exchange->state = state;
    if (exchange->client)
        lh_connection_table_know(&server->connections, exchange);
    if (config->tls && !exchange->served_before)
        note_handshake(server, exchange);
    reply.close = true;
    return goes_on ? MHD_YES : lh_http_response_queue(exchange, &reply);
}

static enum MHD_Result take_body(lh_http_exchange *exchange, const char *bytes, size_t *length) {
    if (*length > exchange->around->config.body_bytes_max - exchange->body_bytes) {
        /* Only a chunked body comes to this; in its midst the library takes no answer. */
        lh_http_connection_refuse(exchange, 413, "The request's body is too large.");
        return MHD_NO;
    }
    lh_status status = lh_http_connection_grow_body(exchange, *length);
    if (status == LH_ERR_LIMIT)
        lh_http_connection_refuse(exchange, 503,
                                  "The server has too many large requests coming in.");
    if (status)
        return MHD_NO;
    memcpy(exchange->body + exchange->body_bytes, bytes, *length);
    exchange->body_bytes += *length;
    *length = 0;
    return MHD_YES;
}

static enum MHD_Result take_request(lh_http_server *server, lh_http_exchange *exchange) {
    exchange->request.body = exchange->body ? exchange->body : "";
    exchange->request.body_bytes = exchange->body_bytes;
    lh_http_connection_complete_body(exchange);
    if (!lh_http_connection_enter(exchange, LH_HTTP_PHASE_ANSWER, 0))
        return MHD_NO;
    exchange->request_taken = lh_connection_table_begin(&server->connections, exchange);
    if (!exchange->request_taken)
        return MHD_NO;
    lh_http_reply reply = {0};
    lh_http_progress progress =
        server->around.handler.on_request(exchange->state, &exchange->request, &reply);
    /* an answer may take minutes, and the body be megabytes */
    lh_http_connection_drop_body(exchange);
    return lh_http_response_proceed(exchange, progress, &reply);
}

static enum MHD_Result on_access(void *context, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *upload,
                                 size_t *upload_bytes, void **exchange_context) {
    (void)mhd;
    (void)url; /* the target was taken before the library cut it up */
    lh_http_server *server = context;
    lh_http_exchange *exchange = *exchange_context;
    if (!exchange)
        return MHD_NO;
    if (!exchange->headers_taken)
        return take_headers(server, exchange, method, version);
    if (*upload_bytes)
        return take_body(exchange, upload, upload_bytes);
    if (!exchange->request_taken)
        return take_request(server, exchange);
    if (lh_http_connection_is_gone(exchange))
        return MHD_NO;
    lh_http_reply reply = {0};
    return lh_http_response_proceed(
        exchange, server->around.handler.on_wake(exchange->state, &reply), &reply);
}

/* The library has answered by itself. */
static void note_library_status(lh_http_exchange *exchange) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    pthread_mutex_lock(&exchange->mutex);
    if (!exchange->status && info) {
        exchange->status = info->http_status;
        exchange->broken = true;
    }
    pthread_mutex_unlock(&exchange->mutex);
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **exchange_context,
                         enum MHD_RequestTerminationCode code) {
    lh_http_server *server = context;
    lh_http_exchange *exchange = *exchange_context;
    if (!exchange)
        return;
    bool was_active = exchange->request_taken;
    note_library_status(exchange);
    MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                              0); /* the monitor's deadlines again */
    lh_http_connection_finish(exchange, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    lh_connection_table_wait(&server->connections, exchange, LH_HTTP_RESTS);
    *exchange_context = NULL;
    if (was_active)
        lh_connection_table_end(&server->connections);
}

/* ---- The server. ---- */

static struct MHD_Daemon *start_daemon(lh_http_server *server, int fd) {
    const lh_http_config *config = &server->around.config;
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)lh_http_tls_show},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, LH_HTTP_TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    return MHD_start_daemon(
        config->tls ? flags | MHD_USE_TLS : flags, 0, config->tls ? on_accept : NULL, server,
        on_access, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE,
        config->threads, MHD_OPTION_CONNECTION_LIMIT, config->connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LH_HTTP_CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_URI_LOG_CALLBACK, on_target,
        server, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, server, MHD_OPTION_ARRAY,
        config->tls ? tls : plain, MHD_OPTION_END);
}

static lh_status init_around(lh_http_server *server, const lh_http_config *config,
                             const lh_http_handler *handler, lh_error *error) {
    lh_http_surroundings *around = &server->around;
    *around = (lh_http_surroundings){
        .config = *config, .handler = *handler, .table = &server->connections};
    lh_status status =
        lh_body_memory_init(&around->bodies, config->bodies_bytes_max, config->connections, error);
    if (status)
        return status;
    status = lh_body_memory_init(&around->answers, config->answers_bytes_max, config->connections,
                                 error);
    if (status)
        goto fail_after_bodies;
    status = lh_connection_table_init(&server->connections, config->connections,
                                      config->connections_per_address, error);
    if (status)
        goto fail_after_answers;
    pthread_mutex_init(&around->bodies_mutex, NULL);
    pthread_mutex_init(&server->handshakes_mutex, NULL);
    return LH_OK;
fail_after_answers:
    lh_body_memory_reset(&around->answers);
fail_after_bodies:
    lh_body_memory_reset(&around->bodies);
    return status;
}

static void reset_around(lh_http_server *server) {
    lh_connection_table_reset(&server->connections);
    lh_body_memory_reset(&server->around.bodies);
    lh_body_memory_reset(&server->around.answers);
    pthread_mutex_destroy(&server->around.bodies_mutex);
    pthread_mutex_destroy(&server->handshakes_mutex);
}

lh_status lh_http_server_create(const lh_http_config *config, const lh_http_handler *handler,
                                lh_http_server **out, lh_error *error) {
    lh_http_server *server = calloc(1, sizeof *server);
    if (!server)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the HTTP server");
    lh_status status = init_around(server, config, handler, error);
    if (status) {
        free(server);
        return status;
    }
    server->check_block = strcmp(MHD_get_version(), PARSED_IN_PLACE_VERSION) == 0;
    int fd;
    status = lh_listener_open(config->listen, &fd, &server->port, error);
    if (status)
        goto fail_after_around;
    status = lh_allowed_hosts_parse(config->allowed_hosts, lh_listener_is_loopback(fd),
                                    &server->hosts, error);
    if (status)
        goto fail_after_listener;
    status = lh_socket_monitor_create(&server->around.monitor, error);
    if (status)
        goto fail_after_listener;
    server->daemon = start_daemon(server, fd);
    if (!server->daemon) {
        status = lh_fail(error, LH_ERR_IO, "libmicrohttpd cannot serve %s", config->listen);
        goto fail_after_monitor;
    }
    *out = server;
    return LH_OK;
fail_after_monitor:
    lh_socket_monitor_destroy(server->around.monitor);
fail_after_listener:
    close(fd);
fail_after_around:
    reset_around(server);
    free(server);
    return status;
}

void lh_http_server_destroy(lh_http_server *server) {
    if (!server)
        return;
    /* MHD_quiesce_daemon would end the process where a thread of 0.9.75 wakes at the wrong moment:
     * both take the listener from the thread's epoll set, and the second to come panics. Who
     * connects from here on is not answered, and closed with the rest. */
    lh_connection_table_close(&server->connections);
    MHD_stop_daemon(server->daemon); /* closes the listener */
    lh_socket_monitor_destroy(server->around.monitor);
    reset_around(server);
    free(server);
}

bool lh_http_exchange_is_crowded(const lh_http_exchange *exchange) {
    return lh_connection_table_is_crowded(exchange->around->table, exchange);
}

uint16_t lh_http_server_port(const lh_http_server *server) {
    return server->port;
}

uint32_t lh_http_server_active(const lh_http_server *server) {
    return lh_connection_table_active(&((lh_http_server *)server)->connections);
}
