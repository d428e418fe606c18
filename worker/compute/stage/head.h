/* The end of the model: final norm, output head, sampler and scorer, for the rows that draw a token
 * or tell what the token after them was worth; and for those that are pooled the norm alone.
 * Thread: the compute thread. */
#pragma once

#include "common/protocol/step_parts.h"
#include "worker/compute/stage/layer.h"
#include "worker/compute/stage/logits.h"
#include "worker/compute/stage/sampler.h"

/* Rows that share one pass over the head's weights, and whose logits are there at once. More would
 * cost vocabulary * 4 bytes each and save little: the pass is bound by arithmetic from here on. */
#define LH_HEAD_ROWS 16u

typedef struct lh_head lh_head;

/* rows: the most of one step. LH_ERR_NO_MEMORY. */
lh_status lh_head_create(const lh_model_config *config, const lh_parameters *weights,
                         const lh_compute *compute, uint32_t rows, lh_head **head, lh_error *error);
void lh_head_destroy(lh_head *head);

/* A row of h that draws a token, or is pooled, or else scores one. */
typedef struct lh_head_row {
    uint32_t row;
    bool is_pooled;
    const lh_sampling *sampling; /* NULL: scores */
    uint32_t token, top;         /* that is scored, and how many others are told */
    const uint64_t *mask;        /* NULL: all tokens may be drawn */
    bool lacks_mask;             /* it is not here: LH_STEP_NO_TOKEN is drawn */
} lh_head_row;

/* Where results go; number counts the rows given. */
typedef struct lh_head_events {
    void *context;
    void (*on_logits)(void *context, uint32_t number, const float *logits); /* may be NULL */
    void (*on_result)(void *context, uint32_t number, const lh_sample_result *result);
    void (*on_score)(void *context, uint32_t number, const lh_token_score *score);
} lh_head_events;

/* h[..][width] -> *sums, [width] and the head's until the next call: the norm of each of
 * rows[count], added up in units of 2^-LH_POOLED_UNIT_BITS. LH_ERR_INVALID: a value is no number,
 * or beyond LH_POOLED_VALUE_MAX. */
lh_status lh_head_pool(lh_head *head, const float *h, const lh_head_row *rows, uint32_t count,
                       const int64_t **sums, lh_error *error);
/* h[..][width] -> a result or a score for each of rows[count], in order. Errors: those of lh_sample
 * and lh_logits_score. */
lh_status lh_head_run(lh_head *head, lh_member *member, const float *h, const lh_head_row *rows,
                      uint32_t count, const lh_head_events *events, lh_error *error);
