/* Each draw is a segment of one row: segments of one sequence follow each other in a step. */
#include "gateway/schedule/recomputation.h"

#include "common/base/arithmetic.h"

#include <assert.h>

static lh_sequence_request request_of(const lh_answer_record *record) {
    lh_sequence_request request = record->request;
    request.prompt = record->tokens;
    request.max_tokens = record->draw_count;
    request.scores_prompt = false;
    request.trace = 0;
    request.deadline_us = 0;
    request.constraint = NULL;
    return request;
}

lh_status lh_recomputation_begin(lh_recomputation *again, const lh_answer_record *record,
                                 uint64_t *draws, uint64_t number, lh_kv_store *store,
                                 lh_error *error) {
    assert(again->state != LH_RECOMPUTATION_RUNS && record->draw_count > 0);
    const lh_sequence_request request = request_of(record);
    lh_sequence *sequence;
    lh_status status = lh_sequence_create(&request, 0, UINT32_MAX, &sequence, error);
    if (status != LH_OK)
        return status;
    sequence->schedule.id = number;
    if (!lh_sequence_kv_begin_private(&sequence->kv, store, number,
                                      lh_sequence_positions(sequence))) {
        lh_sequence_destroy(sequence);
        return lh_fail(error, LH_ERR_BUSY, "too few pages are free to compute an answer again");
    }
    *again = (lh_recomputation){
        .state = LH_RECOMPUTATION_RUNS, .record = record, .draws = draws, .sequence = sequence};
    return LH_OK;
}

bool lh_recomputation_has_rows(const lh_recomputation *again) {
    return again->sequence && again->sent < again->record->draw_count;
}

uint32_t lh_recomputation_position(const lh_recomputation *again) {
    assert(lh_recomputation_has_rows(again));
    return again->sequence->kv.computed;
}

/* The answer's next token is what the next row is of. */
static void go_on(lh_recomputation *again) {
    lh_sequence *sequence = again->sequence;
    if (lh_sequence_pending(sequence) == 0)
        lh_sequence_append(sequence, again->record->tokens[sequence->length]);
}

/* What penalties need is counted in one place for all draws, so that a step has one alone. */
static uint32_t draws_at_once(const lh_recomputation *again) {
    return again->sequence->token_counts ? 1 : LH_RECOMPUTATION_DRAWS;
}

void lh_recomputation_add(lh_recomputation *again, lh_step_builder *builder, uint32_t rows_max) {
    assert(rows_max > 0);
    uint32_t left = rows_max, draws = draws_at_once(again);
    while (lh_recomputation_has_rows(again) && left > 0 && draws > 0) {
        go_on(again);
        uint32_t pending = lh_sequence_pending(again->sequence),
                 room = lh_step_builder_room(builder, again->sequence),
                 rows = lh_min_u32(lh_min_u32(pending, left), room);
        if (rows == 0)
            return;
        lh_step_builder_add(builder, again->sequence, rows);
        left -= rows;
        if (rows < pending)
            return;
        again->sent++;
        draws--;
    }
}

bool lh_recomputation_take(lh_recomputation *again, const lh_step_result *result) {
    uint32_t first = again->record->request.prompt_tokens;
    assert(again->sequence && result->position >= first &&
           result->position - first < again->record->draw_count);
    again->draws[result->position - first] = lh_answer_draw_digest(&result->answer);
    return ++again->come == again->record->draw_count;
}

void lh_recomputation_end(lh_recomputation *again, lh_recomputation_state state,
                          lh_kv_store *store) {
    assert(again->state == LH_RECOMPUTATION_RUNS && state != LH_RECOMPUTATION_RUNS);
    lh_sequence_kv_leave(&again->sequence->kv, store);
    lh_sequence_destroy(again->sequence);
    *again = (lh_recomputation){.state = state};
}
