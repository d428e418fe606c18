/* Scores are kept token by token, the sum as it comes. */
#include "gateway/openai/prompt_answer.h"

#include <stdlib.h>
#include <string.h>

lh_status lh_prompt_answer_init(lh_prompt_answer *answer, const lh_sequence_request *request,
                                const uint32_t *tokens, uint32_t count, lh_error *error) {
    *answer = (lh_prompt_answer){.asks_scores = request->scores_prompt,
                                 .asks_pooled = request->pooling != LH_POOLING_NONE};
    return answer->asks_scores ? lh_prompt_scores_init(&answer->scores, tokens, count, error)
                               : LH_OK;
}

void lh_prompt_answer_reset(lh_prompt_answer *answer) {
    lh_prompt_scores_reset(&answer->scores);
    free(answer->pooled);
    *answer = (lh_prompt_answer){0};
}

static lh_status take_pooled(lh_prompt_answer *answer, const lh_row_answer *part, lh_error *error) {
    if (answer->pooled)
        return lh_fail(error, LH_ERR_INTERNAL, "the hidden state of the prompt has come twice");
    answer->pooled = malloc(part->pooled_count * sizeof *answer->pooled);
    if (!answer->pooled)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the hidden state of a prompt");
    memcpy(answer->pooled, part->pooled, part->pooled_count * sizeof *answer->pooled);
    answer->pooled_count = part->pooled_count;
    return LH_OK;
}

lh_status lh_prompt_answer_take(lh_prompt_answer *answer, const lh_sequence_event *event,
                                lh_error *error) {
    return event->answer->pooled_count > 0 ? take_pooled(answer, event->answer, error)
                                           : lh_prompt_scores_take(&answer->scores, event, error);
}

lh_status lh_prompt_answer_check(const lh_prompt_answer *answer, lh_error *error) {
    const lh_prompt_scores *scores = &answer->scores;
    if (answer->asks_pooled && !answer->pooled)
        return lh_fail(error, LH_ERR_INTERNAL, "no hidden state has come of the prompt");
    if (answer->asks_scores && !lh_prompt_scores_are_whole(scores))
        return lh_fail(error, LH_ERR_INTERNAL,
                       "the scores of %u of %u tokens of the prompt have come", scores->known,
                       scores->count);
    return LH_OK;
}
