/* A generation's history, and lists of sequences. */
#include "gateway/schedule/sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Added to a stop token's logit while min_tokens are not reached: the largest bias that a sampler
 * takes. No logit of a model comes back from there, and unlike an infinity it cannot make a NaN. */
#define STOP_TOKEN_BAN (-1e6f)

/* Forced tokens that are appended at once: what is left is drawn, from one token each. A step with
 * more rows would hold up the others that decode. */
#define FORCED_MAX 32u

static bool is_stop_token(const lh_sequence *sequence, uint32_t token) {
    for (uint32_t i = 0; i < sequence->request.stop_token_count; i++)
        if (sequence->request.stop_tokens[i] == token)
            return true;
    return false;
}

/* Each stop token once, so that no bias is sent twice. */
static void keep_request(lh_sequence *sequence, const lh_sequence_request *request) {
    sequence->request = *request;
    sequence->request.prompt = NULL;
    sequence->request.constraint = NULL;
    sequence->request.stop_tokens = sequence->stop_tokens;
    sequence->request.stop_token_count = 0;
    for (uint32_t i = 0; i < request->stop_token_count; i++)
        if (!is_stop_token(sequence, request->stop_tokens[i]))
            sequence->stop_tokens[sequence->request.stop_token_count++] = request->stop_tokens[i];
}

/* The user's; and the same with each stop token's replaced by the ban. */
static lh_status copy_biases(lh_sequence *sequence, const lh_sampling *sampling) {
    uint32_t count = sampling->bias_count, stops = sequence->request.stop_token_count;
    if (count + stops == 0)
        return LH_OK;
    lh_token_bias *biases = malloc((2 * (size_t)count + stops) * sizeof *biases);
    if (!biases)
        return LH_ERR_NO_MEMORY;
    lh_token_bias *early = biases + count;
    for (uint32_t i = 0; i < count; i++) {
        biases[i] = sampling->biases[i];
        if (!is_stop_token(sequence, biases[i].token))
            *early++ = biases[i];
    }
    for (uint32_t i = 0; i < stops; i++)
        *early++ = (lh_token_bias){sequence->stop_tokens[i], STOP_TOKEN_BAN};
    sequence->early_bias_count = (uint32_t)(early - biases) - count;
    sequence->biases = biases;
    return LH_OK;
}

static lh_status copy_prompt(lh_sequence *sequence, const lh_sequence_request *request) {
    uint32_t positions = lh_sequence_positions(sequence);
    sequence->history = malloc(positions * sizeof *sequence->history);
    if (!sequence->history)
        return LH_ERR_NO_MEMORY;
    sequence->length = request->prompt_tokens;
    memcpy(sequence->history, request->prompt, sequence->length * sizeof *sequence->history);
    if (!lh_sequence_request_has_penalty(request))
        return LH_OK;
    sequence->token_counts = lh_token_counts_create(positions);
    for (uint32_t i = 0; sequence->token_counts && i < sequence->length; i++)
        lh_token_counts_entry(sequence->token_counts, sequence->history[i])->prompt_count++;
    return sequence->token_counts ? LH_OK : LH_ERR_NO_MEMORY;
}

/* What must come, as far as it does not take the last place. */
static lh_status append_forced(lh_sequence *sequence, bool keeps_end, uint32_t room,
                               lh_error *error) {
    uint32_t tokens[FORCED_MAX], count;
    lh_status status = lh_guide_take_forced(&sequence->guide, keeps_end, tokens,
                                            room < FORCED_MAX ? room : FORCED_MAX, &count, error);
    for (uint32_t i = 0; i < count && status == LH_OK; i++)
        lh_sequence_append(sequence, tokens[i]);
    return status;
}

static void begin_as(lh_sequence *sequence, const lh_sequence *twin) {
    lh_guide_init_as(&sequence->guide, &twin->guide);
    for (uint32_t i = twin->request.prompt_tokens; i < twin->length; i++)
        lh_sequence_append(sequence, twin->history[i]);
}

static lh_status begin_guide(lh_sequence *sequence, const lh_sequence_request *request,
                             const lh_sequence *twin, lh_error *error) {
    if (twin) {
        begin_as(sequence, twin);
        return LH_OK;
    }
    lh_status status = lh_guide_init(&sequence->guide, request->constraint, error);
    if (status == LH_OK)
        status = append_forced(sequence, true,
                               request->max_tokens > 0 ? request->max_tokens - 1 : 0, error);
    return status == LH_OK ? lh_guide_find_mask(&sequence->guide, error) : status;
}

/* What a causal model makes of the first token knows of no other: the rest need not be computed. */
static lh_sequence_request cut_to_first(const lh_sequence_request *request) {
    lh_sequence_request cut = *request;
    if (cut.pooling == LH_POOLING_FIRST) {
        cut.prompt_tokens = 1;
        cut.pooling = LH_POOLING_LAST;
    }
    return cut;
}

lh_status lh_sequence_create_beside(const lh_sequence_request *asked, const lh_sequence *twin,
                                    uint32_t context, lh_sequence **sequence, lh_error *error) {
    lh_status status = lh_sequence_request_check(asked, context, error);
    if (status != LH_OK)
        return status;
    const lh_sequence_request cut = cut_to_first(asked), *request = &cut;
    lh_sequence *s = calloc(1, sizeof *s);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a sequence");
    keep_request(s, request);
    if (copy_biases(s, &request->sampling) != LH_OK || copy_prompt(s, request) != LH_OK) {
        lh_sequence_destroy(s);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a sequence of %u tokens",
                       request->prompt_tokens + request->max_tokens);
    }
    s->told = s->length;
    status = begin_guide(s, request, twin, error);
    if (status != LH_OK) {
        lh_sequence_destroy(s);
        return status;
    }
    *sequence = s;
    return LH_OK;
}

