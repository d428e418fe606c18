/* The last worker is believed nothing that a sound one could not say. */
#include "gateway/schedule/sequence_ask.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <stdlib.h>

/* ---- Asks ---- */

static lh_sampling sampling_of(const lh_sequence *sequence) {
    lh_sampling sampling = sequence->request.sampling;
    sampling.biases = sequence->biases;
    if (lh_sequence_generated(sequence) < sequence->request.min_tokens) {
        sampling.biases += sampling.bias_count;
        sampling.bias_count = sequence->early_bias_count;
    }
    sampling.counter = sequence->length;
    if (sequence->token_counts)
        sampling.counts = lh_token_counts_entries(sequence->token_counts, &sampling.count_count);
    return sampling;
}

/* The rows before the prompt's last one have a token of the prompt after them. */
static lh_row_scoring scoring_of(const lh_sequence *sequence, uint32_t rows) {
    uint32_t first = sequence->kv.computed, end = first + rows;
    uint32_t from = lh_max_u32(first, sequence->scored),
             to = lh_min_u32(end, sequence->request.prompt_tokens - 1);
    assert(end <= sequence->length);
    if (!sequence->request.scores_prompt || from >= to)
        return (lh_row_scoring){.next_token = LH_STEP_NO_TOKEN};
    return (lh_row_scoring){.first_row = from - first,
                            .rows = to - from,
                            .top = sequence->request.prompt_tops,
                            .next_token = to == end ? sequence->history[end] : LH_STEP_NO_TOKEN};
}

static lh_row_pooling pooling_of(const lh_sequence *sequence, uint32_t rows) {
    const lh_sequence_request *request = &sequence->request;
    uint32_t first = sequence->kv.computed;
    uint32_t begin =
        request->pooling == LH_POOLING_LAST ? request->prompt_tokens - 1 : sequence->scored;
    uint32_t from = lh_max_u32(first, begin), to = lh_min_u32(first + rows, request->prompt_tokens);
    if (request->pooling == LH_POOLING_NONE || from >= to)
        return (lh_row_pooling){0};
    return (lh_row_pooling){.first_row = from - first, .rows = to - from};
}

lh_row_ask lh_sequence_ask(const lh_sequence *sequence, uint32_t rows) {
    assert(rows > 0 && rows <= lh_sequence_pending(sequence));
    lh_row_ask ask = {.scoring = scoring_of(sequence, rows),
                      .pooling = pooling_of(sequence, rows),
                      .draws = sequence->request.pooling == LH_POOLING_NONE &&
                               rows == lh_sequence_pending(sequence)};
    if (ask.draws)
        ask.sampling = sampling_of(sequence);
    return ask;
}

bool lh_sequence_is_scored(const lh_sequence *sequence) {
    const lh_sequence_request *request = &sequence->request;
    bool is_scored = !request->scores_prompt || sequence->scored + 1 >= request->prompt_tokens;
    return is_scored &&
           (request->pooling != LH_POOLING_MEAN || sequence->scored >= request->prompt_tokens);
}

/* ---- What can be ---- */

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
                              const lh_row_due *due, const lh_row_answer *answer) {
    return answer->token < vocabulary && is_logprob(answer->logprob) &&
           answer->top_count <= due->top_logprobs &&
           (!sequence || lh_guide_allows(&sequence->guide, answer->token)) &&
           are_plausible(vocabulary, answer->top, answer->top_count);
}

static bool is_score_plausible(uint32_t vocabulary, const lh_row_scoring *scoring,
                               const lh_token_score *score) {
    return is_logprob(score->logprob) && score->rank >= 1 && score->rank <= vocabulary &&
           score->top_count <= scoring->top &&
           are_plausible(vocabulary, score->top, score->top_count);
}

/* Those of one sequence come in order, and all of them before its first token. */
static bool are_scores_due(const lh_sequence *sequence, const lh_inflight_segment *segment) {
    const lh_row_scoring *scoring = &segment->due.scoring;
    const lh_sequence_request *request = &sequence->request;
    uint32_t first = segment->first_position + scoring->first_row;
    if (scoring->rows > 0 && first != sequence->scored)
        return false;
    return !segment->due.draws || !request->scores_prompt ||
           sequence->scored + scoring->rows + 1 >= request->prompt_tokens;
}

