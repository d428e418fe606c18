/* The transformer layer (RMSNorm, rotary positions, grouped-query attention, a gated feed-forward
 * part, and what the architecture has besides) on the rows of one step, as a list of operations. A
 * layer is cut into parts where a stage begins and ends inside it. Thread: the compute thread. */
#pragma once

#include "common/model/model.h"
#include "worker/compute/stage/activation_buffer.h"
#include "worker/compute/stage/ops.h"
#include "worker/compute/stage/parameters.h"

/* One step on its way through the layers. */
typedef struct lh_layer_run {
    const lh_compute *compute;
    const lh_model_config *config;
    lh_activation_buffer *buffer;
    lh_scratch *scratch;
    uint32_t rows;
    const lh_position_run *runs; /* [run_count], each of at most LH_ATTENTION_ROWS rows */
    uint32_t run_count;
} lh_layer_run;

/* Columns of h have come: goes on with the attention's norm and q, k, v. Spans ascend from 0 to the
 * width; with the last one q, k and v are complete. */
void lh_layer_project_qkv(const lh_layer_run *run, const lh_layer *layer, lh_span columns);
/* Rotates q and k, and stores k and v. `number` counts the stage's layers: whose pages to use. */
void lh_layer_store_kv(const lh_layer_run *run, const lh_layer *layer, uint32_t number);
/* From q to the input of the down projection. */
void lh_layer_attend_and_project_up(const lh_layer_run *run, const lh_layer *layer,
                                    uint32_t number);
/* Whether columns of the result are complete one after the other; otherwise (a norm behind the
 * feed-forward part) none is before all are. */
static inline bool lh_layer_projects_down_by_columns(const lh_layer *layer) {
    return !layer->ffn_post_norm;
}
/* Completes the columns `out` of h: any span where lh_layer_projects_down_by_columns, all of them
 * elsewhere. */
void lh_layer_project_down(const lh_layer_run *run, const lh_layer *layer, lh_span out);
