/* Asks and answers to bytes, and back: every count and number is checked before it is used. */
#include "common/protocol/row_code.h"

#include <math.h>

#define SAMPLING_BYTES    60u
#define MASK_NUMBER_BYTES 8u
#define SCORING_BYTES     16u
#define POOLING_BYTES     8u

/* Flags of a sampling block. */
#define WANTS_LOGPROB 1u
#define WANTS_DIGEST  2u
#define IS_MASKED     4u

_Static_assert(sizeof(lh_token_bias) == 8 && sizeof(lh_token_count) == 12 &&
                   sizeof(lh_token_logprob) == 8,
               "lists are copied as they lie in memory");

/* ---- Asks out ---- */

uint32_t lh_row_ask_flags(const lh_row_ask *ask) {
    return (ask->draws ? LH_ROW_FLAG_DRAWS : 0u) |
           (ask->scoring.rows > 0 ? LH_ROW_FLAG_SCORED : 0u) |
           (ask->pooling.rows > 0 ? LH_ROW_FLAG_POOLED : 0u);
}

size_t lh_row_ask_bytes(const lh_row_ask *ask) {
    size_t bytes =
        (ask->scoring.rows > 0 ? SCORING_BYTES : 0u) + (ask->pooling.rows > 0 ? POOLING_BYTES : 0u);
    if (ask->draws) {
        bytes += SAMPLING_BYTES + (ask->sampling.mask != 0 ? MASK_NUMBER_BYTES : 0u) +
                 (size_t)ask->sampling.bias_count * sizeof(lh_token_bias) +
                 (size_t)ask->sampling.count_count * sizeof(lh_token_count);
    }
    return bytes;
}

lh_status lh_row_ask_check_counts(const lh_row_ask *ask, uint32_t segment, lh_error *error) {
    const lh_sampling *sampling = &ask->sampling;
    if (ask->draws && (sampling->top_logprobs > LH_TOP_LOGPROBS_MAX ||
                       sampling->bias_count > LH_TOKEN_BIASES_MAX ||
                       sampling->count_count > LH_TOKEN_COUNTS_MAX)) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "manifest, segment %u: %u logprobs, %u biases, %u token counts; the limits "
                       "are %u, %u, %u",
                       segment, sampling->top_logprobs, sampling->bias_count, sampling->count_count,
                       LH_TOP_LOGPROBS_MAX, LH_TOKEN_BIASES_MAX, LH_TOKEN_COUNTS_MAX);
    }
    return LH_OK;
}

static void put_sampling(lh_byte_writer *writer, const lh_sampling *sampling) {
    lh_put_f32(writer, sampling->temperature);
    lh_put_u32(writer, sampling->top_k);
    lh_put_f32(writer, sampling->top_p);
    lh_put_f32(writer, sampling->min_p);
    lh_put_f32(writer, sampling->repetition_penalty);
    lh_put_f32(writer, sampling->presence_penalty);
    lh_put_f32(writer, sampling->frequency_penalty);
    lh_put_u64(writer, sampling->seed);
    lh_put_u64(writer, sampling->counter);
    lh_put_u32(writer, (sampling->want_logprob ? WANTS_LOGPROB : 0u) |
                           (sampling->want_digest ? WANTS_DIGEST : 0u) |
                           (sampling->mask != 0 ? IS_MASKED : 0u));
    lh_put_u32(writer, sampling->top_logprobs);
    lh_put_u32(writer, sampling->bias_count);
    lh_put_u32(writer, sampling->count_count);
    if (sampling->mask != 0)
        lh_put_u64(writer, sampling->mask);
    lh_put_bytes(writer, sampling->biases, sampling->bias_count * sizeof *sampling->biases);
    lh_put_bytes(writer, sampling->counts, sampling->count_count * sizeof *sampling->counts);
}

static void put_scoring(lh_byte_writer *writer, const lh_row_scoring *scoring) {
    lh_put_u32(writer, scoring->first_row);
    lh_put_u32(writer, scoring->rows);
    lh_put_u32(writer, scoring->top);
    lh_put_u32(writer, scoring->next_token);
}

void lh_put_row_ask(lh_byte_writer *writer, const lh_row_ask *ask) {
    if (ask->scoring.rows > 0)
        put_scoring(writer, &ask->scoring);
    if (ask->pooling.rows > 0) {
        lh_put_u32(writer, ask->pooling.first_row);
        lh_put_u32(writer, ask->pooling.rows);
    }
    if (ask->draws)
        put_sampling(writer, &ask->sampling);
}

/* ---- Asks in ---- */

