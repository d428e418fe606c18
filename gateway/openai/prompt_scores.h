/* What the model gave each token of a prompt, gathered as it comes chunk by chunk. Thread: its
 * owner's. */
#pragma once

#include "gateway/schedule/sequence_request.h"

#include <stddef.h>

/* One token's. */
typedef struct lh_prompt_score {
    uint32_t token;
    float logprob;
    uint32_t rank;
    uint32_t top_count;
    size_t first_top; /* in `tops` */
} lh_prompt_score;

typedef struct lh_prompt_scores {
    /* [count], of which the first `known` are whole; the first one of a prompt has nothing but its
     * token, for nothing is before it */
    lh_prompt_score *list;
    uint32_t count, known;
    lh_token_logprob *tops; /* best first */
    size_t top_count, top_capacity;
    size_t characters; /* of its text where that is echoed; the owner sets it */
} lh_prompt_scores;

/* For a prompt of at least one token. LH_ERR_NO_MEMORY. */
lh_status lh_prompt_scores_init(lh_prompt_scores *scores, const uint32_t *tokens, uint32_t count,
                                lh_error *error);
/* A zeroed one is allowed. */
void lh_prompt_scores_reset(lh_prompt_scores *scores);
/* Takes an event of kind LH_SEQUENCE_PROMPT. LH_ERR_INTERNAL: its scores are not the next ones;
 * LH_ERR_NO_MEMORY. */
lh_status lh_prompt_scores_take(lh_prompt_scores *scores, const lh_sequence_event *event,
                                lh_error *error);
bool lh_prompt_scores_are_whole(const lh_prompt_scores *scores);
