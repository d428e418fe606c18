/* What goes into the next step: decode rows first, else a chunk of a prompt, else rows of an answer
 * that is computed again; truncations ride along or go by themselves. Thread: one at a time. */
#pragma once

#include "gateway/cost/decode_groups.h"
#include "gateway/cost/overlap_plan.h"
#include "gateway/schedule/inflight.h"
#include "gateway/schedule/recomputation.h"
#include "gateway/schedule/running_set.h"

typedef struct lh_batcher lh_batcher;

typedef struct lh_batcher_options {
    /* The parts that it reads and moves; they outlive it. */
    lh_running_set *running;
    lh_inflight *inflight;
    lh_kv_store *store;
    lh_mask_ledger *masks;
    lh_overlap_planner *planner;
    lh_recomputation *again;

    const char *chain_name;          /* that records are told; outlives them */
    lh_overlap_spec overlap;         /* of sequences that have none of their own */
    uint32_t rows_max, segments_max; /* of any step */
    /* of a prompt's step at the slowest stage while others decode; 0: none */
    int64_t step_budget_us;
    uint32_t width;      /* columns of an activation */
    uint32_t vocabulary; /* tokens of a mask */
} lh_batcher_options;

typedef struct lh_batcher_figures {
    uint64_t steps, rows, replayed_rows; /* since start */
    lh_decode_groups groups; /* into which those that decode were last dealt; count 0: none yet */
} lh_batcher_figures;

/* LH_ERR_NO_MEMORY. */
lh_status lh_batcher_create(const lh_batcher_options *options, lh_batcher **batcher,
                            lh_error *error);
/* NULL is allowed. */
void lh_batcher_destroy(lh_batcher *batcher);

/* A chain is up. lost_stages: the first ones, whose caches are empty while the others' are not. */
void lh_batcher_begin_chain(lh_batcher *batcher, uint32_t epoch, uint32_t stages,
                            uint32_t lost_stages);
/* The first step of an epoch whose workers have kept their caches: what goes on of them. */
void lh_batcher_resync(lh_batcher *batcher, int64_t now_us, lh_step_manifest *manifest);
/* The next step, which then counts as in flight. Pointers live until the next call. False: nothing
 * to send now. */
bool lh_batcher_next(lh_batcher *batcher, int64_t now_us, lh_step_manifest *manifest);
/* The token that a prompt's last chunk samples has come. */
void lh_batcher_note_first_token(lh_batcher *batcher, const lh_sequence *sequence, int64_t now_us);

lh_batcher_figures lh_batcher_current_figures(const lh_batcher *batcher);
