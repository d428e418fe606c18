/* nghttp2 with our limits, and the first failure of a session: what a session and its streams
 * share. Private to session.c and streams.c. Thread: the session's. */
#pragma once

#include "common/http2/session.h"

#include <nghttp2/nghttp2.h>

typedef struct lh_h2_framer {
    nghttp2_session *nghttp2;
    const lh_h2_session_config *config;
    bool is_server;
    bool is_dead;      /* the connection is gone: streams are closed, nothing is sent */
    lh_status failure; /* the first; nghttp2 must not be used any more */
    char reason[160];  /* of the failure, for the log and the user */
} lh_h2_framer;

/* Makes nghttp2's session, whose callbacks get `user_data`, and queues our SETTINGS. The framer was
 * all zeros; the configuration lasts as long as it. LH_ERR_NO_MEMORY. In both cases _close follows.
 */
lh_status lh_h2_framer_open(lh_h2_framer *framer, const lh_h2_session_config *config,
                            const nghttp2_session_callbacks *callbacks, void *user_data);
void lh_h2_framer_close(lh_h2_framer *framer);

/* There is something to send. */
void lh_h2_framer_wake(lh_h2_framer *framer);
/* Nothing more can be done, and why; the first reason stays. */
void lh_h2_framer_fail(lh_h2_framer *framer, lh_status status, const char *reason);
/* The same where nghttp2 returned NGHTTP2_ERR_NOMEM; any other code is let pass. */
void lh_h2_framer_check_memory(lh_h2_framer *framer, int code);
/* What nghttp2 has returned in a place where only its fatal errors are possible. */
void lh_h2_framer_fail_code(lh_h2_framer *framer, ssize_t code);
/* The failure as an error; LH_OK: none. */
lh_status lh_h2_framer_failure(const lh_h2_framer *framer, lh_error *error);
/* A GOAWAY that tells the peer of the failure, made by hand: after a fatal error nghttp2 may only
 * be deleted. Its length; last_id: of the last stream that was begun. */
size_t lh_h2_framer_last_words(const lh_h2_framer *framer, int32_t last_id, uint8_t *words);
