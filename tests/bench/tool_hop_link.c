/* What a hop's connection learns of its link, and how long a piece takes, cold and warm.
 *
 *     hop_link serve HOST:PORT               takes pieces until it is killed
 *     hop_link send HOST:PORT BYTES COUNT [PAUSE_MS [PROBE_PERCENT [CONGESTION_CONTROL]]]
 *
 *     hop_link overtake ...                  BYTES of bulk, and COUNT urgent pieces of 2 KiB
 *                                            meanwhile
 *
 * prints one JSON line for each piece: its time and what is known of the link afterwards. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/http2/client.h"
#include "common/http2/probe.h"
#include "common/http2/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sending {
    uv_loop_t loop;
    lh_h2_client *client;
    bool connected;
    int closed;
    lh_status status;
} sending;

/* ---- The taking side ---- */

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    (void)context;
    (void)bytes;
    lh_h2_stream_consume(stream, length);
}

static void on_end(lh_h2_stream *stream, void *context) {
    (void)context;
    lh_h2_stream_respond(stream, 200, "{}");
}

static void on_taken(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)context;
    (void)status;
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events server_events = {NULL, on_body, on_end, on_taken};
    if (strcmp(request->path, LH_H2_PROBE_PATH) == 0) {
        lh_h2_probe_take(stream, events, stream_context);
        return;
    }
    *events = &server_events;
    *stream_context = context;
}

