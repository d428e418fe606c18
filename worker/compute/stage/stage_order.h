/* What the first member of a stage asks the others to do, so that all of them are asked the same in
 * the same order (stage.h): each call of a stage that changes something is one of these orders.
 * Plain values; pointers are the stage's caller's and live during the call. */
#pragma once

#include "worker/compute/stage/batch.h"
#include "worker/compute/stage/gather.h"
#include "worker/compute/stage/stage.h"

typedef enum lh_stage_order_kind {
    LH_ORDER_BEGIN = 1,
    LH_ORDER_ACCEPT,
    LH_ORDER_FINISH,
    LH_ORDER_END,
    LH_ORDER_TRUNCATE,
    LH_ORDER_TAKE_MASKS,
    LH_ORDER_DROP_MASKS,
    LH_ORDER_RESET,
    LH_ORDER_RESYNC_KV,
    LH_ORDER_REST /* of no stage: nothing more comes until the members begin anew */
} lh_stage_order_kind;

typedef struct lh_stage_order {
    lh_stage_order_kind kind;
    /* BEGIN, ACCEPT, FINISH, END: which step, below steps_max; a number is used again once the step
     * has ended */
    uint32_t step;
    const lh_batch *batch;               /* BEGIN */
    const lh_stage_shard *shard;         /* ACCEPT */
    const lh_step_truncation *sequences; /* [sequence_count]: TRUNCATE (1), RESYNC_KV */
    uint32_t sequence_count;
    const lh_step_masks *masks; /* TAKE_MASKS */
} lh_stage_order;

/* How a stage leads others. Both are called on the compute thread, and may wait for them. */
typedef struct lh_stage_leading {
    void *context;
    /* Sends the order. BEGIN goes out when the stage has begun, and END when it has ended; all
     * others before the stage does them itself. Once it has failed it fails for good. */
    lh_status (*order)(void *context, const lh_stage_order *order, lh_error *error);
    /* The gathers of the step whose FINISH was ordered last. */
    lh_gather (*gather)(void *context);
    /* How they went, in their order, `count` at most; returns how many. */
    uint32_t (*gather_times)(void *context, lh_gather_times *times, uint32_t count);
} lh_stage_leading;
