/* A sequence's place in the grammar that its answer has to follow: the mask of the token that is
 * drawn next, and what need not be drawn at all, since nothing else may come. Of a sequence
 * without a grammar it is all zeros. Thread: one at a time. */
#pragma once

#include "gateway/constrain/constraint.h"

typedef struct lh_guide {
    lh_constraint_state *state; /* NULL: there is no grammar */
    const lh_mask *mask;        /* of the next draw: the guide's; NULL: there is no next draw */
} lh_guide;

/* At the beginning of the answer; the mask is not there yet. constraint NULL: no grammar.
 * LH_ERR_NO_MEMORY. */
lh_status lh_guide_init(lh_guide *guide, lh_constraint *constraint, lh_error *error);
/* Where another one is, with its mask: at no cost, until one of them moves on. Both are for one
 * thread from then on. */
void lh_guide_init_as(lh_guide *guide, const lh_guide *other);
void lh_guide_reset(lh_guide *guide);

/* Whether the token may be the next one; without a grammar any may. The mask is there. */
bool lh_guide_allows(const lh_guide *guide, uint32_t token);
/* The answer goes on with a token, which was allowed; the mask is gone. Errors of
 * lh_constraint_state_take. */
lh_status lh_guide_take(lh_guide *guide, uint32_t token, lh_error *error);
/* The answer goes on with the tokens that must come, as many as are known and `max` at most: they
 * are in tokens[*count]. keeps_end: where they end the answer, the last one is left to be drawn.
 * LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_guide_take_forced(lh_guide *guide, bool keeps_end, uint32_t *tokens, uint32_t max,
                               uint32_t *count, lh_error *error);
/* What the calls above and below have looked at so far (lh_constraint_state_work). */
uint64_t lh_guide_work(const lh_guide *guide);
/* Nothing may come any more. */
bool lh_guide_is_finished(const lh_guide *guide);
/* Makes the mask of the next draw; the answer is not finished. Without a grammar it does nothing.
 * LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_guide_find_mask(lh_guide *guide, lh_error *error);