static lh_status check_sampling(const lh_sampling *sampling, uint32_t flags, uint32_t segment,
                                lh_error *error) {
    if ((flags & ~(WANTS_LOGPROB | WANTS_DIGEST | IS_MASKED)) != 0) {
        return lh_fail(error, LH_ERR_MALFORMED, "manifest, segment %u: sampling flags 0x%x",
                       segment, flags);
    }
    bool good = isfinite(sampling->temperature) && sampling->temperature >= 0 &&
                sampling->top_p >= 0 && sampling->top_p <= 1 && sampling->min_p >= 0 &&
                sampling->min_p <= 1 && isfinite(sampling->repetition_penalty) &&
                sampling->repetition_penalty > 0 && isfinite(sampling->presence_penalty) &&
                isfinite(sampling->frequency_penalty) &&
                (sampling->mask != 0) == ((flags & IS_MASKED) != 0);
    if (!good) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "manifest, segment %u: a sampling parameter is out of its range", segment);
    }
    return LH_OK;
}

static lh_status get_sampling_lists(lh_byte_reader *reader, lh_step_arena *memory,
                                    lh_sampling *sampling, uint32_t segment, lh_error *error) {
    size_t bias_bytes = sampling->bias_count * sizeof *sampling->biases,
           count_bytes = sampling->count_count * sizeof *sampling->counts;
    if (lh_bytes_left(reader) < bias_bytes + count_bytes) {
        return lh_fail(error, LH_ERR_MALFORMED, "manifest, segment %u: cut in its sampling block",
                       segment);
    }
    sampling->biases = lh_step_arena_copy(memory, reader, bias_bytes);
    sampling->counts = lh_step_arena_copy(memory, reader, count_bytes);
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        if (!isfinite(sampling->biases[i].bias)) {
            return lh_fail(error, LH_ERR_MALFORMED, "manifest, segment %u: bias %u is not finite",
                           segment, i);
        }
    }
    return LH_OK;
}

static lh_status get_sampling(lh_byte_reader *reader, lh_step_arena *memory, lh_row_ask *ask,
                              uint32_t segment, lh_error *error) {
    lh_sampling *sampling = &ask->sampling;
    sampling->temperature = lh_get_f32(reader);
    sampling->top_k = lh_get_u32(reader);
    sampling->top_p = lh_get_f32(reader);
    sampling->min_p = lh_get_f32(reader);
    sampling->repetition_penalty = lh_get_f32(reader);
    sampling->presence_penalty = lh_get_f32(reader);
    sampling->frequency_penalty = lh_get_f32(reader);
    sampling->seed = lh_get_u64(reader);
    sampling->counter = lh_get_u64(reader);
    uint32_t flags = lh_get_u32(reader);
    sampling->want_logprob = (flags & WANTS_LOGPROB) != 0;
    sampling->want_digest = (flags & WANTS_DIGEST) != 0;
    sampling->top_logprobs = lh_get_u32(reader);
    sampling->bias_count = lh_get_u32(reader);
    sampling->count_count = lh_get_u32(reader);
    sampling->mask = (flags & IS_MASKED) != 0 ? lh_get_u64(reader) : 0;
    if (reader->failed) {
        return lh_fail(error, LH_ERR_MALFORMED, "manifest, segment %u: cut in its sampling block",
                       segment);
    }
    lh_status status = check_sampling(sampling, flags, segment, error);
    if (status == LH_OK)
        status = lh_row_ask_check_counts(ask, segment, error);
    return status == LH_OK ? get_sampling_lists(reader, memory, sampling, segment, error) : status;
}

static bool is_within(uint32_t first_row, uint32_t asked, uint32_t rows) {
    return asked > 0 && asked <= rows && first_row <= rows - asked;
}

static lh_status get_scoring(lh_byte_reader *reader, lh_row_ask *ask, uint32_t rows,
                             uint32_t segment, lh_error *error) {
    lh_row_scoring *scoring = &ask->scoring;
    scoring->first_row = lh_get_u32(reader);
    scoring->rows = lh_get_u32(reader);
    scoring->top = lh_get_u32(reader);
    scoring->next_token = lh_get_u32(reader);
    bool fits = !reader->failed && is_within(scoring->first_row, scoring->rows, rows);
    bool has_last = fits && scoring->first_row + scoring->rows == rows;
    if (!fits || has_last != (scoring->next_token != LH_STEP_NO_TOKEN) ||
        (has_last && ask->draws)) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "manifest, segment %u: %u of %u rows scored from %u", segment, scoring->rows,
                       rows, scoring->first_row);
    }
    if (scoring->top > LH_TOP_LOGPROBS_MAX) {
        return lh_fail(error, LH_ERR_LIMIT, "manifest, segment %u: %u logprobs; the limit is %u",
                       segment, scoring->top, LH_TOP_LOGPROBS_MAX);
    }
    return LH_OK;
}

