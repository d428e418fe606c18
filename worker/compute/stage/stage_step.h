/* One step of a stage: what it was asked, how far its activation has come, and its way through the
 * layers. The stage's own; lh_stage_is_ready (stage.h) is the step's as well.
 * Thread: the compute thread. */
#pragma once

#include "worker/compute/stage/halves.h"
#include "worker/compute/stage/head.h"
#include "worker/compute/stage/kv_reservation.h"
#include "worker/compute/stage/layer.h"
#include "worker/compute/stage/mask_store.h"
#include "worker/compute/stage/shard_tracker.h"
#include "worker/compute/stage/stage.h"

/* What all steps of a stage compute with: one of them at a time is between its layers. */
typedef struct lh_stage_resources {
    lh_model_config config; /* as the member computes it (division.h) */
    lh_compute compute;
    bool is_first, is_last;
    lh_division division;
    lh_parameters weights;
    lh_scratch scratch;
    lh_head *head;        /* last stage */
    lh_mask_store *masks; /* likewise */
    float *outgoing;      /* one shard, tightly packed; room for all columns */
    float *packing;       /* as much of a device that packs them for the wire; NULL: none does */
} lh_stage_resources;

typedef enum lh_step_state {
    LH_STEP_FREE,
    LH_STEP_BEGUN,
    LH_STEP_FINISHED,
    LH_STEP_FAILED
} lh_step_state;

/* Lists have room for the rows of the largest step. */
struct lh_stage_step {
    lh_stage *owner;
    lh_step_state state;             /* the owner's to set, */
    lh_kv_reservation *reservations; /* as these are to make and to give up: [segment_count] */
    lh_stage_step *next_free;        /* likewise */

    lh_stage_resources *stage;
    lh_member member;
    lh_activation_buffer buffer;
    lh_shard_tracker tracker; /* not on the first stage */
    /* columns over which the first norm and the QKV projection have gone */
    uint32_t projected;
    uint32_t rows, segment_count, run_count, output_count;
    uint32_t first_rows;       /* of the first half (halves.h) */
    lh_step_cut cut;           /* not on the last stage: at least one shard */
    bool ends_here;            /* no shards */
    lh_step_segment *segments; /* [segment_count] */
    lh_position_run *runs;     /* [run_count] */
    lh_head_row *outputs;      /* [output_count]: rows that something is asked of; last stage */
};

/* For at most so many rows; the step, zeroed, is the caller's. On an error it can be reset.
 * LH_ERR_NO_MEMORY. */
lh_status lh_stage_step_init(lh_stage_step *step, lh_stage_resources *stage, uint32_t rows,
                             lh_error *error);
void lh_stage_step_reset(lh_stage_step *step);

/* Takes a batch that has passed its check, and whose positions are reserved; the first stage
 * embeds. */
void lh_stage_step_start(lh_stage_step *step, const lh_batch *batch);
/* As lh_stage_accept. */
lh_status lh_stage_step_accept(lh_stage_step *step, const lh_stage_shard *shard, lh_error *error);
/* All layers, with the shards of the result or the sampling; the step must be ready. Errors as
 * lh_stage_finish. */
lh_status lh_stage_step_run(lh_stage_step *step, const lh_stage_output *output, lh_error *error);
