/* Experts on CPUs: the operations of lh_ops on the slots of a step (experts.h). Choosing is by
 * rows, on all threads; the slots are a counting sort by expert; products are of the rows of each
 * expert gathered side by side; sums go expert by expert over a span of columns, which is a
 * thread's own.
 *
 * The contracts are those of lh_ops. Thread: the compute thread. */
#pragma once

#include "worker/compute/stage/ops.h"

/* Slots [first, first + count), which are rows that go through one expert. */
typedef struct lh_expert_group {
    uint32_t expert, first, count;
} lh_expert_group;

/* Rows of a group that are summed at a time. */
#define LH_EXPERT_SUM_ROWS 64u

typedef struct lh_expert_slots {
    const lh_model_config *config;
    /* of each row */
    uint32_t *chosen; /* [rows][used], ascending */
    float *shares;    /* [rows][used] */
    /* of each slot */
    uint32_t count;
    uint32_t *rows;          /* [rows * used] */
    float *slot_shares;      /* [rows * used] */
    float *scale;            /* [rows * used]: that of its row */
    lh_packed x;             /* [rows * used][width] */
    lh_expert_group *groups; /* [experts]; of the experts that were chosen, in their order */
    uint32_t group_count;
    uint32_t *next;       /* [experts]: slots of each, then where the next one goes */
    lh_product *products; /* [2 * experts] */
    float *sums;          /* [threads][LH_EXPERT_SUM_ROWS][lh_row_stride(width)] */
} lh_expert_slots;

void *lh_expert_slots_open(const lh_compute *compute, const lh_model_config *config,
                           const lh_parameters *weights, uint32_t rows);
void lh_expert_slots_close(const lh_compute *compute, void *slots);
const float *lh_expert_slots_route(const lh_compute *compute, void *slots, float *logits,
                                   const float *bias, const float *scale, uint32_t rows);
/* At most two products. */
void lh_expert_slots_products(const lh_compute *compute, void *slots,
                              const lh_expert_product *products, uint32_t count,
                              const lh_packed *x);
void lh_expert_slots_sum(const lh_compute *compute, void *slots, const lh_expert_product *product,
                         const lh_packed *x, lh_span out);
void lh_expert_slots_sigmoid(const lh_compute *compute, float *y, const float *x, size_t stride,
                             uint32_t rows);
