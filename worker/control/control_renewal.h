/* Tells the gateway of this worker every renew_ms and brings back its answers. Keeps on while the
 * gateway is away. Thread: the loop's; the PUT itself waits on libuv's pool. */
#pragma once

#include "common/protocol/control/assignment_reply.h"
#include "worker/control/control_client.h"

#include <uv.h>

typedef struct lh_control_renewal lh_control_renewal;

typedef struct lh_control_renewal_events {
    /* What to say, into zeros. */
    void (*fill_report)(void *context, lh_worker_report *report);
    void (*on_answer)(void *context, const lh_assignment_reply *answer);
    /* A report could not be delivered, or its answer cannot be read. */
    void (*on_failure)(void *context);
} lh_control_renewal_events;

/* gateway_url, worker_name, tls and errors: as lh_control_client_create. The first report goes out
 * from the loop. */
lh_status lh_control_renewal_create(uv_loop_t *loop, const char *gateway_url,
                                    const char *worker_name, const lh_tls_options *tls,
                                    const lh_control_renewal_events *events, void *context,
                                    lh_control_renewal **renewal, lh_error *error);
/* Something has changed: the next report comes within so long, or sooner. */
void lh_control_renewal_hurry(lh_control_renewal *renewal, int64_t within_ms);
/* Waits for a PUT in progress; no event comes any more. May be called from within one. */
/* A report is on its way: the next answer is to what was said before now. */
bool lh_control_renewal_is_under_way(const lh_control_renewal *renewal);
void lh_control_renewal_close(lh_control_renewal *renewal, void (*on_closed)(void *),
                              void *context);
