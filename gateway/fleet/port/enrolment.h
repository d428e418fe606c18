/* Certificates for workers, over the fleet port (common/protocol/JOINING.md):
 * POST /join for those who have a token, on connections without a certificate,
 * and POST /fleet/workers/{name}/certificate for those who have one that is to
 * be renewed.
 *
 * What blocks (the disk) is done by libuv's threads. How many ask at once is
 * bounded, for each address and for all, and how often an address may show a
 * wrong secret. Members have places of their own and come first, so that no
 * crowd of strangers keeps them from renewing. Thread: the loop's. */
#pragma once

#include "common/http2/stream_quota.h"
#include "gateway/fleet/port/membership_watch.h"
#include "gateway/fleet/port/name_claims.h"

typedef struct lh_enrolment lh_enrolment;

/* All outlive the enrolment. LH_ERR_NO_MEMORY. */
lh_status lh_enrolment_create(uv_loop_t *loop, lh_membership *membership,
                              lh_membership_watch *watch, lh_enrolment **enrolment,
                              lh_error *error);
/* All streams have closed. on_closed comes from the loop; the enrolment is gone
 * by then. */
void lh_enrolment_close(lh_enrolment *enrolment, void (*on_closed)(void *), void *context);

/* An lh_h2_on_request, of connections without a certificate; `enrolment` is its
 * context. */
void lh_enrolment_take_request(void *enrolment, lh_h2_stream *stream, const lh_h2_request *request,
                               const lh_h2_stream_events **events, void **context);
/* The request is the worker's of that name, by its certificate. place:
 * where that worker serves, seen from there. */
void lh_enrolment_take_renewal(lh_enrolment *enrolment, lh_name_place place, lh_h2_stream *stream,
                               const lh_h2_request *request, const lh_h2_stream_events **events,
                               void **context);
