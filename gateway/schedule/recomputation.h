/* An answer that is computed again on a chain that nobody else uses: not to be told to anybody, but
 * to be compared with what was answered. Its tokens are known, so it goes through the chain as a
 * prompt does, and each row behind which a token was drawn draws one again. The drawn ones may well
 * be others: the rows after them are those of the answer all the same.
 *
 *     prompt          answer
 *     p p p p p p p p a b c d          rows: the prompt, then a, b, c
 *                   | | | |            draws: at the prompt's last row and at each after it
 *
 * It has pages of its own (kv_store.h): nothing that is cached is used for it or given up for it,
 * and nothing of it stays. It is in no queue and holds no place, and it is nobody's work
 * (fair_share.h). Whoever comes to the chain ends it.
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/kv/kv_store.h"
#include "gateway/schedule/answer_record.h"
#include "gateway/schedule/sequence.h"
#include "gateway/schedule/step_builder.h"

/* Draws that a step has at most: as many rows share one pass over the output matrix. */
#define LH_RECOMPUTATION_DRAWS 16u

typedef enum lh_recomputation_state {
    LH_RECOMPUTATION_NONE,
    LH_RECOMPUTATION_RUNS,
    LH_RECOMPUTATION_DONE,   /* all draws are there */
    LH_RECOMPUTATION_DROPPED /* it had to make way, or the chain broke */
} lh_recomputation_state;

/* All zero: NONE. Only recomputation.c changes the fields; everyone may read them. */
typedef struct lh_recomputation {
    lh_recomputation_state state;
    const lh_answer_record *record; /* the owner's, until it no longer RUNS */
    uint64_t *draws;                /* likewise: [record->draw_count] */
    lh_sequence *sequence;          /* NULL: it does not run */
    uint32_t sent, come;            /* draws */
} lh_recomputation;

/* Begins with a sequence of this number, which no other one of the chain has had. LH_ERR_BUSY: too
 * few pages are free; LH_ERR_NO_MEMORY. It does not run. */
lh_status lh_recomputation_begin(lh_recomputation *again, const lh_answer_record *record,
                                 uint64_t *draws, uint64_t number, lh_kv_store *store,
                                 lh_error *error);
/* Whether there are rows to be sent. */
bool lh_recomputation_has_rows(const lh_recomputation *again);
/* Where its next row stands. It has rows. */
uint32_t lh_recomputation_position(const lh_recomputation *again);
/* Puts its next rows into the step that is being built, at most so many, > 0. */
void lh_recomputation_add(lh_recomputation *again, lh_step_builder *builder, uint32_t rows_max);
/* A draw of it has come. True: it was the last one; _end is to be called. */
bool lh_recomputation_take(lh_recomputation *again, const lh_step_result *result);
/* It runs no longer; no step under way names its sequence (lh_inflight_detach). */
void lh_recomputation_end(lh_recomputation *again, lh_recomputation_state state,
                          lh_kv_store *store);
