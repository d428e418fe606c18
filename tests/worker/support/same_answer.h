/* Whether two draws are the same in all that is reported of them. */
#pragma once

#include "common/protocol/row_answer.h"

#include <string.h>

static inline bool same_draw(const lh_row_answer *a, const lh_row_answer *b) {
    return a->token == b->token && memcmp(&a->logprob, &b->logprob, sizeof a->logprob) == 0 &&
           a->digest == b->digest && a->top_count == b->top_count &&
           (a->top_count == 0 || memcmp(a->top, b->top, a->top_count * sizeof *a->top) == 0);
}
