/* What the files of the HTTP/2 session share: its state and its streams'. Private to common/h2_session*.c. */
#pragma once

#include "common/byte_queue.h"
#include "common/h2_request.h"
#include "common/h2_session.h"
#include "common/send_order.h"

#include <nghttp2/nghttp2.h>

struct lh_h2_stream {
    lh_h2_session *session;
    lh_h2_stream *next, *previous; /* all streams of the session */
    lh_send_place place;           /* client: its turn to send */
    int32_t id;
    const lh_h2_stream_events *events; /* NULL: a server's that was answered at once */
    void *context;
    lh_h2_request_builder *request; /* server: until its headers are complete */
    lh_byte_queue outgoing;
    size_t unconsumed;      /* given to on_body, not yet consumed */
    int http_status;        /* client: the last one that came, 1xx included */
    bool response_reported; /* client */
    bool responded;         /* server */
    bool ended;             /* the user has ended the outgoing body */
    bool end_sent;
    bool remote_ended;
    bool cancelled; /* by the user, or being closed: no event but on_closed */
    bool deferred;  /* nghttp2 was told to wait until it is resumed */
};

struct lh_h2_session {
    lh_h2_session_config config;
    lh_h2_limits limits;
    nghttp2_session *nghttp2;
    lh_h2_stream *streams;
    uint32_t open_streams, mid_headers;
    lh_send_order order; /* client: streams that have not sent their END_STREAM */

    uint32_t frame_bytes; /* of a DATA frame, at most */

    uint8_t *buffer; /* during _pull */
    size_t capacity, used;

    uint64_t faults;    /* invalid frames, and streams that we had to reset because of the peer */
    uint64_t resets;    /* of streams, by the peer */
    uint64_t completed; /* streams that ended well */
    int32_t last_id;    /* server: of the last request that reached the user */
    bool settings_came, shutting_down, goaway_came, goaway_sent;
    bool dead;           /* _fail was called */
    lh_status failure;   /* sticky; nghttp2 must not be used any more */
    char reason[160];    /* of the failure, for the log and the user */
    char complaint[160]; /* nghttp2's or the peer's last one */
};

/* The table of nghttp2's callbacks, all of which find the session in user_data. LH_ERR_NO_MEMORY. */
lh_status lh_h2_session_callbacks(nghttp2_session_callbacks **callbacks);

/* Marks the session as dead; the first reason stays. */
void lh_h2_session_set_failure(lh_h2_session *session, lh_status status, const char *reason);
void lh_h2_session_wake(lh_h2_session *session);

/* A stream with user data in nghttp2, or NULL. */
lh_h2_stream *lh_h2_session_find(lh_h2_session *session, int32_t id);
lh_h2_stream *lh_h2_session_add_stream(lh_h2_session *session);
/* Calls on_closed, takes the stream out and frees it. */
void lh_h2_session_close_stream(lh_h2_stream *stream, lh_status status);

/* Reads the stream's outgoing queue into DATA frames. */
nghttp2_data_provider lh_h2_session_provider(lh_h2_stream *stream);
int lh_h2_session_on_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame, const uint8_t *header,
                               size_t length, nghttp2_data_source *source, void *user_data);
/* How much a DATA frame may hold. */
ssize_t lh_h2_session_on_frame_bytes(nghttp2_session *nghttp2, uint8_t type, int32_t id,
                                     int32_t session_window, int32_t stream_window, uint32_t peer_max,
                                     void *user_data);
/* Client: lets the stream whose turn it is send, if nghttp2 holds it back. True when one was resumed. */
bool lh_h2_session_resume_next(lh_h2_session *session);
