/* The end of the model: the final norm, and then what the rows of a step ask for (row_ask.h), which
 * is read here and nowhere else in a worker: rows that draw a token or score one go through the
 * output head and the sampler or the scorer, rows that are pooled are added up.
 * Thread: the compute thread. */
#pragma once

#include "common/protocol/step_parts.h"
#include "worker/compute/stage/layer.h"
#include "worker/compute/stage/logits.h"
#include "worker/compute/stage/mask_store.h"
#include "worker/compute/stage/sampler.h"

/* Rows that share one pass over the head's weights, and whose logits are there at once. More would
 * cost vocabulary * 4 bytes each and save little: the pass is bound by arithmetic from here on. */
#define LH_HEAD_ROWS 16u

typedef struct lh_head lh_head;

/* rows: the most of one step. LH_ERR_NO_MEMORY. */
lh_status lh_head_create(const lh_model_config *config, const lh_parameters *weights,
                         const lh_compute *compute, uint32_t rows, lh_head **head, lh_error *error);
void lh_head_destroy(lh_head *head);

/* Whether the ask of a segment of so many rows can be honoured. LH_ERR_LIMIT: a token is not in the
 * vocabulary; and the errors of lh_sampling_check. */
lh_status lh_head_check(const lh_row_ask *ask, uint32_t rows, uint32_t vocabulary, lh_error *error);

typedef enum lh_head_work { LH_HEAD_DRAWS, LH_HEAD_SCORES, LH_HEAD_POOLS } lh_head_work;

/* A row of h that does its part of what a segment asks. */
typedef struct lh_head_row {
    uint32_t row, segment;
    lh_head_work work;
    const lh_row_ask *ask;
    uint32_t token;       /* that is scored */
    const uint64_t *mask; /* lh_head_run's */
    bool lacks_mask;      /* likewise: it is not here, and LH_STEP_NO_TOKEN is drawn */
} lh_head_row;

/* Lists the rows that answer the ask of a segment, which outlives them, in ascending order: at most
 * `rows`, from row `first` of h on. tokens: of all rows of h. Returns how many. */
uint32_t lh_head_rows_of(const lh_row_ask *ask, uint32_t segment, uint32_t first, uint32_t rows,
                         const uint32_t *tokens, lh_head_row *list);

/* Where answers go. */
typedef struct lh_head_events {
    void *context;
    /* the logits of a row before the sampler changes them; may be NULL */
    void (*on_logits)(void *context, uint32_t segment, const float *logits);
    /* one call for each row that draws or scores, and one for all pooled rows of a segment, in the
     * order of the rows */
    void (*on_answer)(void *context, uint32_t segment, const lh_row_answer *part);
} lh_head_events;

/* h[..][width] -> the answers of rows[count], which are in order. Errors: those of lh_sample and
 * lh_logits_score; LH_ERR_INVALID: a hidden state that is pooled is no number, or beyond
 * LH_POOLED_VALUE_MAX. */
lh_status lh_head_run(lh_head *head, lh_member *member, const float *h, lh_head_row *rows,
                      uint32_t count, const lh_mask_store *masks, const lh_head_events *events,
                      lh_error *error);
