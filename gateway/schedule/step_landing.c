/* What comes back to the scheduler: tokens around the ring, and answers from the first hop (the essay is in
 * scheduler.c). */
#include "gateway/schedule/scheduler_state.h"

/* Not NaN, and not above 0 by more than rounding. */
static bool is_logprob(float value) {
    return value < 1;
}

/* sequence: NULL where nobody waits for it. */
static bool is_plausible(const lh_scheduler *s, const lh_sequence *sequence, const lh_step_result *result) {
    uint32_t top_max = sequence ? sequence->sampling.top_logprobs : LH_STEP_TOP_LOGPROBS_MAX;
    if (result->token >= s->options.vocabulary || !is_logprob(result->logprob) || result->top_count > top_max)
        return false;
    for (uint32_t i = 0; i < result->top_count; i++)
        if (result->top[i].token >= s->options.vocabulary || !is_logprob(result->top[i].logprob))
            return false;
    return true;
}

static void emit_token(lh_scheduler *s, const lh_sequence *sequence, const lh_step_result *result) {
    lh_sequence_logprob top[LH_STEP_TOP_LOGPROBS_MAX];
    for (uint32_t i = 0; i < result->top_count; i++)
        top[i] = (lh_sequence_logprob){result->top[i].token, result->top[i].logprob};
    s->sink.on_event(s->sink.context, sequence->handle,
                     &(lh_sequence_event){.kind = LH_SEQUENCE_TOKEN,
                                          .token = result->token,
                                          .position = result->position,
                                          .logprob = result->logprob,
                                          .top_count = result->top_count,
                                          .top = top,
                                          .digest = result->digest,
                                          .cached_tokens = sequence->cached_tokens});
}

static void take_token(lh_scheduler *s, lh_sequence *sequence, const lh_step_result *result) {
    s->figures.tokens++;
    lh_wait_queue_charge(s->waiting, sequence, 1);
    if (lh_sequence_stops_at(sequence, result->token)) {
        lh_scheduler_emit_finished(s, sequence, LH_FINISH_STOP);
        lh_scheduler_retire(s, sequence);
        return;
    }
    sequence->sampling_class = LH_STEP_DECODE; /* all its prefill is done */
    if (lh_sequence_append(sequence, result->token) != LH_OK) {
        lh_scheduler_emit_failed(s, sequence, LH_ERR_NO_MEMORY, "no memory for a token");
        lh_scheduler_retire(s, sequence);
        return;
    }
    emit_token(s, sequence, result);
    if (lh_sequence_generated(sequence) < sequence->max_tokens) {
        lh_scheduler_move(s, sequence, LH_SEQUENCE_READY);
        return;
    }
    lh_scheduler_emit_finished(s, sequence, LH_FINISH_LENGTH);
    lh_scheduler_retire(s, sequence);
}

static lh_flight_segment *find_segment(lh_flight *flight, const lh_step_result *result) {
    for (uint32_t i = 0; flight && i < flight->segment_count; i++) {
        lh_flight_segment *segment = &flight->segments[i];
        if (lh_kv_holding_number(segment->holding) == result->sequence)
            return segment->sample && !segment->is_drawn &&
                           segment->first_position + segment->rows == result->position
                       ? segment
                       : NULL;
    }
    return NULL;
}

static lh_status take_result(lh_scheduler *s, lh_flight *flight, const lh_step_result *result,
                             lh_error *error) {
    lh_flight_segment *segment = find_segment(flight, result);
    if (!segment) {
        s->figures.results_ignored++;
        return LH_OK;
    }
    lh_sequence *sequence = segment->sequence;
    if (!is_plausible(s, sequence, result)) {
        s->doubts_caches = true;
        lh_scheduler_report_fault(s, "the last worker sent an impossible token for step %llu",
                                  (unsigned long long)flight->step);
        return lh_fail(error, LH_ERR_MALFORMED, "%s", s->fault_reason);
    }
    segment->is_drawn = true;
    flight->drawn_count++;
    lh_kv_holding_note_written(segment->holding, result->position);
    if (sequence)
        take_token(s, sequence, result);
    return LH_OK;
}

/* The whole chain has computed the step's rows. May be told more than once. */
static void pass(lh_scheduler *s, lh_flight *flight) {
    for (uint32_t i = 0; i < flight->segment_count && !flight->is_through; i++) {
        const lh_flight_segment *segment = &flight->segments[i];
        lh_kv_store_pass(s->store, segment->holding, segment->source, segment->first_position + segment->rows,
                         flight->step_class);
    }
    lh_flight_table_pass(s->flights, flight);
}

