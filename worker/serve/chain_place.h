/* This worker's place in its chain, and which steps it admits there: of the present epoch alone,
 * each once, and from a KV cache that was kept only after a KV resync. Plain state, begun with
 * zeroes. Thread: the owner's. */
#pragma once

#include "common/protocol/step.h"
#include "common/protocol/way.h"
#include "worker/serve/step_window.h"

/* Where a worker stands in its chain, as it is told. */
typedef struct lh_chain_route {
    char chain[LH_WORKER_NAME_BYTES];
    uint32_t epoch;
    uint32_t width; /* columns of an activation */
    bool is_first, is_last;
    lh_wire_type wire;
    uint32_t steps_max;
    /* the KV cache stays where it was last emptied with this epoch; 0: it is emptied */
    uint32_t kv_epoch;
    char previous_name[LH_WORKER_NAME_BYTES];  /* who sends the steps; "" is the gateway */
    char previous_relay[LH_WORKER_NAME_BYTES]; /* through which worker they come; "": directly */
    lh_way next;                               /* where they go; to the gateway: with its address */
} lh_chain_route;

typedef struct lh_chain_place {
    bool is_set;
    lh_chain_route route;
    lh_step_window window; /* the steps of this epoch that have come */
    uint32_t kv_epoch;     /* with which the KV cache was last emptied; 0: it has no place */
    bool awaits_resync;    /* the cache was kept, and no KV resync has come since */
    bool has_begun;        /* a step of this epoch has come */
} lh_chain_place;

/* Whether the KV cache may stay when this route is entered. */
bool lh_chain_place_keeps_kv(const lh_chain_place *place, const lh_chain_route *route);
/* The route holds from now on, and no step of it has come. keeps_kv: the cache was not emptied. */
void lh_chain_place_enter(lh_chain_place *place, const lh_chain_route *route, bool keeps_kv);
/* There is no place any more, and nothing in the KV cache that belongs to one. */
void lh_chain_place_leave(lh_chain_place *place);

/* A step has come that its request calls `number`. *resyncs: it is the KV resync that was awaited.
 * LH_ERR_MALFORMED: the manifest has another number; LH_ERR_STALE: of an older epoch, or the step
 * has come before; LH_ERR_UNAVAILABLE: of an epoch that is not here yet; LH_ERR_INVALID: its number
 * is far from those before it, so that admitting it would shut out those to come; a KV
 * resync that is late, or another step where one has to come first. */
lh_status lh_chain_place_admit(lh_chain_place *place, uint64_t number,
                               const lh_step_manifest *manifest, bool *resyncs, lh_error *error);
/* The KV resync that was awaited is under way: other steps may follow. */
void lh_chain_place_note_resync(lh_chain_place *place);
