/* Asks and answers of rows as bytes (PROTOCOL.md): what step_encode.c and step_decode.c put around
 * them is nothing of theirs. Private to common/protocol. Thread: any. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/row_answer.h"
#include "common/protocol/step_arena.h"
#include "common/protocol/step_frame.h"

/* ---- Asks ---- */

/* The flags of a segment that say what its rows ask. */
#define LH_ROW_ASK_FLAGS (LH_ROW_FLAG_DRAWS | LH_ROW_FLAG_SCORED | LH_ROW_FLAG_POOLED)

#define LH_ROW_FLAG_DRAWS  1u
#define LH_ROW_FLAG_SCORED 4u
#define LH_ROW_FLAG_POOLED 8u

uint32_t lh_row_ask_flags(const lh_row_ask *ask);
size_t lh_row_ask_bytes(const lh_row_ask *ask);
/* In memory, besides the struct, at most as many bytes more than on the wire. */
#define LH_ROW_ASK_PADDING 16u
void lh_put_row_ask(lh_byte_writer *writer, const lh_row_ask *ask);
/* Whether its lists are within the limits (LH_ERR_LIMIT); segment: its number, for the message. */
lh_status lh_row_ask_check_counts(const lh_row_ask *ask, uint32_t segment, lh_error *error);
/* Reads what a segment of `rows` rows asks, by its flags; the lists are copied into the arena.
 * LH_ERR_MALFORMED, LH_ERR_LIMIT. */
lh_status lh_get_row_ask(lh_byte_reader *reader, lh_step_arena *memory, uint32_t flags,
                         uint32_t rows, uint32_t segment, lh_row_ask *ask, lh_error *error);

/* ---- Answers ---- */

#define LH_ROW_ANSWER_BYTES 28u /* before its lists */
#define LH_ROW_SCORE_BYTES  12u /* before its logprobs */
/* The most bytes that all results of a step take together. */
#define LH_ROW_ANSWERS_BYTES_MAX                                                                   \
    (LH_STEP_SEGMENTS_MAX * (LH_ROW_ANSWER_BYTES + LH_TOP_LOGPROBS_MAX * 8u) +                     \
     LH_STEP_ROWS_MAX * (LH_ROW_SCORE_BYTES + LH_TOP_LOGPROBS_MAX * 8u) +                          \
     LH_STEP_POOLED_MAX * LH_STEP_WIDTH_MAX * 8u)

size_t lh_row_answer_bytes(const lh_row_answer *answer);
void lh_put_row_answer(lh_byte_writer *writer, const lh_row_answer *answer);

/* How much the answers of one step have of what is limited for all of them. Zeroed: nothing. */
typedef struct lh_row_answers_load {
    uint64_t scores;
    uint32_t wide;
} lh_row_answers_load;

/* Checks answer number `index`, and adds it to the load of its step. LH_ERR_LIMIT. */
lh_status lh_row_answer_check(const lh_row_answer *answer, uint32_t index,
                              lh_row_answers_load *load, lh_error *error);

/* The memory into which the lists of a step's answers are decoded. */
typedef struct lh_row_answers_room {
    int64_t *sums;
    lh_token_score *scores;
    lh_token_logprob *tops;
    uint32_t scores_left, wide;
} lh_row_answers_room;

/* For what a payload of so many bytes may hold; memory: 8-byte aligned, of that many bytes. */
size_t lh_row_answers_room_bytes(size_t payload);
void lh_row_answers_room_init(lh_row_answers_room *room, size_t payload, void *memory);
/* index: of the result, for the message. LH_ERR_MALFORMED, LH_ERR_LIMIT. */
lh_status lh_get_row_answer(lh_byte_reader *reader, lh_row_answers_room *room, uint32_t index,
                            lh_row_answer *answer, lh_error *error);
