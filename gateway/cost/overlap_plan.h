/* How one prompt is cut: its chunks, the column shards on each hop, and how many chunks are under
 * way at once.
 *
 * The planner searches the shapes that the cost model predicts to be fast:
 *   - whole: no decomposition;
 *   - chunks of one length, in number 1, 2, 3, 4, 6 ... ;
 *   - the same with ramps: the first ones b/8, b/4, b/2 fill the pipe early, the last ones b/2,
 *     b/4, b/8 drain it;
 *   - on each hop between workers 1, 2, 3, 4, 6 or 8 column shards, even or with half-wide ones at
 *     an end.
 * Coarse to fine, within a budget of predicted steps, so that it takes well under a millisecond. A
 * piece must earn its keep: twice as many must save SAVING_PER_DOUBLING (overlap_search.c), since
 * each has costs that no model knows.
 *
 * It does not flap: prompts of about the same length keep the shape that they have, with what has
 * been measured since, until what another one is predicted to save adds up: at once where it is
 * much, else over some prompts.
 *
 * It does no harm: what prompts of about the same length took that had the chain for themselves is
 * remembered beside what was predicted, apart for those that went without overlap. Where the last
 * ones took longer, all of them, than going without is believed to take, or has taken, further ones
 * go without, until the chain or its costs have changed much.
 *
 * The depth is the least number of chunks under way with which the prediction is as good as with
 * all of them; but never less than keeps the busiest part busy when more prompts follow, which is
 * the ring's latency over its time for a chunk (Little's law); and half of that on top for what
 * varies, since a chunk that waits costs nothing.
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/cost/cost_model.h"
#include "gateway/cost/overlap_spec.h"

#include <stdbool.h>

typedef struct lh_overlap_plan {
    uint32_t position, rows; /* the part of a sequence that it covers */
    uint32_t chunk_count;
    /* rows of each; what they leave over goes in steps of rows_max */
    uint16_t chunks[LH_COST_CHUNKS_MAX];
    /* of each hop between workers: codes of overlap_shape.h; 0: one shard */
    uint8_t cuts[LH_COST_STAGES_MAX];
    uint32_t cut_count;
    uint32_t depth;                        /* chunks under way at once */
    bool is_serial;                        /* one at a time: off */
    bool is_chosen;                        /* by the planner: auto */
    uint32_t revision;                     /* of the planner's inputs */
    double predicted_us, bound_us, off_us; /* 0: not measured yet */
} lh_overlap_plan;

/* Rows of the chunk that begins at this position of the sequence. */
uint32_t lh_overlap_plan_rows_at(const lh_overlap_plan *plan, uint32_t position, uint32_t rows_max);
/* "whole", "4x64", "8+16+32+6x64+32+16 c4,4+": chunks, then the shards of each hop ('-': one; '<',
 * '>', '=': a half-wide one first, last, at both ends). Returns text. */
const char *lh_overlap_plan_text(const lh_overlap_plan *plan, char *text, size_t capacity);

typedef struct lh_overlap_planner lh_overlap_planner;

/* rows_max: of one step. depth_max: chunks that may be under way. LH_ERR_NO_MEMORY. */
lh_status lh_overlap_planner_create(uint32_t rows_max, uint32_t depth_max,
                                    lh_overlap_planner **planner, lh_error *error);
void lh_overlap_planner_destroy(lh_overlap_planner *planner);

/* What is known of the chain now: copied. Where it is not all there (lh_cost_chain_check), plans
 * are the default: chunks of 64 rows, no column shards. */
void lh_overlap_planner_update(lh_overlap_planner *planner, const lh_cost_chain *chain);
/* Another chain, of so many stages, of which nothing is known: choices are forgotten. */
void lh_overlap_planner_forget(lh_overlap_planner *planner, uint32_t stage_count);
/* Changes when the inputs have changed so much that plans in progress should be made anew. */
uint32_t lh_overlap_planner_revision(const lh_overlap_planner *planner);
/* NULL: predictions can be made; else what is missing for it. */
const char *lh_overlap_planner_lacks(const lh_overlap_planner *planner);
const lh_cost_chain *lh_overlap_planner_chain(const lh_overlap_planner *planner);
/* The same; NULL: predictions cannot be made. */
const lh_cost_chain *lh_overlap_planner_costs(const lh_overlap_planner *planner);

/* A plan for `rows` > 0 rows from a position on. follows: other chunks are under way before it, so
 * that the pipe need not be filled. */
void lh_overlap_planner_plan(lh_overlap_planner *planner, const lh_overlap_spec *spec,
                             uint32_t position, uint32_t rows, bool follows, lh_overlap_plan *plan);
/* The same for `rows` that are left of what a plan was made for, from a position on, since the
 * revision has changed: the plan is replaced where another is predicted to be clearly faster by
 * what is known now, and else stands. */
void lh_overlap_planner_renew(lh_overlap_planner *planner, const lh_overlap_spec *spec,
                              uint32_t position, uint32_t rows, bool follows,
                              lh_overlap_plan *plan);
/* A prompt that went by this plan and had the chain for itself took so long, from its first step's
 * leaving to its first token. */
void lh_overlap_planner_note(lh_overlap_planner *planner, const lh_overlap_plan *plan,
                             double took_us);
/* What prompts that had the chain for themselves took, all together, beside what was predicted for
 * them, what a perfect pipe of the same parts would take, and what they would without overlap. */
typedef struct lh_overlap_totals {
    uint64_t prompts;
    double measured_us, predicted_us, bound_us, off_us;
} lh_overlap_totals;
lh_overlap_totals lh_overlap_planner_totals(const lh_overlap_planner *planner);
/* A plan for a prompt, without changing what the planner keeps: for showing. */
void lh_overlap_planner_show(const lh_overlap_planner *planner, uint32_t rows,
                             lh_overlap_plan *plan);
