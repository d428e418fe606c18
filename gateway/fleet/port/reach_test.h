/* POST /fleet/workers/{name}/reach: a worker asks whether others reach it. The
 * gateway opens a TLS connection to the address that it names, as its
 * predecessor in a chain would, and tells what came of it.
 *
 * It connects to the machine alone that asks, so that nobody has it look around
 * in networks: to the address from which the worker is seen now, or was seen
 * when one of its certificates was issued (of IPv6, to their network of 64
 * bits), and ten times a minute at most. Thread: the loop's. */
#pragma once

#include "common/http2/limits.h"
#include "common/http2/stream_quota.h"
#include "common/net/tls_credentials.h"
#include "gateway/membership/attempt_limit.h"
#include "gateway/membership/member_list.h"

/* Written by reach_test.c alone. */
typedef struct lh_reach_tests {
    uv_loop_t *loop;
    const lh_tls_options *tls; /* outlives it */
    lh_h2_limits limits;
    lh_stream_quota quota;
    lh_attempt_limit attempts;
} lh_reach_tests;

void lh_reach_tests_init(lh_reach_tests *tests, uv_loop_t *loop, const lh_tls_options *tls,
                         const lh_h2_limits *limits);
/* All streams have closed, and the loop has let their tests end. */
void lh_reach_tests_close(lh_reach_tests *tests, void (*on_closed)(void *), void *context);
/* The request is the worker's of that name, by its certificate. members: the
 * certificates that have been issued; NULL: they are not known. */
void lh_reach_tests_take(lh_reach_tests *tests, const lh_member_list *members, lh_h2_stream *stream,
                         const lh_h2_request *request, const lh_h2_stream_events **events,
                         void **context);
