/* What members and those who want to become members ask of the fleet port (JOINING.md), over TLS:
 *
 *   POST /join                              on a connection without a certificate
 *   POST /fleet/workers/{name}/certificate  another certificate, for a fresh key
 *   POST /fleet/workers/{name}/reach        whether others reach the worker
 *   GET  /fleet/trust                       the CAs that the fleet believes
 *
 * Where the gateway has no CA of its own there is only the third. Thread: the loop's. */
#pragma once

#include "common/http2/server.h"
#include "common/protocol/worker_report.h"
#include "gateway/fleet/port/name_claims.h"
#include "gateway/membership/membership.h"

typedef struct lh_member_routes lh_member_routes;

typedef struct lh_member_routes_options {
    uv_loop_t *loop;
    lh_h2_server *http;          /* of the fleet port, closed before the routes are */
    const lh_tls_options *tls;   /* with credentials, where there is a membership */
    const lh_h2_limits *limits;  /* copied */
    lh_membership *membership;   /* NULL: the gateway has no CA of its own */
    const lh_name_claims *names; /* who serves; NULL: nobody */
    /* A worker has no certificate any more that is accepted. */
    void (*on_revoked)(void *context, const char *worker);
    void *context;
} lh_member_routes_options;

/* Statuses of lh_membership_watch_create. What the options point to outlives the routes. */
lh_status lh_member_routes_create(const lh_member_routes_options *options,
                                  lh_member_routes **routes, lh_error *error);
/* on_closed comes from the loop; the routes are gone by then. */
void lh_member_routes_close(lh_member_routes *routes, void (*on_closed)(void *), void *context);

/* Answers the request, where it is one of the above; false: it is not. */
bool lh_member_routes_take(lh_member_routes *routes, lh_h2_stream *stream,
                           const lh_h2_request *request, const lh_h2_stream_events **events,
                           void **context);

/* The digest of the bundle for answers to reports; NULL: the gateway has no CA of its own. Until
 * the loop's next turn. */
const char *lh_member_routes_trust_sha256(const lh_member_routes *routes);
/* The certificates that are not revoked, as long; NULL: as above. */
const lh_member_list *lh_member_routes_members(const lh_member_routes *routes);
/* Takes from a report which bundle and which certificate the worker uses. */
void lh_member_routes_note_report(lh_member_routes *routes, const lh_worker_report *report);
