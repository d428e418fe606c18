/* What a stage and its steps are made of: for the files stage*.c alone. */
#pragma once

#include "worker/stage/arrival.h"
#include "worker/stage/claim.h"
#include "worker/stage/head.h"
#include "worker/stage/layer.h"
#include "worker/stage/stage.h"

typedef enum lh_step_state { LH_STEP_FREE, LH_STEP_BEGUN, LH_STEP_FINISHED, LH_STEP_FAILED } lh_step_state;

struct lh_stage_step {
    lh_stage *stage;
    lh_step_state state;
    lh_panel panel;
    lh_arrival arrival; /* not on the first stage */
    uint32_t taken;     /* columns that the first norm and product have taken */
    uint32_t rows, segment_count, run_count, sample_count;
    lh_column_cut cut;          /* not on the last stage: at least one shard */
    bool ends_here;             /* no shards */
    lh_batch_segment *segments; /* [segment_count]; room for rows_max, as in the others */
    lh_claim *claims;           /* [segment_count] */
    lh_position_run *runs;      /* [run_count] */
    lh_head_row *samples;       /* [sample_count]; last stage */
    uint32_t *sample_segments;  /* [sample_count]: whose they are */
    char *lists;                /* biases and counts of the segments */
    size_t lists_bytes;
    lh_stage_step *next_free;
};

struct lh_stage {
    lh_model_config config;
    lh_stage_options options;
    lh_compute compute;
    bool is_first, is_last;
    uint32_t context;
    lh_parameters weights;
    lh_kv_cache *kv;
    lh_scratch scratch;
    lh_head *head;        /* last stage */
    float *outgoing;      /* one shard, tightly packed; room for all columns */
    lh_stage_step *steps; /* [steps_max] */
    lh_stage_step *free_steps;
};