static int serve(const char *address) {
    uv_loop_t loop;
    lh_h2_server *server;
    lh_error error;
    uv_loop_init(&loop);
    if (lh_h2_server_create(&loop, address, NULL, NULL, on_request, NULL, &server, &error) !=
        LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("listening\n");
    fflush(stdout);
    return uv_run(&loop, UV_RUN_DEFAULT);
}

/* ---- The sending side ---- */

static void on_state(void *context, bool connected, const char *reason) {
    sending *s = context;
    s->connected = connected;
    if (!connected)
        fprintf(stderr, "not connected: %s\n", reason);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    sending *s = context;
    s->closed++;
    s->status = status;
}

static void on_pause(uv_timer_t *timer) {
    *(bool *)timer->data = true;
}

static void pause_for(sending *s, uint64_t ms) {
    bool over = false;
    uv_timer_t timer;
    uv_timer_init(&s->loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, on_pause, ms, 0);
    while (!over)
        uv_run(&s->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&s->loop, UV_RUN_NOWAIT);
}

static int send_piece(sending *s, size_t bytes) {
    static const lh_h2_stream_events events = {.on_closed = on_closed};
    lh_h2_client_link link;
    lh_h2_stream *stream;
    lh_error error;
    void *piece = calloc(1, bytes);
    lh_h2_client_read_link(s->client, &link);
    uint64_t ready_bytes = link.ready_bytes;
    int64_t begin_us = lh_clock_us();
    if (!piece || lh_h2_client_submit(s->client, "POST", "/piece", NULL, 0, 1, &events, s, &stream,
                                      &error) != LH_OK) {
        free(piece);
        fprintf(stderr, "cannot send\n");
        return 1;
    }
    lh_h2_client_expect_bulk(s->client, false); /* it is here */
    lh_h2_stream_write_owned(stream, piece, bytes);
    lh_h2_stream_end(stream);
    for (int before = s->closed; s->closed == before;)
        uv_run(&s->loop, UV_RUN_ONCE);
    int64_t took_us = lh_clock_us() - begin_us;
    lh_h2_client_read_link(s->client, &link);
    printf("{\"bytes\": %zu, \"us\": %lld, \"ready_before\": %llu, \"ready_bytes\": %llu, "
           "\"bytes_per_us\": %.4f, \"deviation\": %.4f, \"is_bound\": %s, \"round_trip_us\": "
           "%lld, \"age_us\": %lld, \"probe_bytes\": %llu}\n",
           bytes, (long long)took_us, (unsigned long long)ready_bytes,
           (unsigned long long)link.ready_bytes, link.estimate.bytes_per_us,
           link.estimate.bytes_per_us_deviation,
           link.estimate.bytes_per_us_is_bound ? "true" : "false",
           (long long)link.estimate.round_trip_us, (long long)link.estimate.age_us,
           (unsigned long long)link.probe_bytes_sent);
    fflush(stdout);
    return s->status != LH_OK;
}

/* An urgent piece of 2 KiB while bulk is under way, every PAUSE_MS. */
static int overtake(sending *s, size_t bytes, int count, uint64_t pause_ms) {
    static const lh_h2_stream_events events = {.on_closed = on_closed};
    static const uint8_t piece[2048];
    lh_h2_stream *bulk, *urgent;
    sending bulk_end = {0};
    if (lh_h2_client_submit(s->client, "POST", "/bulk", NULL, 0, 1, &events, &bulk_end, &bulk,
                            NULL) != LH_OK)
        return 1;
    lh_h2_stream_write_owned(bulk, calloc(1, bytes), bytes);
    lh_h2_stream_end(bulk);
    for (int i = 0; i < count && !bulk_end.closed; i++) {
        pause_for(s, pause_ms);
        int64_t begin_us = lh_clock_us();
        if (lh_h2_client_submit(s->client, "POST", "/urgent", NULL, 0, 0, &events, s, &urgent,
                                NULL) != LH_OK)
            return 1;
        lh_h2_stream_write(urgent, piece, sizeof piece);
        lh_h2_stream_end(urgent);
        for (int before = s->closed; s->closed == before;)
            uv_run(&s->loop, UV_RUN_ONCE);
        printf("{\"urgent_us\": %lld, \"bulk_left\": %s}\n", (long long)(lh_clock_us() - begin_us),
               bulk_end.closed ? "false" : "true");
        fflush(stdout);
    }
    return s->status != LH_OK;
}

typedef struct plan {
    const char *address;
    size_t bytes;
    int count;
    uint64_t pause_ms;
    lh_h2_limits limits;
    bool overtakes;
} plan;

static int send_all(const plan *p) {
    static sending s;
    lh_error error;
    uv_loop_init(&s.loop);
    if (lh_h2_client_create(&s.loop, p->address, NULL, &p->limits, on_state, &s, &s.client,
                            &error) != LH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    while (!s.connected)
        uv_run(&s.loop, UV_RUN_ONCE);
    int failed = 0;
    for (int i = 0; !p->overtakes && i < p->count && !failed; i++) {
        pause_for(&s, p->pause_ms);
        failed = send_piece(&s, p->bytes);
    }
    if (p->overtakes)
        failed = overtake(&s, p->bytes, p->count, p->pause_ms);
    lh_h2_client_close(s.client, NULL, NULL);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    uv_loop_close(&s.loop);
    return failed;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    lh_log_set_level(getenv("HOP_LINK_DEBUG") ? LH_LOG_DEBUG : LH_LOG_WARN);
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2]);
    if (argc < 5) {
        fprintf(stderr, "usage: hop_link serve HOST:PORT\n"
                        "       hop_link send|overtake HOST:PORT BYTES COUNT [PAUSE_MS "
                        "[PROBE_PERCENT [CONGESTION_CONTROL]]]\n");
        return 2;
    }
    plan p = {.address = argv[2],
              .bytes = strtoull(argv[3], NULL, 10),
              .count = atoi(argv[4]),
              .pause_ms = argc > 5 ? strtoull(argv[5], NULL, 10) : 300,
              .limits = lh_h2_default_limits(),
              .overtakes = strcmp(argv[1], "overtake") == 0};
    if (argc > 6)
        p.limits.probe_percent = (uint32_t)atoi(argv[6]);
    if (argc > 7)
        snprintf(p.limits.congestion_control, sizeof p.limits.congestion_control, "%s", argv[7]);
    return send_all(&p);
}