/* Chunks that draw nothing come around the ring, too, without a result: so their places are free before their
 * answers are back. */
lh_status lh_scheduler_results(lh_scheduler *scheduler, uint32_t epoch, uint64_t step,
                               const lh_step_result *results, uint32_t count, int64_t now_us,
                               lh_error *error) {
    lh_scheduler *s = scheduler;
    if (!s->is_up || epoch != s->epoch) {
        s->figures.results_ignored += count;
        return lh_fail(error, LH_ERR_STALE, "step %llu is of epoch %u, the chain is in epoch %u",
                       (unsigned long long)step, epoch, s->epoch);
    }
    lh_flight *flight = lh_flight_table_find(s->flights, step);
    for (uint32_t i = 0; i < count && !s->has_fault; i++)
        if (take_result(s, flight, &results[i], error) != LH_OK)
            return LH_ERR_MALFORMED;
    if (flight && flight->drawn_count == flight->draws_due) {
        pass(s, flight);
        s->progress_us = now_us;
    }
    return LH_OK;
}

/* ---- Answers
 * ----------------------------------------------------------------------------------------------------- */

static void land(lh_scheduler *s, lh_flight *flight) {
    for (uint32_t i = 0; i < flight->segment_count; i++)
        lh_kv_store_land(s->store, flight->segments[i].holding, flight->segments[i].source,
                         flight->is_through, flight->step_class);
    for (uint32_t i = 0; i < flight->release_count; i++)
        lh_kv_store_released(s->store, flight->releases[i]);
    lh_flight_table_land(s->flights, flight);
}

/* A reset request is closed here at once, but its step may still be somewhere on the chain. It counts as in
 * flight until a step that went out after it has been taken by all: so the workers never have more steps than
 * they allocated for. */
static void land_cancelled(lh_scheduler *s, uint64_t before) {
    lh_flight *next = lh_flight_table_next(s->flights, NULL);
    while (next) {
        lh_flight *flight = next;
        next = lh_flight_table_next(s->flights, flight);
        if (flight->is_answered && flight->step < before)
            land(s, flight);
    }
}

static bool is_refusal(lh_status status) {
    return status == LH_ERR_MALFORMED || status == LH_ERR_INVALID || status == LH_ERR_LIMIT ||
           status == LH_ERR_UNSUPPORTED || status == LH_ERR_INTERNAL;
}

/* It happened on the way, or to a worker that is gone: it says nothing against what the workers hold. */
static bool is_of_the_way(lh_status status) {
    return status == LH_ERR_UNAVAILABLE || status == LH_ERR_CLOSED || status == LH_ERR_CORRUPT ||
           status == LH_ERR_CANCELLED || status == LH_ERR_STALE || status == LH_ERR_TIMEOUT ||
           status == LH_ERR_PROTOCOL || status == LH_ERR_IO;
}

static void strike(const lh_flight *flight) {
    for (uint32_t i = 0; i < flight->segment_count; i++) {
        lh_sequence *sequence = flight->segments[i].sequence;
        if (!sequence)
            continue;
        sequence->strikes = lh_sequence_is_suspect(sequence) ? sequence->strikes + 1 : 1;
        sequence->strike_length = sequence->length;
    }
}

void lh_scheduler_step_done(lh_scheduler *scheduler, uint32_t epoch, uint64_t step, lh_status status,
                            const char *message, int64_t now_us) {
    lh_scheduler *s = scheduler;
    lh_flight *flight = s->is_up && epoch == s->epoch ? lh_flight_table_find(s->flights, step) : NULL;
    if (!flight || s->has_fault || flight->is_answered)
        return;
    if (flight->is_cancelled && status != LH_OK) {
        flight->is_answered = true;
        return;
    }
    if (status != LH_OK) {
        if (is_refusal(status))
            strike(flight);
        s->doubts_caches = !is_of_the_way(status);
        lh_scheduler_report_fault(s, "step %llu failed: %s (%s)", (unsigned long long)step,
                                  lh_status_text(status), message);
        return;
    }
    if (flight->drawn_count < flight->draws_due) {
        s->doubts_caches = true;
        lh_scheduler_report_fault(s, "step %llu was taken, but its tokens did not come",
                                  (unsigned long long)step);
        return;
    }
    s->progress_us = now_us;
    s->overdue_faults = 0;
    pass(s, flight);
    land(s, flight);
    land_cancelled(s, step);
}
