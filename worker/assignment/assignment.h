/* Brings a worker to the state that its gateway wants of it (worker/api/CONTROL.md): reports, and from each
 * answer fetches the weights, builds the stage, hands it to the server, sets its place in the chain, or takes
 * it away.
 *
 * A stage is built anew only where the model, its layers or its sizes change, and then beforehand, beside the one that
 * serves, where the gateway asks for that. A new epoch, next hop or wire
 * type leaves the weights where they are, and what has been measured of the stage. While the gateway is away or
 * has no plan everything stays as it is. What cannot be done is reported with its reason and tried again, later
 * and later.
 *
 * Thread: the loop's; waiting work runs on libuv's pool. */
#pragma once

#include "worker/assignment/assignment_job.h"
#include "worker/server/server.h"

#include <uv.h>

typedef struct lh_assignment_keeper lh_assignment_keeper;

typedef struct lh_assignment_options {
    uv_loop_t *loop;
    lh_server *server; /* outlives the keeper */
    const char *name, *site;
    const char *address_plain, *address_tls; /* as the hop before reaches this worker; NULL: none */
    const char *gateway_url;                 /* "http://host:port" or "https://host:port" */
    uint64_t memory_bytes;
    lh_machine_speed speed;        /* zeros: not measured */
    lh_assignment_job_options job; /* its gateway_url is set by the keeper */
} lh_assignment_options;

/* All texts and pointers outlive the keeper. The first report goes out from the loop. LH_ERR_NO_MEMORY,
 * LH_ERR_INVALID (URL), LH_ERR_IO (no random numbers). */
lh_status lh_assignment_create(const lh_assignment_options *options, lh_assignment_keeper **keeper,
                               lh_error *error);
/* From now on reports say that the worker leaves. It goes on serving; on_released comes, once, when the gateway lets it go, or
 * seems to be gone itself. */
void lh_assignment_leave(lh_assignment_keeper *keeper, void (*on_released)(void *), void *context);
/* Waits for the work on libuv's pool; the stage stays with the server. Then on_closed. */
void lh_assignment_close(lh_assignment_keeper *keeper, void (*on_closed)(void *), void *context);
