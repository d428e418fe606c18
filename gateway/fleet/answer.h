/* What a worker is told when it has reported: the assignment that it should have, the stage that it
 * is to prepare, and whether it may leave (CONTROL.md). Pure. */
#pragma once

#include "gateway/fleet/handover.h"

/* What a worker should have. */
typedef struct lh_assignment {
    const char *chain;
    uint32_t epoch;    /* and generation */
    uint32_t kv_epoch; /* as in lh_chain_stage */
    uint32_t first_layer, last_layer, layers;
    uint32_t context, rows_max, steps_max;
    bool has_q16;
    lh_wire_type wire;
    const lh_chain_stage *next; /* NULL: the gateway */
} lh_assignment;

typedef struct lh_fleet_answer {
    int64_t renew_us, lease_us;
    bool is_planned; /* false: the worker keeps what it has, and has_assignment is false */
    bool has_assignment;
    bool is_urgent; /* sequences wait for it */
    lh_assignment assignment;
    bool has_prepare, prepare_holds;
    lh_assignment prepare; /* a stage: chain, epoch and next are not set */
    bool is_leaving, may_go;
    const char *leave_reason; /* where it is leaving */
} lh_fleet_answer;

/* What is the same for all workers at all times. */
typedef struct lh_answer_terms {
    int64_t renew_us, lease_us;
    uint32_t layers, context, rows_max;
    bool has_q16;
} lh_answer_terms;

/* The answer to this report by the present chain and the one that is being prepared. Its pointers
 * lead into these two, and live until they change. has_load: sequences need the chain. */
void lh_answer_make(const lh_answer_terms *terms, const lh_chain *chain,
                    const lh_handover *handover, bool has_load, const lh_worker_report *report,
                    lh_fleet_answer *answer);
