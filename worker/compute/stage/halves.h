/* A step of a stage that several members compute, on its way through the layers in two halves:
 * while the gather of one is on the wire, the other one's product is computed.
 *
 *   compute   A attend   B attend   A Wo        B Wo       A Wg Wu     B Wg Wu      A Wd ...
 *   wire                 A attended B attended  A h        B h         A gated      B gated
 *
 * Halves are rows of the step, the earlier ones first, so that B's attention finds the keys and
 * values of A in the same layer. Each row's sums are those that it has in a whole step: not a bit
 * depends on it. What both halves write lies apart, being other rows of the same arrays; only of
 * the slots of a mixture, which are sorted by expert, each half has its own.
 *
 * Two halves read the weights twice, which a step of many rows does not notice: so small ones stay
 * whole. Since all members must gather the same, that depends on nothing but the model and the
 * rows. Thread: the compute thread. */
#pragma once

#include "worker/compute/stage/layer.h"

typedef struct lh_half {
    lh_layer_run run;    /* rows, runs and arrays are the half's, numbered from its first row */
    lh_gathering pieces; /* what the next part of the layer reads (layer.h) */
    lh_activation_buffer buffer;
    lh_scratch scratch;
} lh_half;

typedef struct lh_halves {
    uint32_t count; /* 1: the step is whole */
    lh_half of[2];
} lh_halves;

/* The rows of the first half of a step of so many; all of them: it stays whole. A multiple of
 * LH_PART_ROWS, where the runs must be cut; never fewer than those of the second half. Where norms
 * are over all heads of a row it stays whole: their gathers would be too many under way at once. */
uint32_t lh_halves_first_rows(const lh_model_config *config, uint32_t members, uint32_t rows);

/* The whole step as the only half. */
void lh_halves_make_whole(lh_halves *halves, const lh_layer_run *whole);
/* In two. runs: those of `whole`, of which none crosses the bound; those of the second half are
 * numbered anew. The halves use the arrays of `whole`, and are not moved. */
void lh_halves_make(lh_halves *halves, const lh_layer_run *whole, uint32_t first_rows,
                    lh_position_run *runs);
