/* One request that goes through a relay: what its sender writes goes on to the worker behind as it
 * comes, the answer goes back, and a reset of either end resets the other.
 *
 *   sender --outer--> held bytes --inner--> worker behind
 *     ^ answer <--------------------------- answer
 *
 * What has come and has not left yet stays in the sender's window: a slow worker behind slows the
 * sender down, and no more is held of a request than a window. Thread: the loop's. */
#pragma once

#include "common/base/text_buffer.h"
#include "common/http2/client.h"
#include "common/protocol/client/relay_route.h"
#include "common/protocol/step_answer.h"

#include <sys/queue.h>

/* Of all requests of a relay. */
typedef struct lh_relay_totals {
    size_t held_bytes;        /* that have come and not left */
    uint64_t requests, bytes; /* since the start; bytes of bodies that have come */
} lh_relay_totals;

typedef struct lh_relayed_request lh_relayed_request;

struct lh_relayed_request {
    TAILQ_ENTRY(lh_relayed_request) links; /* the owner's */
    void *owner, *leg;                     /* the owner's; leg NULL: the inner end is closed */
    const char *relay;                     /* its name, which lives as long as the request */
    char to[LH_WORKER_NAME_BYTES];
    lh_relay_totals *totals;
    size_t held_bytes_max; /* of all together */
    /* Its inner end is closed, or was never opened: it is free of its leg. Then, or later, its
     * outer one is closed, too, and it is gone. */
    void (*on_left)(lh_relayed_request *request), (*on_over)(lh_relayed_request *request);

    lh_h2_stream *outer, *inner; /* NULL: closed, or not open yet */
    char *target;                /* path and query */
    int send_class;
    char from[LH_RELAY_SENDER_BYTES];
    lh_text_buffer early; /* of the body: what has come before there was an inner end */
    bool body_ended;
    bool is_answered, answer_ended; /* its headers, its end have come, from here or from behind */
    size_t held_bytes;              /* of the body: come, and not left */
    size_t answer_held_bytes;       /* the same of the answer */
};

/* Takes the request over, with *events and *context: of http its path, class and sender count.
 * Owner's fields are set by the caller before. LH_ERR_NO_MEMORY, LH_ERR_INVALID (its class): it is
 * still the caller's. */
lh_status lh_relayed_request_begin(lh_relayed_request *request, lh_h2_stream *stream,
                                   const lh_h2_request *http, const lh_h2_stream_events **events,
                                   void **context, lh_error *error);
/* Opens the inner end, with all that has come. Where that cannot be, the request fails. */
void lh_relayed_request_open(lh_relayed_request *request, lh_h2_client *client);
/* Answers with this, in the relay's name, and ends the inner end; of a request that has been
 * answered nothing is left but its outer end, which is reset where the answer is not whole. */
void lh_relayed_request_fail(lh_relayed_request *request, lh_status status, const char *message);
/* Opens the windows by what has left since the last call. */
void lh_relayed_request_count_sent(lh_relayed_request *request);
