/* What the HTTP/2 connection does on loopback, with server and client in threads of their own:
 * bytes one way, requests one after another, requests with 64 in flight. With three files
 * (certificate, key, CA) over TLS. */
#include "common/base/clock.h"
#include "common/http2/client.h"
#include "common/http2/server.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 20,
    PIECES = 2048,
    QUEUED_BYTES_MAX = 8 << 20,
    REQUESTS = 20000,
    IN_FLIGHT = 64
};

static const lh_tls_options *tls;
static int port;

/* ---- The server ---- */

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    (void)context;
    (void)bytes;
    lh_h2_stream_consume(stream, length);
}

static void on_end(lh_h2_stream *stream, void *context) {
    (void)context;
    lh_h2_stream_respond(stream, 200, "{}");
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)context;
    (void)status;
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events server_events = {NULL, on_body, on_end, on_closed};
    (void)stream;
    (void)request;
    *events = &server_events;
    *stream_context = context;
}

typedef struct serving {
    uv_loop_t loop;
    uv_async_t stop;
    lh_h2_server *server;
} serving;

static void on_stop(uv_async_t *stop) {
    serving *s = stop->data;
    lh_h2_server_close(s->server, NULL, NULL);
    uv_close((uv_handle_t *)stop, NULL);
}

static void *serve(void *context) {
    serving *s = context;
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    return NULL;
}

/* ---- The client ---- */

typedef struct run {
    uv_loop_t loop;
    lh_h2_client *client;
    bool connected;
    int started, done, wanted, failed;
} run;

static void start_request(run *r);

static void on_request_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    run *r = context;
    r->done++;
    r->failed += status != LH_OK;
    if (r->started < r->wanted)
        start_request(r);
}

static const lh_h2_stream_events request_events = {NULL, NULL, NULL, on_request_closed};

static void start_request(run *r) {
    lh_h2_stream *stream;
    lh_error error;
    if (lh_h2_client_submit(r->client, "POST", "/steps/1", NULL, 0, 0, &request_events, r, &stream,
                            &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    r->started++;
    lh_h2_stream_write(stream, "0123456789abcdef", 16);
    lh_h2_stream_end(stream);
}

static void requests(run *r, int in_flight) {
    r->started = r->done = 0;
    r->wanted = REQUESTS;
    int64_t begin_us = lh_clock_us();
    for (int i = 0; i < in_flight; i++)
        start_request(r);
    while (r->done < r->wanted)
        uv_run(&r->loop, UV_RUN_ONCE);
    printf("%d in flight: %.0f requests/s, %d failed\n", in_flight,
           1e6 * REQUESTS / (double)(lh_clock_us() - begin_us), r->failed);
}

static void upload(run *r) {
    lh_h2_stream *stream;
    int pieces = 0;
    r->started = r->done = r->wanted = 0;
    int64_t begin_us = lh_clock_us();
    if (lh_h2_client_submit(r->client, "POST", "/x", NULL, 0, 1, &request_events, r, &stream,
                            NULL) != LH_OK)
        exit(1);
    while (r->done == 0) {
        while (pieces < PIECES && lh_h2_stream_queued_bytes(stream) < QUEUED_BYTES_MAX) {
            void *piece = calloc(1, PIECE_BYTES);
            if (!piece || lh_h2_stream_write_owned(stream, piece, PIECE_BYTES) != LH_OK)
                exit(1);
            if (++pieces == PIECES)
                lh_h2_stream_end(stream);
        }
        uv_run(&r->loop, UV_RUN_ONCE);
    }
    printf("one way: %.0f MB/s\n",
           (double)PIECE_BYTES * PIECES / (double)(lh_clock_us() - begin_us));
}

static void on_state(void *context, bool connected, const char *reason) {
    run *r = context;
    r->connected = connected;
    if (!connected)
        fprintf(stderr, "not connected: %s\n", reason);
}

int main(int argc, char **argv) {
    lh_tls_options options = {.certificate_file = argc > 3 ? argv[1] : NULL,
                              .key_file = argc > 3 ? argv[2] : NULL,
                              .ca_file = argc > 3 ? argv[3] : NULL};
    tls = argc > 3 ? &options : NULL;
    static serving s;
    static run r;
    lh_error error;
    char address[32];
    pthread_t thread;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&s.loop);
    uv_async_init(&s.loop, &s.stop, on_stop);
    s.stop.data = &s;
    if (lh_h2_server_create(&s.loop, "127.0.0.1:0", tls, NULL, on_request, NULL, &s.server,
                            &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    port = lh_h2_server_port(s.server);
    pthread_create(&thread, NULL, serve, &s);

    uv_loop_init(&r.loop);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    options = lh_tls_options_for(&options, "");
    if (lh_h2_client_create(&r.loop, address, tls, NULL, on_state, &r, &r.client, &error) !=
        LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    while (!r.connected)
        uv_run(&r.loop, UV_RUN_ONCE);
    upload(&r);
    requests(&r, 1);
    requests(&r, IN_FLIGHT);
    lh_h2_client_link link;
    lh_h2_client_read_link(r.client, &link);
    printf("round trip by PING: %lld us\n", (long long)link.estimate.round_trip_us);
    lh_h2_client_close(r.client, NULL, NULL);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    uv_loop_close(&r.loop);
    uv_async_send(&s.stop);
    pthread_join(thread, NULL);
    return r.failed != 0;
}
