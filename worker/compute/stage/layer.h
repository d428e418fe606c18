/* The transformer layer (RMSNorm, rotary positions, grouped-query attention, a gated feed-forward
 * part, and what the architecture has besides) on the rows of one step, as a list of operations. A
 * layer is cut into parts where a stage begins and ends inside it. Thread: the compute thread. */
#pragma once

#include "common/model/model.h"
#include "worker/compute/stage/activation_buffer.h"
#include "worker/compute/stage/gathering.h"
#include "worker/compute/stage/ops.h"
#include "worker/compute/stage/parameters.h"

/* One step on its way through the layers. */
typedef struct lh_layer_run {
    const lh_compute *compute;
    const lh_model_config *config; /* as the member computes it */
    lh_member *member;
    lh_activation_buffer *buffer;
    lh_scratch *scratch;
    uint32_t rows;
    uint32_t angles;             /* cosines, or sines, of a row: rope_dims / 2 */
    const lh_position_run *runs; /* [run_count], each of at most LH_ATTENTION_ROWS rows */
    uint32_t run_count;
} lh_layer_run;

/* Columns of h have come: goes on with the attention's norm and q, k, v. Spans ascend from 0 to the
 * width; with the last one q, k and v are complete. */
void lh_layer_project_qkv(const lh_layer_run *run, const lh_layer *layer, lh_span columns);
/* Rotates q and k, and stores k and v. `number` counts the stage's layers: whose pages to use. */
void lh_layer_store_kv(const lh_layer_run *run, const lh_layer *layer, uint32_t number);

/* The parts of a layer behind it. Each takes the pieces that the one before it has begun to gather,
 * and returns those of its own result, of which the member's are computed and on their way. */

/* Attention of q: the inputs of its product. */
lh_gathering lh_layer_attend(const lh_layer_run *run, const lh_layer *layer, uint32_t number);
/* What attention adds to h. */
lh_gathering lh_layer_project_attended(const lh_layer_run *run, const lh_layer *layer,
                                       lh_gathering attended);
/* The inputs of the down projection. */
lh_gathering lh_layer_project_up(const lh_layer_run *run, const lh_layer *layer, lh_gathering sums);
/* The same of a member that is alone, for which a device has repeated all that comes before:
 * nothing is asked of it. */
lh_gathering lh_layer_repeated_up(const lh_layer_run *run, const lh_layer *layer);
/* Whether columns of the result are complete one after the other; otherwise (a norm behind the
 * feed-forward part) none is before all are. */
static inline bool lh_layer_projects_down_by_columns(const lh_layer *layer) {
    return !layer->ffn_post_norm;
}
/* Where all rows go through a shared expert besides those that are chosen: the columns `out` of h
 * get what the chosen ones add, and the inputs of its down projection are gathered. Elsewhere
 * `gated` again. */
lh_gathering lh_layer_sum_experts(const lh_layer_run *run, const lh_layer *layer,
                                  lh_gathering gated, lh_span out);
/* Completes the columns `out` of what the layer adds to h: any span where
 * lh_layer_projects_down_by_columns, all of them elsewhere. A member that is alone may ask for one
 * span after the other, with the same `gated`; one of several asks for all of them, once, and
 * completes its own. */
lh_gathering lh_layer_project_down(const lh_layer_run *run, const lh_layer *layer,
                                   lh_gathering gated, lh_span out);
/* The columns of h behind it, as all members have completed them. */
lh_gathering lh_layer_take_sums(const lh_layer_run *run, const lh_layer *layer, lh_gathering sums);