/* Sums of one sequence come in order, too; no row has a value beyond the greatest. */
static bool are_sums_plausible(uint32_t width, const lh_inflight_segment *segment,
                               const lh_row_answer *answer) {
    const lh_row_pooling *pooling = &segment->due.pooling;
    const lh_sequence *sequence = segment->sequence;
    int64_t most = (int64_t)pooling->rows * (int64_t)LH_POOLED_VALUE_MAX << LH_POOLED_UNIT_BITS;
    if (answer->pooled_count != (pooling->rows > 0 ? width : 0))
        return false;
    for (uint32_t i = 0; i < answer->pooled_count; i++)
        if (answer->pooled[i] < -most || answer->pooled[i] > most)
            return false;
    return !sequence || sequence->request.pooling != LH_POOLING_MEAN ||
           segment->first_position + pooling->first_row == sequence->scored;
}

bool lh_answer_lacks_mask(const lh_inflight_segment *segment, const lh_row_answer *answer) {
    return segment->mask && answer->token == LH_STEP_NO_TOKEN;
}

bool lh_answer_is_plausible(const lh_inflight_segment *segment, const lh_row_answer *answer,
                            uint32_t vocabulary, uint32_t width) {
    const lh_row_scoring *scoring = &segment->due.scoring;
    const lh_sequence *sequence = segment->sequence;
    if (answer->score_count != scoring->rows || (sequence && !are_scores_due(sequence, segment)))
        return false;
    if (!are_sums_plausible(width, segment, answer))
        return false;
    for (uint32_t i = 0; i < scoring->rows; i++)
        if (!is_score_plausible(vocabulary, scoring, &answer->scores[i]))
            return false;
    return !segment->due.draws || lh_answer_lacks_mask(segment, answer) ||
           is_draw_plausible(vocabulary, sequence, &segment->due, answer);
}

/* ---- What they come to ---- */

static lh_status add_pooled(lh_sequence *sequence, const lh_row_answer *answer, lh_error *error) {
    uint32_t count = answer->pooled_count;
    if (!sequence->pooled)
        sequence->pooled = calloc(count, sizeof *sequence->pooled);
    if (!sequence->pooled)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u columns", count);
    assert(sequence->pooled_count == 0 || sequence->pooled_count == count);
    sequence->pooled_count = count;
    for (uint32_t i = 0; i < count; i++)
        sequence->pooled[i] += answer->pooled[i];
    return LH_OK;
}

/* Scores are told as they come, a sum when it is whole: then nothing more is asked for. */
lh_status lh_sequence_take_prompt_answer(lh_sequence *sequence, const lh_inflight_segment *segment,
                                         const lh_row_answer *answer, lh_prompt_part *part,
                                         lh_error *error) {
    const lh_row_due *due = &segment->due;
    *part = (lh_prompt_part){.is_due = due->scoring.rows > 0,
                             .position = sequence->scored + 1,
                             .answer = {.token = LH_STEP_NO_TOKEN,
                                        .score_count = answer->score_count,
                                        .scores = answer->scores}};
    if (due->pooling.rows > 0) {
        lh_status status = add_pooled(sequence, answer, error);
        if (status != LH_OK)
            return status;
        part->is_due = part->is_end =
            segment->first_position + segment->rows >= sequence->request.prompt_tokens;
        part->position = 0;
        part->answer.pooled_count = sequence->pooled_count;
        part->answer.pooled = sequence->pooled;
    }
    sequence->scored += due->scoring.rows + due->pooling.rows;
    return LH_OK;
}

lh_row_answer lh_sequence_forced_answer(const lh_sequence *sequence, uint32_t token,
                                        lh_token_logprob *top) {
    *top = (lh_token_logprob){.token = token};
    return (lh_row_answer){
        .token = token, .top_count = sequence->request.sampling.top_logprobs > 0, .top = top};
}
