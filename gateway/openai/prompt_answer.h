/* What a request asks of a prompt's rows, gathered as it is answered: the scores of its tokens, the
 * sum of its hidden states. Thread: its owner's. */
#pragma once

#include "gateway/openai/prompt_scores.h"

typedef struct lh_prompt_answer {
    bool asks_scores, asks_pooled;
    lh_prompt_scores scores;
    int64_t *pooled; /* [pooled_count]; NULL: it has not come */
    uint32_t pooled_count;
} lh_prompt_answer;

/* Begins with nothing for what the request asks of these tokens. LH_ERR_NO_MEMORY. */
lh_status lh_prompt_answer_init(lh_prompt_answer *answer, const lh_sequence_request *request,
                                const uint32_t *tokens, uint32_t count, lh_error *error);
/* A zeroed one is allowed. */
void lh_prompt_answer_reset(lh_prompt_answer *answer);
/* Takes an event of kind LH_SEQUENCE_PROMPT. LH_ERR_INTERNAL: it is not the next one;
 * LH_ERR_NO_MEMORY. */
lh_status lh_prompt_answer_take(lh_prompt_answer *answer, const lh_sequence_event *event,
                                lh_error *error);
/* LH_ERR_INTERNAL: something that was asked for has not come. */
lh_status lh_prompt_answer_check(const lh_prompt_answer *answer, lh_error *error);
