/* A server and a client on one loop over loopback, and streams that record what they were told. */
#pragma once

#include "common/http2/client.h"
#include "common/http2/server.h"

typedef struct fixture {
    uv_loop_t loop;
    lh_h2_server *server;
    lh_h2_client *client;
    lh_h2_limits limits;
    bool connected;
    int state_changes;
    char reason[320];
    int closed;             /* of server and client, their on_closed */
    struct record *records; /* the server's, newest first */
    int requests;
    bool may_fail; /* what the server does with a request: memory may run out */
    /* What the server does with a request; NULL: echo the body. */
    lh_h2_on_request *on_request;
} fixture;

/* A stream's history, on either side. */
typedef struct record {
    struct record *next;
    fixture *owner;
    lh_h2_stream *stream; /* NULL when closed */
    char path[64];
    int http_status, ends, closes;
    lh_status status;
    size_t received;
    uint64_t hash;   /* FNV-1a of the bytes received */
    bool echo, hold; /* server: send everything back; any: do not consume */
    size_t held;
    int64_t first_us, last_us;
} record;

extern const lh_h2_stream_events record_events;

/* A record for a stream of the server: sets *events and *context. */
record *record_accept(fixture *f, lh_h2_stream *stream, const char *path,
                      const lh_h2_stream_events **events, void **context);
uint64_t fnv1a(uint64_t hash, const void *bytes, size_t length);

/* tls_server, tls_client: NULL for none. Waits until the client is connected. */
void fixture_open(fixture *f, const lh_h2_limits *limits, const lh_tls_options *tls_server,
                  const lh_tls_options *tls_client);
/* Only the server, on `listen`; only the client, to that port. */
void fixture_open_server(fixture *f, const lh_h2_limits *limits, const lh_tls_options *tls);
/* A server again, after the first was closed. */
void fixture_listen(fixture *f, const char *listen, const lh_tls_options *tls);
void fixture_open_client(fixture *f, const char *host, int port, const lh_tls_options *tls);
void fixture_close(fixture *f);

/* Runs the loop until *flag >= value, or fails the test after timeout_ms. */
void fixture_run_until(fixture *f, const int *flag, int value, int timeout_ms);
void fixture_run_for(fixture *f, int duration_ms);

lh_h2_stream *fixture_submit(fixture *f, const char *path, int send_class, record *r);
