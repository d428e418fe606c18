/* Lists lie one behind the other: first the sums, which are aligned to 8 bytes, then what is
 * aligned to 4. */
#include "common/protocol/row_answer.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(lh_row_answer) % 8 == 0, "the sums behind it are aligned");

/* How many entries each list has. */
typedef struct counts {
    size_t pooled, scores, top;
} counts;

static counts counts_of(const lh_row_answer *answer) {
    return (counts){answer->pooled_count, answer->score_count, answer->top_count};
}

static counts counts_due(const lh_row_ask *ask, uint32_t width) {
    return (counts){.pooled = ask->pooling.rows > 0 ? width : 0,
                    .scores = ask->scoring.rows,
                    .top = ask->draws ? ask->sampling.top_logprobs : 0};
}

static size_t list_bytes(counts of) {
    size_t bytes = of.pooled * sizeof(int64_t) + of.scores * sizeof(lh_token_score) +
                   of.top * sizeof(lh_token_logprob);
    return (bytes + 7u) & ~(size_t)7u;
}

static void point_to_lists(lh_row_answer *answer, counts of, void *memory) {
    answer->pooled = memory;
    answer->scores = (lh_token_score *)(void *)(answer->pooled + of.pooled);
    answer->top = (lh_token_logprob *)(void *)(answer->scores + of.scores);
}

static void copy_list(void *to, const void *from, size_t bytes) {
    if (bytes > 0)
        memcpy(to, from, bytes);
}

/* ---- Put together from parts ---- */

size_t lh_row_answer_room(const lh_row_ask *ask, uint32_t width) {
    return list_bytes(counts_due(ask, width));
}

lh_row_answer lh_row_answer_begin(const lh_row_ask *ask, uint32_t width, void *memory) {
    lh_row_answer answer = {.token = LH_STEP_NO_TOKEN};
    point_to_lists(&answer, counts_due(ask, width), memory);
    return answer;
}

void lh_row_answer_add(lh_row_answer *answer, const lh_row_answer *part) {
    const bool draws = part->token != LH_STEP_NO_TOKEN;
    lh_row_answer whole = draws ? *part : *answer;
    assert(!draws || answer->top_count == 0);
    assert(answer->pooled_count == 0 || part->pooled_count == 0);
    whole.top = answer->top;
    whole.scores = answer->scores;
    whole.pooled = answer->pooled;
    whole.score_count = answer->score_count + part->score_count;
    whole.pooled_count = answer->pooled_count + part->pooled_count;
    copy_list(whole.top, part->top, part->top_count * sizeof *part->top);
    copy_list(whole.scores + answer->score_count, part->scores,
              part->score_count * sizeof *part->scores);
    copy_list(whole.pooled, part->pooled, part->pooled_count * sizeof *part->pooled);
    *answer = whole;
}

/* ---- Packed ---- */

size_t lh_row_answer_packed_bytes(const lh_row_answer *answer) {
    return sizeof *answer + list_bytes(counts_of(answer));
}

void lh_row_answer_pack(const lh_row_answer *answer, void *packed) {
    lh_row_answer *to = packed;
    *to = *answer;
    point_to_lists(to, counts_of(answer), to + 1);
    copy_list(to->pooled, answer->pooled, answer->pooled_count * sizeof *answer->pooled);
    copy_list(to->scores, answer->scores, answer->score_count * sizeof *answer->scores);
    copy_list(to->top, answer->top, answer->top_count * sizeof *answer->top);
}

lh_row_answer lh_row_answer_unpack(void *packed) {
    lh_row_answer answer = *(const lh_row_answer *)packed;
    point_to_lists(&answer, counts_of(&answer), (lh_row_answer *)packed + 1);
    return answer;
}
