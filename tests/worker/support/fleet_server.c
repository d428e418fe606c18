/* The whole answer is queued at once: the file is small. */
#include "tests/worker/support/fleet_server.h"

#include "common/http2/server.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fleet_server {
    const uint8_t *bytes;
    size_t length;
    uv_loop_t loop;
    uv_async_t stop;
    lh_h2_server *server;
    pthread_t thread;
    int port;
};

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)context;
    (void)status;
}

static const lh_h2_stream_events events = {.on_closed = on_closed};

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **stream_events, void **stream_context) {
    fleet_server *server = context;
    const char *range = lh_h2_request_header(request, "range");
    size_t first, last;
    char content_range[96];
    if (strcmp(request->path, "/weights") != 0 || !range ||
        sscanf(range, "bytes=%zu-%zu", &first, &last) != 2 || first > last ||
        last >= server->length) {
        lh_h2_stream_respond(stream, 404, "not here");
        return;
    }
    snprintf(content_range, sizeof content_range, "bytes %zu-%zu/%zu", first, last, server->length);
    const lh_h2_header header = {"content-range", content_range};
    *stream_events = &events;
    *stream_context = server;
    lh_h2_stream_respond_headers(stream, 206, &header, 1, false);
    lh_h2_stream_write(stream, server->bytes + first, last - first + 1);
    lh_h2_stream_end(stream);
}

static void on_stop(uv_async_t *stop) {
    fleet_server *server = stop->data;
    lh_h2_server_close(server->server, NULL, NULL);
    uv_close((uv_handle_t *)stop, NULL);
}

static void *run(void *context) {
    fleet_server *server = context;
    uv_run(&server->loop, UV_RUN_DEFAULT);
    return NULL;
}

fleet_server *fleet_server_create(const uint8_t *bytes, size_t length, const lh_tls_options *tls) {
    fleet_server *server = calloc(1, sizeof *server);
    lh_h2_limits limits = lh_h2_default_limits();
    lh_error error = {0};
    assert(server);
    server->bytes = bytes;
    server->length = length;
    uv_loop_init(&server->loop);
    uv_async_init(&server->loop, &server->stop, on_stop);
    server->stop.data = server;
    if (lh_h2_server_create(&server->loop, "127.0.0.1:0", tls, &limits, on_request, server,
                            &server->server, &error) != LH_OK ||
        pthread_create(&server->thread, NULL, run, server) != 0) {
        fprintf(stderr, "fleet_server: %s\n", error.message);
        abort();
    }
    server->port = lh_h2_server_port(server->server);
    return server;
}

void fleet_server_destroy(fleet_server *server) {
    uv_async_send(&server->stop);
    pthread_join(server->thread, NULL);
    int busy = uv_loop_close(&server->loop);
    assert(busy == 0);
    free(server);
}

int fleet_server_port(const fleet_server *server) {
    return server->port;
}