static lh_status get_pooling(lh_byte_reader *reader, lh_row_ask *ask, uint32_t rows,
                             uint32_t segment, lh_error *error) {
    lh_row_pooling *pooling = &ask->pooling;
    pooling->first_row = lh_get_u32(reader);
    pooling->rows = lh_get_u32(reader);
    if (!reader->failed && is_within(pooling->first_row, pooling->rows, rows) && !ask->draws &&
        ask->scoring.rows == 0)
        return LH_OK;
    return lh_fail(error, LH_ERR_MALFORMED, "manifest, segment %u: %u of %u rows pooled from %u",
                   segment, pooling->rows, rows, pooling->first_row);
}

lh_status lh_get_row_ask(lh_byte_reader *reader, lh_step_arena *memory, uint32_t flags,
                         uint32_t rows, uint32_t segment, lh_row_ask *ask, lh_error *error) {
    lh_status status = LH_OK;
    *ask = (lh_row_ask){.draws = (flags & LH_ROW_FLAG_DRAWS) != 0};
    if ((flags & LH_ROW_FLAG_SCORED) != 0)
        status = get_scoring(reader, ask, rows, segment, error);
    if (status == LH_OK && (flags & LH_ROW_FLAG_POOLED) != 0)
        status = get_pooling(reader, ask, rows, segment, error);
    return status == LH_OK && ask->draws ? get_sampling(reader, memory, ask, segment, error)
                                         : status;
}

/* ---- Answers out ---- */

size_t lh_row_answer_bytes(const lh_row_answer *answer) {
    size_t bytes = LH_ROW_ANSWER_BYTES + (size_t)answer->top_count * sizeof *answer->top;
    for (uint32_t i = 0; i < answer->score_count; i++)
        bytes +=
            LH_ROW_SCORE_BYTES + (size_t)answer->scores[i].top_count * sizeof(lh_token_logprob);
    return bytes + (size_t)answer->pooled_count * sizeof *answer->pooled;
}

static void put_score(lh_byte_writer *writer, const lh_token_score *score) {
    lh_put_f32(writer, score->logprob);
    lh_put_u32(writer, score->rank);
    lh_put_u32(writer, score->top_count);
    lh_put_bytes(writer, score->top, score->top_count * sizeof score->top[0]);
}

void lh_put_row_answer(lh_byte_writer *writer, const lh_row_answer *answer) {
    lh_put_u32(writer, answer->token);
    lh_put_f32(writer, answer->logprob);
    lh_put_u32(writer, answer->top_count);
    lh_put_u64(writer, answer->digest);
    lh_put_u32(writer, answer->score_count);
    lh_put_u32(writer, answer->pooled_count);
    lh_put_bytes(writer, answer->top, answer->top_count * sizeof *answer->top);
    for (uint32_t i = 0; i < answer->score_count; i++)
        put_score(writer, &answer->scores[i]);
    lh_put_bytes(writer, answer->pooled, answer->pooled_count * sizeof *answer->pooled);
}

lh_status lh_row_answer_check(const lh_row_answer *answer, uint32_t index,
                              lh_row_answers_load *load, lh_error *error) {
    uint32_t most = answer->top_count;
    for (uint32_t i = 0; i < answer->score_count; i++)
        if (answer->scores[i].top_count > most)
            most = answer->scores[i].top_count;
    load->scores += answer->score_count;
    load->wide += answer->pooled_count > 0;
    if (most > LH_TOP_LOGPROBS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "result %u has %u logprobs; the limit is %u", index,
                       most, LH_TOP_LOGPROBS_MAX);
    if (answer->pooled_count > LH_STEP_WIDTH_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "result %u has %u pooled columns; the limit is %u",
                       index, answer->pooled_count, LH_STEP_WIDTH_MAX);
    if (load->scores > LH_STEP_ROWS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%llu scores; the limit is %u",
                       (unsigned long long)load->scores, LH_STEP_ROWS_MAX);
    if (load->wide > LH_STEP_POOLED_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u results are pooled; the limit is %u", load->wide,
                       LH_STEP_POOLED_MAX);
    return LH_OK;
}

/* ---- Answers in ---- */

/* Not NaN and not +inf; -inf is that of a token that cannot come. */
static bool is_sendable_logprob(float value) {
    return value < INFINITY;
}

static bool are_sendable(const lh_token_logprob *top, uint32_t count) {
    bool good = true;
    for (uint32_t i = 0; i < count; i++)
        good = good && is_sendable_logprob(top[i].logprob);
    return good;
}

/* No list takes less than its smallest entry on the wire. */
static uint32_t scores_max(size_t payload) {
    size_t scores = payload / LH_ROW_SCORE_BYTES;
    return scores < LH_STEP_ROWS_MAX ? (uint32_t)scores : LH_STEP_ROWS_MAX;
}

