/* The public port: libmicrohttpd's threads, and what the library leaves to its user: hang-ups seen
 * while an answer is being waited for, absolute deadlines on headers and bodies, and strict framing
 * (request.h).
 *
 * It knows nothing of models; what to answer is decided by a handler (openai/api.h opens a server
 * with its own, and that is what gateway/main.c calls). The answer is pulled: the server asks for
 * it, is told to wait, and is woken when there is more. While it waits no thread is held. */
#pragma once

#include "common/base/status.h"
#include "gateway/http/reply.h"
#include "gateway/http/request.h"
#include "gateway/http/tls.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_http_server lh_http_server;

/* A request and its answer. Lives until on_done has returned. */
typedef struct lh_http_exchange lh_http_exchange;

typedef struct lh_http_config {
    /* "127.0.0.1:8080", "[::1]:8080", ":8080" (any address); port 0: a free one */
    const char *listen;
    /* which names requests may be for; NULL is ""; lives as long as the server (allowed_hosts.h) */
    const char *allowed_hosts;
    lh_http_tls *tls; /* outlives the server; NULL: HTTP without TLS */
    uint32_t threads; /* 1..64 */
    /* at most: where they run short, some that wait for their clients are closed
     * (connection_claims.h); 64 and more */
    uint32_t connections;
    /* further ones are closed at once; 0: any; an address is also an IPv6 network of 64 bits */
    uint32_t connections_per_address;
    /* from the connection's start to the end of the headers: 408 and closed */
    uint32_t header_deadline_ms;
    uint32_t body_deadline_ms; /* from there to the end of the body: 408 and closed */
    /* between two requests, the second one's headers included: closed */
    uint32_t idle_deadline_ms;
    /* the client takes none of the answer for so long: closed; whole seconds count */
    uint32_t stall_deadline_ms;
    uint64_t body_bytes_max; /* 413 and closed */
    /* of all requests that are coming in: one of them is ended with 408, or this one with 503
     * (body_memory.h) */
    uint64_t bodies_bytes_max;
    /* of all answers that are made and not read yet: one of them is cut, or this one is (503, where
     * it has not begun; the same) */
    uint64_t answers_bytes_max;
} lh_http_config;

/* 4 threads, 4096 connections from any address, 10 s, 30 s, 60 s, 30 s, 8 MiB, 256 MiB each.
 * `listen`, `allowed_hosts` and `tls` stay NULL. */
lh_http_config lh_http_config_default(void);

typedef enum lh_http_progress {
    LH_HTTP_READY, /* *reply is filled, or *length bytes are */
    LH_HTTP_WAIT,  /* nothing yet: ask again after lh_http_exchange_wake */
    LH_HTTP_END,   /* on_read: the body is complete */
    LH_HTTP_BREAK  /* cut the connection, so that nobody takes what was sent for the whole */
} lh_http_progress;

typedef struct lh_http_outcome {
    /* that was sent; 499 when the client left first; 0: a request without headers */
    unsigned status;
    int64_t elapsed_us; /* since the request line */
    bool complete;      /* the whole answer was handed to the network */
} lh_http_outcome;

/* What to answer. All but on_gone run on a server thread, one at a time for an exchange. `state` is
 * the handler's own, as on_headers has left it; NULL until then. */
typedef struct lh_http_handler {
    void *context;
    /* The headers are in and unambiguous, the body is not there yet. False: *reply is the answer,
     * and no body is read. */
    bool (*on_headers)(void *context, lh_http_exchange *exchange, const lh_http_request *request,
                       lh_http_reply *reply, void **state);
    /* The whole request. READY, WAIT or BREAK. */
    lh_http_progress (*on_request)(void *state, const lh_http_request *request,
                                   lh_http_reply *reply);
    /* Woken before there was a reply. READY, WAIT or BREAK. */
    lh_http_progress (*on_wake)(void *state, lh_http_reply *reply);
    /* Wants up to `capacity` bytes of a streamed body. Any of the four; READY with *length > 0. */
    lh_http_progress (*on_read)(void *state, char *buffer, size_t capacity, size_t *length);
    /* The client has hung up before the answer was complete: stop the work. At most once, on the
     * monitor's thread, at any time between on_request's begin and on_done; must not block. */
    void (*on_gone)(void *state);
    /* The server refuses a request by itself (bad framing, deadline, too large): fills *reply's
     * body and headers. */
    void (*on_refusal)(void *state, unsigned status, const char *message, lh_http_reply *reply);
    /* The last call: frees the handler's state. Comes once for each exchange, also for refused
     * ones. */
    void (*on_done)(void *state, const lh_http_request *request, const lh_http_outcome *outcome);
} lh_http_handler;

/* Starts to serve; *handler is copied. LH_ERR_INVALID: the address is malformed, or the
 * list of hosts; LH_ERR_IO: it cannot be listened on; LH_ERR_NO_MEMORY. */
lh_status lh_http_server_create(const lh_http_config *config, const lh_http_handler *handler,
                                lh_http_server **server, lh_error *error);
/* Ends all exchanges (their clients see a cut connection) and waits for the threads. NULL is
 * allowed. */
void lh_http_server_destroy(lh_http_server *server);
/* The port listened on. */
uint16_t lh_http_server_port(const lh_http_server *server);
/* Exchanges in progress: between on_request and on_done. */
uint32_t lh_http_server_active(const lh_http_server *server);

/* There may be something to do: any thread, also where the exchange does not wait. */
void lh_http_exchange_wake(lh_http_exchange *exchange);
/* Wakes it when CLOCK_MONOTONIC shows that time, in place of any time set before; 0: never. From
 * on_request, on_wake and on_read. */
void lh_http_exchange_wake_at(lh_http_exchange *exchange, int64_t time_us);
/* The request's body, which is the caller's from now on: he frees it, and bounds how much he keeps.
 * Once, within on_request. Not NULL where the body has a byte. */
char *lh_http_exchange_take_body(lh_http_exchange *exchange);
/* The request has shown a key of this client, who is not 0: the connection and the bodies on it
 * count as his. From on_headers. */
void lh_http_exchange_know_client(lh_http_exchange *exchange, uint64_t client);
/* So many exchanges are being answered, in all or of this client, that one whose answer takes long
 * should be refused, which leaves places for those that are short, and for other clients. From
 * on_request. */
bool lh_http_exchange_is_crowded(const lh_http_exchange *exchange);
/* The rest of the answer that is being streamed holds so many bytes of memory now, since the client
 * takes it slower than it is made: they count as those of an answer that goes out whole. False:
 * there is no room for them, so the stream is to be broken. From on_read. */
bool lh_http_exchange_hold(lh_http_exchange *exchange, size_t bytes);
/* The connection is closed once the answer that is being streamed has ended. The server's thread.
 */
void lh_http_exchange_close_after(lh_http_exchange *exchange);
