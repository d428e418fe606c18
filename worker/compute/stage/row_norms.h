/* The norms of q and k where they are over all heads of a row (OLMo 2, OLMoE, MiniMax M2), on
 * members that have some of the heads each (division.h).
 *
 * The sum of squares of a row is a chain in each of 16 lanes, which goes through all heads in their
 * order: no part of it can be made without what comes before. So the heads of all members come
 * together first, as floats, and each member norms whole rows, just as one machine does, of which
 * it keeps its own heads. Thread: the compute thread. */
#pragma once

#include "worker/compute/stage/gathering.h"

/* Rows of all members' heads, beside each other; NULL: of a member alone, and of other models. */
typedef struct lh_whole_rows {
    float *q; /* [rows][queries of all], not padded */
    float *k; /* [rows][keys of all], not padded */
} lh_whole_rows;

/* Floats of one row; 0: the model, or the member, has no need of it. config: the member's. */
size_t lh_whole_row_floats(const lh_model_config *config, const lh_division *division);
/* False: out of memory; what there is is reset all the same. */
bool lh_whole_rows_init(lh_whole_rows *whole, const lh_model_config *config,
                        const lh_division *division, const lh_compute *compute, uint32_t rows);
void lh_whole_rows_reset(lh_whole_rows *whole, const lh_compute *compute);

/* q[rows][own heads], k[rows][own KV heads], lh_row_stride apart, normed in place, with the gains
 * of whole rows. Two gathers, unless the member is alone. */
void lh_row_norms(const lh_whole_rows *whole, lh_member *member, const lh_model_config *config,
                  uint32_t rows, float *q, const float *q_gain, float *k, const float *k_gain);