size_t lh_row_answers_room_bytes(size_t payload) {
    return payload / sizeof(int64_t) * sizeof(int64_t) +
           scores_max(payload) * sizeof(lh_token_score) +
           payload / sizeof(lh_token_logprob) * sizeof(lh_token_logprob);
}

void lh_row_answers_room_init(lh_row_answers_room *room, size_t payload, void *memory) {
    *room = (lh_row_answers_room){.sums = memory, .scores_left = scores_max(payload)};
    room->scores = (lh_token_score *)(void *)(room->sums + payload / sizeof *room->sums);
    room->tops = (lh_token_logprob *)(void *)(room->scores + room->scores_left);
}

/* False: it is cut or holds a value that is not a number. */
static bool get_score(lh_byte_reader *reader, lh_token_score *score) {
    score->logprob = lh_get_f32(reader);
    score->rank = lh_get_u32(reader);
    score->top_count = lh_get_u32(reader);
    bool good = !reader->failed && is_sendable_logprob(score->logprob) &&
                score->top_count <= LH_TOP_LOGPROBS_MAX;
    if (good)
        lh_get_bytes(reader, score->top, score->top_count * sizeof score->top[0]);
    return good && !reader->failed && are_sendable(score->top, score->top_count);
}

static lh_status get_scores(lh_byte_reader *reader, lh_row_answers_room *room, uint32_t index,
                            lh_row_answer *answer, lh_error *error) {
    if (answer->score_count > room->scores_left) {
        return lh_fail(error, LH_ERR_LIMIT, "results: result %u has %u scores; %u are possible",
                       index, answer->score_count, room->scores_left);
    }
    answer->scores = answer->score_count > 0 ? room->scores : NULL;
    for (uint32_t i = 0; i < answer->score_count; i++)
        if (!get_score(reader, &answer->scores[i]))
            return lh_fail(error, LH_ERR_MALFORMED, "results: score %u of result %u is none", i,
                           index);
    room->scores += answer->score_count;
    room->scores_left -= answer->score_count;
    return LH_OK;
}

/* The room is for no more than the payload has bytes for. */
static lh_status get_pooled(lh_byte_reader *reader, lh_row_answers_room *room, uint32_t index,
                            lh_row_answer *answer, lh_error *error) {
    if (answer->pooled_count == 0)
        return LH_OK;
    if (answer->pooled_count > LH_STEP_WIDTH_MAX || ++room->wide > LH_STEP_POOLED_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "results: result %u has %u sums, as %u before it",
                       index, answer->pooled_count, room->wide - 1);
    if (answer->pooled_count > lh_bytes_left(reader) / sizeof *answer->pooled)
        return lh_fail(error, LH_ERR_MALFORMED, "results: cut in the sums of result %u", index);
    answer->pooled = room->sums;
    room->sums += answer->pooled_count;
    lh_get_bytes(reader, answer->pooled, answer->pooled_count * sizeof *answer->pooled);
    return LH_OK;
}

static lh_status get_tops(lh_byte_reader *reader, lh_row_answers_room *room, uint32_t index,
                          lh_row_answer *answer, lh_error *error) {
    size_t bytes = answer->top_count * sizeof *answer->top;
    if (answer->top_count > LH_TOP_LOGPROBS_MAX) {
        return lh_fail(error, LH_ERR_LIMIT, "results: result %u has %u logprobs; the limit is %u",
                       index, answer->top_count, LH_TOP_LOGPROBS_MAX);
    }
    if (lh_bytes_left(reader) < bytes)
        return lh_fail(error, LH_ERR_MALFORMED, "results: result %u is cut", index);
    answer->top = answer->top_count > 0 ? room->tops : NULL;
    room->tops += answer->top_count;
    if (bytes > 0)
        lh_get_bytes(reader, answer->top, bytes);
    if (!is_sendable_logprob(answer->logprob) || !are_sendable(answer->top, answer->top_count)) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "results: result %u has a logprob that is no number", index);
    }
    return LH_OK;
}

lh_status lh_get_row_answer(lh_byte_reader *reader, lh_row_answers_room *room, uint32_t index,
                            lh_row_answer *answer, lh_error *error) {
    *answer = (lh_row_answer){.token = lh_get_u32(reader)};
    answer->logprob = lh_get_f32(reader);
    answer->top_count = lh_get_u32(reader);
    answer->digest = lh_get_u64(reader);
    answer->score_count = lh_get_u32(reader);
    answer->pooled_count = lh_get_u32(reader);
    if (reader->failed)
        return lh_fail(error, LH_ERR_MALFORMED, "results: cut in result %u", index);
    lh_status status = get_tops(reader, room, index, answer, error);
    if (status == LH_OK)
        status = get_scores(reader, room, index, answer, error);
    return status == LH_OK ? get_pooled(reader, room, index, answer, error) : status;
}
