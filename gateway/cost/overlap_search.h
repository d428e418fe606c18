/* The search for the shape with which a prompt is predicted to be through first (the idea is in
 * overlap_plan.h). Thread: one at a time for each lh_overlap_search. */
#pragma once

#include "gateway/cost/overlap_shape.h"

typedef struct lh_overlap_search {
    const lh_cost_chain *chain; /* passed lh_cost_chain_check */
    uint32_t position, rows, rows_max, depth_max;
    lh_overlap_shape best;
    double best_score;         /* of it */
    uint32_t predicted_steps;  /* so far: what the search has cost, in steps of one stage */
    uint32_t predicted_chunks; /* of the last prediction */
    uint32_t chunks[LH_COST_CHUNKS_MAX];
    lh_step_cut cuts[LH_COST_STAGES_MAX];
    lh_cost_work work;
} lh_overlap_search;

/* Sets best and best_score. False: the prompt is too long for any shape (steps of rows_max do for
 * it). The fields up to depth_max are the caller's. */
bool lh_overlap_search_run(lh_overlap_search *search);
/* The prediction for one shape with so many chunks under way; a negative number: it does not fit
 * the prompt. */
double lh_overlap_search_predict(lh_overlap_search *search, const lh_overlap_shape *shape,
                                 uint32_t depth);
/* What shapes are compared by: the prediction with depth_max chunks under way, and on top of it
 * what the shape's pieces must save. Negative as above. */
double lh_overlap_search_score(lh_overlap_search *search, const lh_overlap_shape *shape);
/* The least depth, up to depth_max, with which the shape is as fast as with depth_max. */
uint32_t lh_overlap_search_depth(lh_overlap_search *search, const lh_overlap_shape *shape);
