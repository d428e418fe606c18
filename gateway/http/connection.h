/* One TCP connection of the public port and the exchange on it: the phase in which it is, what the
 * socket monitor looks for meanwhile, and how the server's thread, which waits without being held,
 * meets the threads that wake it. Private to gateway/http/.
 *
 *     HEADERS --> BODY --> ANSWER --> HEADERS ...
 *
 * Any phase may end in CLOSED, which is final. A request that is refused, or whose client leaves,
 * goes back to HEADERS without an answer.
 *
 * Locks: the monitor's, the table's, or the one of the bodies' memory, then the connection's, then
 * the library's; so nothing here calls the monitor with the connection locked. */
#pragma once

#include "gateway/http/body_memory.h"
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
    struct lh_connection_table *table;
    pthread_mutex_t bodies_mutex;   /* guards the next, and the connections' shares of them */
    lh_body_memory bodies, answers; /* of requests that come in, and of what goes out whole */
} lh_http_surroundings;

struct lh_http_exchange {
    /* The connection. */
    lh_http_surroundings *around;
    struct MHD_Connection *mhd;
    int fd;
    char peer[LH_HTTP_PEER_BYTES];
    uint64_t address; /* lh_address_key of the peer */
    uint64_t client;  /* whose key it has shown last; 0: it has shown none */
    uint64_t monitor_id;
    uint32_t place; /* the connection table's */

    pthread_mutex_t mutex; /* guards the next block */
    lh_http_phase phase;
    int64_t deadline_us; /* of the phase, or the wake-up asked for; 0: none */
    bool served_before;  /* a request was answered on this connection */
    bool half_closed;    /* the client will send no more */
    bool suspended;      /* the library has put it aside; exactly one resume follows */
    bool wake_pending;
    bool gone;       /* the client has hung up, or the server is ending */
    bool broken;     /* cut short by us, not by the client */
    bool takes;      /* the library has something of the answer: the client has to take it */
    unsigned status; /* sent, 0: none yet */

    /* The exchange; the server's thread. */
    lh_http_request request;
    char *target, *path; /* malloc'd; request points into them */
    const char *wire_target;
    size_t wire_target_bytes;
    lh_http_header headers[LH_HTTP_HEADERS_MAX];
    char *body;
    size_t body_bytes, body_capacity;
    lh_body_share share;        /* of the bodies' memory */
    lh_body_share answer_share; /* of the answers' */
    uint64_t streamed_bytes;    /* that the library has had of a stream */
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
 * Where it is short, another connection's body may be ended. LH_ERR_NO_MEMORY; LH_ERR_LIMIT: the
 * bodies of all connections are too large together, or this body was ended for another. */
lh_status lh_http_connection_grow_body(lh_http_exchange *exchange, size_t more);
/* All of the body is there: it is not ended any more. */
void lh_http_connection_complete_body(lh_http_exchange *exchange);
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
/* Room for an answer of so many bytes in all, which is the exchange's until it is over, or asks for
 * another number. Another connection's answer may be ended for it. False: there is none, or this
 * one was ended. */
bool lh_http_connection_take_answer_room(lh_http_exchange *exchange, size_t bytes);
/* The library has had so many bytes of the answer. */
void lh_http_connection_note_sent(lh_http_exchange *exchange, uint64_t bytes);
/* The library has something of the answer, or all: what is left to do is the client's, until the
 * exchange waits again. */
void lh_http_connection_note_takes(lh_http_exchange *exchange);
/* Closes a connection that waits for its client, since others need its place. */
void lh_http_connection_shed(lh_http_exchange *connection);
/* The exchange is over: tells the handler, frees what belonged to it, and waits for the next
 * request. */
void lh_http_connection_finish(lh_http_exchange *exchange, bool complete);
