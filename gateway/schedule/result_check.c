/* The last worker is believed nothing that a sound one could not say. */
#include "gateway/schedule/result_check.h"

/* Not NaN, and not above 0 by more than rounding. */
static bool is_logprob(float value) {
    return value < 1;
}

static bool are_plausible(uint32_t vocabulary, const lh_token_logprob *tops, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (tops[i].token >= vocabulary || !is_logprob(tops[i].logprob))
            return false;
    return true;
}

/* sequence: NULL where nobody waits for it. */
static bool is_draw_plausible(uint32_t vocabulary, const lh_sequence *sequence,
                              const lh_sample_result *sample) {
    uint32_t top_max = sequence ? sequence->request.sampling.top_logprobs : LH_TOP_LOGPROBS_MAX;
    return sample->token < vocabulary && is_logprob(sample->logprob) &&
           sample->top_count <= top_max &&
           (!sequence || lh_guide_allows(&sequence->guide, sample->token)) &&
           are_plausible(vocabulary, sample->top, sample->top_count);
}

static bool is_score_plausible(uint32_t vocabulary, const lh_step_scoring *scoring,
                               const lh_token_score *score) {
    return is_logprob(score->logprob) && score->rank >= 1 && score->rank <= vocabulary &&
           score->top_count <= scoring->top &&
           are_plausible(vocabulary, score->top, score->top_count);
}

/* Those of one sequence come in order, and all of them before its first token. */
static bool are_scores_due(const lh_sequence *sequence, const lh_inflight_segment *segment) {
    const lh_step_scoring *scoring = &segment->scoring;
    const lh_sequence_request *request = &sequence->request;
    uint32_t first = segment->first_position + scoring->first_row;
    if (scoring->rows > 0 && first != sequence->scored)
        return false;
    return !segment->sample || !request->scores_prompt ||
           sequence->scored + scoring->rows + 1 >= request->prompt_tokens;
}

/* Of one sequence in order, too; no row has a value beyond the greatest. */
static bool are_sums_plausible(uint32_t width, const lh_inflight_segment *segment,
                               const lh_step_result *result) {
    const lh_step_pooling *pooling = &segment->pooling;
    const lh_sequence *sequence = segment->sequence;
    int64_t most = (int64_t)pooling->rows * (int64_t)LH_POOLED_VALUE_MAX << LH_POOLED_UNIT_BITS;
    if (result->pooled_count != (pooling->rows > 0 ? width : 0))
        return false;
    for (uint32_t i = 0; i < result->pooled_count; i++)
        if (result->pooled[i] < -most || result->pooled[i] > most)
            return false;
    return !sequence || sequence->request.pooling != LH_POOLING_MEAN ||
           segment->first_position + pooling->first_row == sequence->scored;
}

bool lh_result_lacks_mask(const lh_inflight_segment *segment, const lh_step_result *result) {
    return segment->mask && result->sample.token == LH_STEP_NO_TOKEN;
}

bool lh_result_is_plausible(const lh_inflight_segment *segment, const lh_step_result *result,
                            uint32_t vocabulary, uint32_t width) {
    const lh_step_scoring *scoring = &segment->scoring;
    const lh_sequence *sequence = segment->sequence;
    if (result->score_count != scoring->rows || (sequence && !are_scores_due(sequence, segment)))
        return false;
    if (!are_sums_plausible(width, segment, result))
        return false;
    for (uint32_t i = 0; i < scoring->rows; i++)
        if (!is_score_plausible(vocabulary, scoring, &result->scores[i]))
            return false;
    return !segment->sample || lh_result_lacks_mask(segment, result) ||
           is_draw_plausible(vocabulary, sequence, &result->sample);
}
