/* What a sequence asks of the last worker with its rows (row_ask.h), whether an answer can be, and
 * what the answers about its prompt come to. Of the scheduler's parts this one alone reads asks and
 * answers, but for the drawn token; the others carry them. Thread: the sequence's. */
#pragma once

#include "gateway/schedule/inflight.h"

/* What its next `rows` ask, > 0: a token is drawn where they are its last. Of a mask it says
 * nothing: its number is the chain's (mask_ledger.h). Lists are the sequence's. */
lh_row_ask lh_sequence_ask(const lh_sequence *sequence, uint32_t rows);
/* Whether its owner lacks nothing of each row of the prompt: till then all have to be computed. */
bool lh_sequence_is_scored(const lh_sequence *sequence);

/* Whether an answer can be what a sound worker gives to a segment that waits for one: tokens of the
 * vocabulary that the grammar allows, numbers in their ranges, as many as were asked for and in
 * their order. width: of what is pooled. */
bool lh_answer_is_plausible(const lh_inflight_segment *segment, const lh_row_answer *answer,
                            uint32_t vocabulary, uint32_t width);
/* Whether it says that the last worker does not have the mask that the segment names. */
bool lh_answer_lacks_mask(const lh_inflight_segment *segment, const lh_row_answer *answer);

/* What of the prompt's answer the owner is told next. */
typedef struct lh_prompt_part {
    bool is_due;          /* else more has to come first */
    bool is_end;          /* the sequence ends with it: it asks for nothing more */
    uint32_t position;    /* of the first token that it is about */
    lh_row_answer answer; /* lists: the sequence's, or those of the answer that was taken */
} lh_prompt_part;

/* Takes a plausible answer to rows of the prompt (lh_row_due_is_of_prompt). LH_ERR_NO_MEMORY. */
lh_status lh_sequence_take_prompt_answer(lh_sequence *sequence, const lh_inflight_segment *segment,
                                         const lh_row_answer *answer, lh_prompt_part *part,
                                         lh_error *error);
/* The answer to a draw that nobody made, since no other token than this one could come; *top: room
 * for its only logprob. */
lh_row_answer lh_sequence_forced_answer(const lh_sequence *sequence, uint32_t token,
                                        lh_token_logprob *top);
