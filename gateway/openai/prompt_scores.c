/* Two arrays: tokens, and the best beside each. */
#include "gateway/openai/prompt_scores.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

static lh_status no_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the scores of a prompt");
}

lh_status lh_prompt_scores_init(lh_prompt_scores *scores, const uint32_t *tokens, uint32_t count,
                                lh_error *error) {
    *scores = (lh_prompt_scores){.count = count, .known = 1};
    scores->list = calloc(count, sizeof *scores->list);
    if (!scores->list)
        return no_memory(error);
    for (uint32_t i = 0; i < count; i++)
        scores->list[i].token = tokens[i];
    return LH_OK;
}

void lh_prompt_scores_reset(lh_prompt_scores *scores) {
    free(scores->list);
    free(scores->tops);
    *scores = (lh_prompt_scores){0};
}

static bool take(lh_prompt_scores *scores, const lh_token_score *score) {
    if (!lh_growing_array_reserve(&scores->tops, &scores->top_capacity,
                                  scores->top_count + score->top_count, sizeof *scores->tops))
        return false;
    lh_prompt_score *to = &scores->list[scores->known++];
    to->logprob = score->logprob;
    to->rank = score->rank;
    to->top_count = score->top_count;
    to->first_top = scores->top_count;
    if (score->top_count > 0)
        memcpy(scores->tops + scores->top_count, score->top, score->top_count * sizeof *score->top);
    scores->top_count += score->top_count;
    return true;
}

lh_status lh_prompt_scores_take(lh_prompt_scores *scores, const lh_sequence_event *event,
                                lh_error *error) {
    const lh_row_answer *answer = event->answer;
    if (event->position != scores->known || answer->score_count > scores->count - scores->known)
        return lh_fail(error, LH_ERR_INTERNAL, "%u scores from token %u on; %u of %u are known",
                       answer->score_count, event->position, scores->known, scores->count);
    for (uint32_t i = 0; i < answer->score_count; i++)
        if (!take(scores, &answer->scores[i]))
            return no_memory(error);
    return LH_OK;
}

bool lh_prompt_scores_are_whole(const lh_prompt_scores *scores) {
    return scores->known == scores->count;
}
