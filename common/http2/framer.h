/* nghttp2 with our limits, and the first failure of a session: what a session and its streams
 * share. Private to session.c and streams.c. Thread: the session's. */
#pragma once

#include "common/base/status.h"
#include "common/http2/limits.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

typedef struct lh_h2_framer {
    nghttp2_session *nghttp2;
    bool is_server;
    bool is_dead;      /* the connection is gone: streams are closed, nothing is sent */
    lh_status failure; /* the first; nghttp2 must not be used any more */
    char reason[160];  /* of the failure, for the log and the user */
    void (*on_wake)(void *context);
    void *context;
} lh_h2_framer;

/* Makes nghttp2's session, whose callbacks get `user_data`, and queues our SETTINGS; the framer's
 * other fields are set. LH_ERR_NO_MEMORY. In both cases _close follows. */
lh_status lh_h2_framer_open(lh_h2_framer *framer, const lh_h2_limits *limits,
                            const nghttp2_session_callbacks *callbacks, void *user_data);
void lh_h2_framer_close(lh_h2_framer *framer);

/* There is something to send. */
void lh_h2_framer_wake(lh_h2_framer *framer);
/* Nothing more can be done, and why; the first reason stays. */
void lh_h2_framer_fail(lh_h2_framer *framer, lh_status status, const char *reason);
void lh_h2_framer_fail_memory(lh_h2_framer *framer);
/* The failure as an error. */
lh_status lh_h2_framer_failure(const lh_h2_framer *framer, lh_error *error);
