/* libmicrohttpd with one thread. */
#include "common/operator/operator_port.h"

#include "common/base/log.h"
#include "common/net/address.h"
#include "common/net/allowed_hosts.h"
#include "common/net/listener.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Scrapers and probes: two or three at a time. */
#define CONNECTIONS_MAX    64u
#define SILENCE_S          15u
#define CONNECTION_MEMORY  ((size_t)16 << 10)
#define PAGES_LISTED_BYTES 512

struct lh_operator_port {
    lh_operator_port_options options;
    struct MHD_Daemon *daemon;
    uint16_t number;
    lh_allowed_hosts hosts;
};

/* ---- Answers ---- */

/* Takes the body. */
static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status,
                               const char *content_type, lh_text_buffer *body) {
    struct MHD_Response *response = MHD_create_response_from_buffer(
        body->length, body->bytes, body->bytes ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!response) {
        lh_text_buffer_reset(body);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
                              const char *message) {
    lh_text_buffer body = {0};
    lh_text_buffer_append(&body, message, strlen(message), NULL);
    return respond(connection, status, "text/plain; charset=utf-8", &body);
}

static enum MHD_Result refuse_path(const lh_operator_port *port,
                                   struct MHD_Connection *connection) {
    char message[PAGES_LISTED_BYTES];
    int length = snprintf(message, sizeof message, "There is no such page here. There are:");
    for (size_t i = 0; i < port->options.page_count; i++)
        if ((size_t)length < sizeof message)
            length += snprintf(message + length, sizeof message - (size_t)length, " %s",
                               port->options.pages[i].path);
    if ((size_t)length < sizeof message)
        snprintf(message + length, sizeof message - (size_t)length, "\n");
    return refuse(connection, MHD_HTTP_NOT_FOUND, message);
}

static enum MHD_Result show(const lh_operator_port *port, struct MHD_Connection *connection,
                            const char *path) {
    for (size_t i = 0; i < port->options.page_count; i++) {
        const lh_operator_page *page = &port->options.pages[i];
        if (strcmp(page->path, path) != 0)
            continue;
        lh_text_buffer body = {0};
        unsigned status = page->render(page->context, &body);
        return respond(connection, status, page->content_type, &body);
    }
    return refuse_path(port, connection);
}

/* ---- Requests ---- */

static bool is_permitted(const lh_operator_port *port, struct MHD_Connection *connection) {
    return lh_allowed_hosts_permit(
        &port->hosts,
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST));
}

/* The first call of a request brings its headers; only a second one may be answered and leave the
 * connection open. */
static enum MHD_Result on_access(void *context, struct MHD_Connection *connection, const char *path,
                                 const char *method, const char *version, const char *upload,
                                 size_t *upload_bytes, void **state) {
    static int begun;
    const lh_operator_port *port = context;
    (void)version;
    (void)upload;
    if (*upload_bytes)
        return MHD_NO; /* no page takes a body: the connection is closed */
    if (!*state) {
        *state = &begun;
        return MHD_YES;
    }
    if (!is_permitted(port, connection))
        return refuse(connection, MHD_HTTP_MISDIRECTED_REQUEST,
                      "This port answers for localhost, and for the address that it listens on.\n");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Allowed are GET and HEAD.\n");
    return show(port, connection, path);
}

/* ---- Life ---- */

const char *lh_operator_port_address(const char *listen, const char *usual) {
    return strcmp(listen, "off") == 0 ? "" : listen[0] ? listen : usual;
}

lh_status lh_operator_port_check(const char *listen, lh_error *error) {
    lh_address address;
    lh_error cause;
    const char *given = lh_operator_port_address(listen, "");
    if (!given[0] || lh_address_parse(given, &address, &cause) == LH_OK)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "--metrics-listen: %.240s; \"off\" is for no such port",
                   cause.message);
}

/* Only who has asked for an address insists on it. */
static lh_status listen_on(const lh_operator_port_options *options, int *fd, uint16_t *number,
                           lh_error *error) {
    lh_error cause;
    *fd = -1;
    const char *address = lh_operator_port_address(options->listen, options->usual);
    if (!address[0])
        return LH_OK;
    lh_status status = lh_listener_open(address, fd, number, &cause);
    if (status != LH_OK && options->listen[0])
        return lh_fail(error, status, "--metrics-listen: %.290s", cause.message);
    if (status != LH_OK) {
        lh_log(LH_LOG_INFO, "operator",
               "there are no metrics: %s; --metrics-listen gives them another port", cause.message);
        *fd = -1;
    }
    return LH_OK;
}

static lh_status start(lh_operator_port *port, int fd, lh_error *error) {
    lh_status status = lh_allowed_hosts_parse(port->options.allowed_hosts,
                                              lh_listener_is_loopback(fd), &port->hosts, error);
    if (status != LH_OK)
        return status;
    port->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_access, port, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, MHD_OPTION_END);
    return port->daemon ? LH_OK
                        : lh_fail(error, LH_ERR_IO, "libmicrohttpd cannot serve the metrics");
}

lh_status lh_operator_port_open(const lh_operator_port_options *options, lh_operator_port **out,
                                lh_error *error) {
    int fd;
    uint16_t number = 0;
    *out = NULL;
    lh_status status = listen_on(options, &fd, &number, error);
    if (status != LH_OK || fd < 0)
        return status;
    lh_operator_port *port = calloc(1, sizeof *port);
    if (!port) {
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the operator's port");
        goto fail_after_listener;
    }
    *port = (lh_operator_port){.options = *options, .number = number};
    status = start(port, fd, error);
    if (status != LH_OK)
        goto fail_after_port;
    *out = port;
    return LH_OK;
fail_after_port:
    free(port);
fail_after_listener:
    close(fd);
    return status;
}

void lh_operator_port_close(lh_operator_port *port) {
    if (!port)
        return;
    MHD_stop_daemon(port->daemon); /* closes the listener */
    free(port);
}

uint16_t lh_operator_port_number(const lh_operator_port *port) {
    return port ? port->number : 0;
}