lh_status lh_sequence_create(const lh_sequence_request *asked, uint64_t handle, uint32_t context,
                             lh_sequence **sequence, lh_error *error) {
    lh_status status = lh_sequence_create_beside(asked, NULL, context, sequence, error);
    if (status == LH_OK)
        (*sequence)->handle = handle;
    return status;
}

void lh_sequence_destroy(lh_sequence *sequence) {
    if (!sequence)
        return;
    lh_guide_reset(&sequence->guide);
    lh_token_counts_destroy(sequence->token_counts);
    lh_answer_record_destroy(sequence->record);
    free(sequence->biases);
    free(sequence->pooled);
    free(sequence->history);
    free(sequence);
}

/* ---- Records ---- */

/* Of a grammar nothing but the text is told, and its masks take long to find again. */
bool lh_sequence_is_repeatable(const lh_sequence *sequence) {
    return sequence->request.max_tokens > 0 && !sequence->guide.state;
}

void lh_sequence_keep_record(lh_sequence *sequence) {
    assert(!sequence->record && lh_sequence_is_repeatable(sequence));
    sequence->record = lh_answer_record_create(sequence->request.max_tokens);
}

lh_answer_record *lh_sequence_take_record(lh_sequence *sequence) {
    lh_answer_record *record = sequence->record;
    if (!record || record->draw_count == 0)
        return NULL;
    sequence->record = NULL;
    record->request = sequence->request;
    memcpy(record->stop_tokens, sequence->stop_tokens, sizeof record->stop_tokens);
    record->request.stop_tokens = record->stop_tokens;
    record->request.sampling.biases = record->biases = sequence->biases;
    record->tokens = sequence->history;
    record->token_count = sequence->length;
    record->used_cache = sequence->kv.cached_tokens > 0 || sequence->schedule.preemptions > 0;
    sequence->biases = NULL;
    sequence->history = NULL;
    return record;
}

uint32_t lh_sequence_positions(const lh_sequence *sequence) {
    return sequence->request.prompt_tokens + sequence->request.max_tokens;
}

uint32_t lh_sequence_pending(const lh_sequence *sequence) {
    assert(sequence->kv.computed <= sequence->length);
    return sequence->length - sequence->kv.computed;
}

uint32_t lh_sequence_generated(const lh_sequence *sequence) {
    assert(sequence->length >= sequence->request.prompt_tokens);
    return sequence->length - sequence->request.prompt_tokens;
}

void lh_sequence_append(lh_sequence *sequence, uint32_t token) {
    assert(lh_sequence_generated(sequence) < sequence->request.max_tokens);
    if (sequence->token_counts)
        lh_token_counts_entry(sequence->token_counts, token)->output_count++;
    sequence->history[sequence->length++] = token;
}

lh_status lh_sequence_follow(lh_sequence *sequence, lh_error *error) {
    lh_status status =
        lh_guide_take(&sequence->guide, sequence->history[sequence->length - 1], error);
    uint32_t generated = lh_sequence_generated(sequence);
    if (status == LH_OK)
        status = append_forced(sequence, false, sequence->request.max_tokens - generated, error);
    bool goes_on = lh_sequence_generated(sequence) < sequence->request.max_tokens &&
                   !lh_sequence_is_whole(sequence);
    return status == LH_OK && goes_on ? lh_guide_find_mask(&sequence->guide, error) : status;
}

bool lh_sequence_is_whole(const lh_sequence *sequence) {
    return lh_guide_is_finished(&sequence->guide);
}

bool lh_sequence_stops_at(const lh_sequence *sequence, uint32_t token) {
    return lh_sequence_generated(sequence) >= sequence->request.min_tokens &&
           is_stop_token(sequence, token);
}

lh_prefix_scope lh_sequence_scope(const lh_sequence *sequence) {
    return (lh_prefix_scope){sequence->request.tenant, sequence->request.cache_salt};
}

void lh_sequence_note_refusal(lh_sequence *sequence) {
    lh_sequence_schedule *schedule = &sequence->schedule;
    schedule->failure_count =
        lh_sequence_is_quarantined(sequence) ? schedule->failure_count + 1 : 1;
    schedule->failure_length = sequence->length;
}

bool lh_sequence_is_quarantined(const lh_sequence *sequence) {
    return sequence->schedule.failure_count > 0 &&
           sequence->schedule.failure_length == sequence->length;
}

void lh_sequence_list_push(lh_sequence_list *list, lh_sequence *sequence) {
    assert(!sequence->previous && !sequence->next && list->first != sequence);
    sequence->previous = list->last;
    sequence->next = NULL;
    if (list->last)
        list->last->next = sequence;
    else
        list->first = sequence;
    list->last = sequence;
    list->count++;
}

void lh_sequence_list_remove(lh_sequence_list *list, lh_sequence *sequence) {
    assert(list->count > 0);
    assert(sequence->previous ? sequence->previous->next == sequence : list->first == sequence);
    assert(sequence->next ? sequence->next->previous == sequence : list->last == sequence);
    if (sequence->previous)
        sequence->previous->next = sequence->next;
    else
        list->first = sequence->next;
    if (sequence->next)
        sequence->next->previous = sequence->previous;
    else
        list->last = sequence->previous;
    sequence->previous = sequence->next = NULL;
    list->count--;
}
