/* Brings a worker to the state that its gateway wants of it (common/protocol/CONTROL.md): reports,
 * and from each answer fetches the weights, builds the stage, hands it to the server, sets its
 * place in the chain, or takes it away.
 *
 * A stage is built anew only where the model, its layers or its sizes change, and then beforehand,
 * beside the one that serves, where the gateway asks for that. A new epoch, next hop or wire type
 * leaves the weights where they are, and what has been measured of the stage. While the gateway is
 * away or has no plan everything stays as it is. What cannot be done is reported with its reason
 * and tried again, later and later.
 *
 * Thread: the loop's; waiting work runs on libuv's pool. */
#pragma once

#include "worker/control/stage_job.h"
#include "worker/serve/server.h"

#include <uv.h>

typedef struct lh_reconciler lh_reconciler;

typedef struct lh_reconciler_options {
    uv_loop_t *loop;
    lh_server *server; /* outlives the reconciler */
    const char *name, *site;
    const char *address_plain, *address_tls; /* as the hop before reaches this worker; "": none */
    const char *address_members;             /* as other members of a team do; "": none */
    bool relays, is_behind_relay;            /* as in lh_worker_report; the server relays, too */
    uint64_t memory_bytes;
    lh_machine_speed speed; /* zeros: not measured */
    lh_host_facts host;     /* of this machine, at the program's start */
    const char *cache_dir;  /* whose disk is looked at again and again; NULL: none */
    /* of a member of a fleet with a CA of its own, else NULL: the digest of the CAs that it
     * believes, which may change; and who hears of those that the gateway believes */
    const char *trust;
    void (*on_trust)(void *context, const char *digest);
    void *trust_context;
    lh_stage_job_options job; /* its on_team_failed is set here */
} lh_reconciler_options;

/* All texts and pointers outlive the reconciler. The first report goes out from the loop.
 * LH_ERR_NO_MEMORY, LH_ERR_INVALID (URL). */
lh_status lh_reconciler_create(const lh_reconciler_options *options, lh_reconciler **reconciler,
                               lh_error *error);
/* What the worker does, or waits for, in a sentence for people. */
void lh_reconciler_describe(const lh_reconciler *reconciler, char *text, size_t size);
/* What it would report now, also while it closes. */
void lh_reconciler_read_report(const lh_reconciler *reconciler, lh_worker_report *report);
/* What it has gathered with those with whom it computes its stage; zeros: it computes alone. */
lh_mesh_totals lh_reconciler_count_gathers(const lh_reconciler *reconciler);
/* From now on reports say that the worker leaves. It goes on serving; on_released comes, once, when
 * the gateway lets it go, or seems to be gone itself. */
void lh_reconciler_leave(lh_reconciler *reconciler, void (*on_released)(void *), void *context);
/* Waits for the work on libuv's pool; the stage stays with the server, unless it is a team's, which
 * ends. Then on_closed. */
void lh_reconciler_close(lh_reconciler *reconciler, void (*on_closed)(void *), void *context);
