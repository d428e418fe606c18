/* The steps that are on their way through a chain: which sequences' rows each holds, which tokens
 * are still due, which pages come back with it, and when it is overdue. The KV store is told of
 * what becomes of their rows, the ledger of masks of what the last worker has. Records are
 * allocated at start. Thread: one at a time. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/step.h"
#include "gateway/cost/overlap_plan.h"
#include "gateway/kv/kv_store.h"
#include "gateway/schedule/mask_ledger.h"
#include "gateway/schedule/sequence.h"
#include "gateway/trace/trace_step.h"

#include <stdbool.h>
#include <stdint.h>

/* Of one step. */
#define LH_INFLIGHT_TRUNCATIONS_MAX 256u

typedef struct lh_inflight_segment {
    /* NULL: it has ended or was preempted, and nobody waits for the rows */
    lh_sequence *sequence;
    lh_block_table *block_table;
    lh_block_table *source; /* where the rows fork from; NULL: nowhere */
    uint32_t first_position, rows;
    lh_row_due due;     /* what its answer consists of */
    lh_kept_mask *mask; /* of the draw; NULL: none */
    bool has_come;      /* its answer */
    bool brings_mask;
    bool is_first; /* rows of its sequence since that got its pages */
} lh_inflight_segment;

typedef struct lh_inflight_step {
    uint64_t step; /* 0: the record is free */
    lh_step_class step_class;
    int64_t submitted_us;
    int64_t due_us;  /* overdue from then on */
    double alone_us; /* it would take on an empty chain; 0: not known */
    uint32_t rows, segment_count, truncation_count;
    uint32_t results_due;          /* that are still to come; 0: it is complete */
    lh_inflight_segment *segments; /* room for segments_max */
    lh_block_table **truncations;  /* room for LH_INFLIGHT_TRUNCATIONS_MAX */
    uint32_t mask_drop_count;
    lh_kept_mask **mask_drops; /* room for LH_STEP_MASK_DROPS_MAX */
    bool is_through;           /* the whole chain has computed it */
    bool draws_often;          /* more than is reckoned with in what it would take */
    bool wants_cancel, is_cancelled;
    /* cancelled, and its request is closed; kept until the workers have surely dropped it too */
    bool is_answered;
} lh_inflight_step;

typedef struct lh_inflight lh_inflight;

typedef struct lh_inflight_options {
    lh_kv_store *store;                /* outlives it */
    lh_mask_ledger *masks;             /* likewise */
    const lh_overlap_planner *planner; /* outlives it: knows what steps take */
    int64_t step_timeout_us;
    uint32_t steps_max, segments_max;
} lh_inflight_options;

/* LH_ERR_NO_MEMORY. */
lh_status lh_inflight_create(const lh_inflight_options *options, lh_inflight **inflight,
                             lh_error *error);
/* NULL is allowed. */
void lh_inflight_destroy(lh_inflight *inflight);

/* ---- Leaving ---- */

/* A free record, not yet counted: lh_inflight_launch does. NULL: all are in use. */
lh_inflight_step *lh_inflight_blank(lh_inflight *inflight);
/* Steps are numbered from 1 since lh_inflight_drop_all. */
void lh_inflight_launch(lh_inflight *inflight, lh_inflight_step *step, int64_t now_us);
/* Whether the pipeline takes one more step with rows of this class, of which `depth` may be under
 * way. Some places are kept for truncations, without which nothing that was cancelled would ever
 * land, and for decode steps beside those of prompts. */
bool lh_inflight_has_place(const lh_inflight *inflight, lh_step_class step_class, uint32_t depth);

/* Under way with rows of a class, without rows, and all whose answer is due. */
uint32_t lh_inflight_count(const lh_inflight *inflight, lh_step_class step_class);
uint32_t lh_inflight_empties(const lh_inflight *inflight);
uint32_t lh_inflight_total(const lh_inflight *inflight);

/* ---- Coming back ---- */

/* NULL: not in flight. */
lh_inflight_step *lh_inflight_find(const lh_inflight *inflight, uint64_t step);
/* The segment that waits for this result; NULL: none. */
lh_inflight_segment *lh_inflight_step_awaits(lh_inflight_step *step, const lh_step_result *result);
/* The result of a segment that has one has come. */
void lh_inflight_step_note_result(lh_inflight_step *step, lh_inflight_segment *segment);
/* How many times as long as predicted the complete step has taken, until now; 0: that is not known,
 * or it has not had the chain for itself. */
double lh_inflight_times_as_long(const lh_inflight *inflight, const lh_inflight_step *step,
                                 int64_t now_us);
/* The complete step has come around the ring: its answer may still be on its way back, but it is no
 * longer under way. May be told more than once. */
void lh_inflight_pass(lh_inflight *inflight, lh_inflight_step *step);
/* The whole chain has taken the complete step, and whatever was cancelled before it. */
void lh_inflight_land(lh_inflight *inflight, lh_inflight_step *step);
/* The chain broke: nothing is under way any more. */
void lh_inflight_drop_all(lh_inflight *inflight);

/* ---- Sequences ---- */

/* Whether a step under way has rows of the sequence. */
bool lh_inflight_holds(const lh_inflight *inflight, const lh_sequence *sequence);
/* The sequence waits for none of its rows any more. */
void lh_inflight_detach(lh_inflight *inflight, const lh_sequence *sequence);
/* Steps that nobody needs any more are to be cancelled. */
void lh_inflight_cancel_futile(lh_inflight *inflight);
/* The next step to be cancelled, the last one first: so a worker never has one whose predecessor
 * has been taken away. False: none. */
bool lh_inflight_next_cancel(lh_inflight *inflight, uint64_t *step);

/* What traced requests have in the step, each once: parts[max] at most; returns how many. */
uint32_t lh_inflight_step_traced_parts(const lh_inflight_step *step, lh_trace_part *parts,
                                       uint32_t max);
/* What each stage is believed to compute for a step that has one prompt's rows: us[stages of the
 * chain], LH_COST_STAGES_MAX at most; returns how many, 0: it is not known. */
uint32_t lh_inflight_step_believed_us(const lh_inflight *inflight, const lh_inflight_step *step,
                                      double *us);

/* ---- What does not come back ---- */

/* When the first step is overdue; INT64_MAX: none will be. */
int64_t lh_inflight_overdue_us(const lh_inflight *inflight);
/* The first step that is overdue also by what is known now; NULL: none is. Each one that is found
 * doubles the patience with the next, until a step lands. */
const lh_inflight_step *lh_inflight_find_overdue(lh_inflight *inflight, int64_t now_us);
