/* One TCP connection of the public port and the exchange on it: the phase in which it is, what the
 * socket monitor looks for meanwhile, and how the server's thread, which waits without being held,
 * meets the threads that wake it. Private to gateway/http/.
 *
 *     HEADERS --> BODY --> ANSWER --> HEADERS ...
 *
 * Any phase may end in CLOSED, which is final. A request that is refused, or whose client leaves,
 * goes back to HEADERS without an answer.
 *
 * Locks: the monitor's, then the connection's, then the library's; so nothing here calls the
 * monitor with the connection locked. */
#pragma once

#include "gateway/http/server.h"
#include "gateway/http/socket_monitor.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

typedef enum lh_http_phase {
    LH_HTTP_PHASE_HEADERS, /* waits for a request, or has a part of its headers */
    LH_HTTP_PHASE_BODY,
    LH_HTTP_PHASE_ANSWER,
    LH_HTTP_PHASE_CLOSED /* by us: nothing that still comes counts */
} lh_http_phase;

/* What a connection needs to know of its server. */
typedef struct lh_http_surroundings {
    lh_http_config config;
    lh_http_handler handler;
    lh_socket_monitor *monitor;
    atomic_uint_least64_t bodies_bytes; /* that hold requests' bodies now */
} lh_http_surroundings;

struct lh_http_exchange {
    /* The connection. */
    lh_http_surroundings *around;
    struct MHD_Connection *mhd;
    int fd;
    char peer[LH_HTTP_PEER_BYTES];
    uint64_t peer_network; /* request.h */
    uint64_t monitor_id;
    lh_http_exchange *next, *previous; /* in the connection table */

    pthread_mutex_t mutex; /* guards the next block */
    lh_http_phase phase;
    int64_t deadline_us; /* of the phase, or the wake-up asked for; 0: none */
    bool served_before;  /* a request was answered on this connection */
    bool half_closed;    /* the client will send no more */
    bool suspended;      /* the library has put it aside; exactly one resume follows */
    bool wake_pending;
    bool gone;       /* the client has hung up, or the server is ending */
    bool broken;     /* cut short by us, not by the client */
    unsigned status; /* sent, 0: none yet */

    /* The exchange; the server's thread. */
    lh_http_request request;
    char *target, *path; /* malloc'd; request points into them */
    const char *wire_target;
    size_t wire_target_bytes;
    lh_http_header headers[LH_HTTP_HEADERS_MAX];
    char *body;
    size_t body_bytes, body_capacity;
    bool headers_taken, request_taken, close_after;
    int64_t begun_us;
    /* The handler's; its on_refusal gets it on any thread, with the connection locked. */
    _Atomic(void *) state;
};

/* The socket was accepted: it is monitored from now on. NULL: no memory. */
lh_http_exchange *lh_http_connection_create(lh_http_surroundings *around,
                                            struct MHD_Connection *mhd, int fd);
/* The socket is about to be closed. */
void lh_http_connection_destroy(lh_http_exchange *connection);

/* The request line has come. LH_ERR_NO_MEMORY. */
lh_status lh_http_connection_begin(lh_http_exchange *exchange, const char *target);
/* Enters the next phase, or HEADERS from any, with its deadline (0: none). False: the connection is
 * closed, nothing may follow. */
bool lh_http_connection_enter(lh_http_exchange *exchange, lh_http_phase phase,
                              uint32_t deadline_ms);
/* Room for so many more bytes of the body; memory grows with what has come, whatever was announced.
 * LH_ERR_NO_MEMORY; LH_ERR_LIMIT: the bodies of all connections are too large together. */
lh_status lh_http_connection_grow_body(lh_http_exchange *exchange, size_t more);
/* The request's body has been read. */
void lh_http_connection_drop_body(lh_http_exchange *exchange);
/* Puts the connection aside until it is woken. False: it was woken meanwhile, so look again. The
 * server's thread only. */
bool lh_http_connection_wait(lh_http_exchange *exchange);
bool lh_http_connection_is_gone(lh_http_exchange *exchange);
/* The answer ends here, incomplete, by our will: wakes the exchange, which finds its client gone.
 */
void lh_http_connection_break(lh_http_exchange *exchange);
/* Answers past the library, on the socket itself, where the library takes no answer any more, and
 * closes. */
void lh_http_connection_refuse(lh_http_exchange *exchange, unsigned status, const char *message);
/* Until when it waits for headers or a body; INT64_MAX: it does not wait for its client. */
int64_t lh_http_connection_waits_until_us(lh_http_exchange *connection);
/* Closes a connection that waits for its client, since others need its place. */
void lh_http_connection_shed(lh_http_exchange *connection);
/* The exchange is over: tells the handler, frees what belonged to it, and waits for the next
 * request. */
void lh_http_connection_finish(lh_http_exchange *exchange, bool complete);
