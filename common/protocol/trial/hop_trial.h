/* The trial of a hop, the sending side (CONTROL.md, "Trying a hop"): shows that the hop would carry
 * steps, before a chain relies on it.
 *
 *            connected            200 of the one who was meant
 *   RUNNING ----------> a step ------------------------------> PROVEN
 *      |                  |  ^                                   |
 *      | no connection    |  | connected again, or after a pause | the connection went
 *      +------------------+->FAILED <----------------------------+
 *
 * The step's manifest is of epoch 0 and step 0, its shard in the hop's wire type, and some 32 KiB
 * altogether (PROTOCOL.md, "Steps of a trial"). A hop that failed is FAILED until it is proven: the
 * client goes on connecting, and where the connection stands the step is sent again, after 0.5 s
 * and then twice as long each time, up to 10 s. One that is proven stays connected, measured and
 * warm, for the chain that takes it.
 *
 * Thread: the loop's. */
#pragma once

#include "common/protocol/client/worker_client.h"
#include "common/protocol/worker_report.h"

typedef struct lh_hop_trial lh_hop_trial;

typedef struct lh_hop_trial_options {
    const char *next;    /* who is meant: a worker's name; "": the gateway */
    const char *address; /* to which the client connects */
    uint32_t width;      /* columns of an activation; 0: a manifest without rows */
    lh_wire_type wire;
    int64_t answer_ms; /* within which the step has to be answered; 0: 3000 */
    /* The report is another one. From the loop, never inside a call; the trial may be taken or
     * closed in it. */
    void (*on_change)(void *context);
    void *context;
} lh_hop_trial_options;

/* Takes over the client, which was created just now. The texts are copied. LH_ERR_NO_MEMORY; the
 * client is the caller's then. */
lh_status lh_hop_trial_create(uv_loop_t *loop, lh_worker_client *client,
                              const lh_hop_trial_options *options, lh_hop_trial **trial,
                              lh_error *error);
/* What is to be said of a trial that could not begin. */
lh_hop_trial_report lh_hop_trial_stuck(const char *next, const char *address,
                                       const lh_error *error);
/* Lives as long as the trial. A reason says at which address what failed. */
const lh_hop_trial_report *lh_hop_trial_read(const lh_hop_trial *trial);
/* What the client has measured meanwhile; not present where it was taken. */
void lh_hop_trial_read_profile(const lh_hop_trial *trial, lh_hop_profile *profile);
/* The client goes to its new owner, whom it tells from now on. Only of a trial that is PROVEN, so
 * that it is connected and carries nothing; what is left of the trial is to be closed. */
lh_worker_client *lh_hop_trial_take(lh_hop_trial *trial, const lh_worker_client_events *events,
                                    void *context);
/* Closes the client, too, where it was not taken. on_change comes no more; on_closed (may be NULL)
 * comes from the loop. */
void lh_hop_trial_close(lh_hop_trial *trial, void (*on_closed)(void *), void *context);
