/* A generation's history, and lists of sequences. */
#include "gateway/schedule/sequence.h"

#include "gateway/schedule/token_counts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static lh_status count_prompt(lh_sequence *sequence) {
    lh_status status = lh_token_counts_create(&sequence->token_counts);
    for (uint32_t i = 0; status == LH_OK && i < sequence->length; i++)
        status = lh_token_counts_add(sequence->token_counts, sequence->history[i], false);
    return status;
}

static lh_status copy_prompt(lh_sequence *sequence, const lh_sequence_request *request) {
    size_t positions = lh_sequence_positions(sequence);
    sequence->history = malloc(positions * sizeof *sequence->history);
    if (!sequence->history)
        return LH_ERR_NO_MEMORY;
    sequence->length = request->prompt_tokens;
    memcpy(sequence->history, request->prompt, sequence->length * sizeof *sequence->history);
    return sequence->spec.has_penalty ? count_prompt(sequence) : LH_OK;
}

lh_status lh_sequence_create(const lh_sequence_request *request, uint64_t handle, uint32_t context,
                             lh_sequence **sequence, lh_error *error) {
    lh_sequence *s = calloc(1, sizeof *s);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a sequence");
    s->handle = handle;
    lh_status status = lh_sequence_spec_init(&s->spec, request, context, error);
    if (status == LH_OK && copy_prompt(s, request) != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a sequence of %u tokens",
                         lh_sequence_positions(s));
    if (status != LH_OK) {
        lh_sequence_destroy(s);
        return status;
    }
    *sequence = s;
    return LH_OK;
}

void lh_sequence_destroy(lh_sequence *sequence) {
    if (!sequence)
        return;
    lh_token_counts_destroy(sequence->token_counts);
    lh_sequence_spec_reset(&sequence->spec);
    free(sequence->history);
    free(sequence);
}

uint32_t lh_sequence_positions(const lh_sequence *sequence) {
    return lh_sequence_spec_positions(&sequence->spec);
}

uint32_t lh_sequence_pending(const lh_sequence *sequence) {
    assert(sequence->kv.computed <= sequence->length);
    return sequence->length - sequence->kv.computed;
}

uint32_t lh_sequence_generated(const lh_sequence *sequence) {
    assert(sequence->length >= sequence->spec.prompt_tokens);
    return sequence->length - sequence->spec.prompt_tokens;
}

lh_sampling lh_sequence_sampling(const lh_sequence *sequence) {
    lh_sampling sampling =
        lh_sequence_spec_sampling(&sequence->spec, lh_sequence_generated(sequence));
    sampling.counter = sequence->length;
    if (sequence->token_counts)
        sampling.counts = lh_token_counts_entries(sequence->token_counts, &sampling.count_count);
    return sampling;
}

lh_status lh_sequence_append(lh_sequence *sequence, uint32_t token) {
    assert(lh_sequence_generated(sequence) < sequence->spec.max_tokens);
    if (sequence->token_counts && lh_token_counts_add(sequence->token_counts, token, true) != LH_OK)
        return LH_ERR_NO_MEMORY;
    sequence->history[sequence->length++] = token;
    return LH_OK;
}

bool lh_sequence_stops_at(const lh_sequence *sequence, uint32_t token) {
    return lh_sequence_spec_stops_at(&sequence->spec, lh_sequence_generated(sequence), token);
}

lh_prefix_scope lh_sequence_scope(const lh_sequence *sequence) {
    return (lh_prefix_scope){sequence->spec.tenant, sequence->spec.cache_salt};
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
