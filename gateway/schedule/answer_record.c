/* The digests of draws have their places from the beginning: nothing is allocated as tokens come.
 */
#include "gateway/schedule/answer_record.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

lh_answer_record *lh_answer_record_create(uint32_t max_tokens) {
    uint32_t draws = lh_min_u32(max_tokens, LH_ANSWER_DRAWS_MAX);
    lh_answer_record *record = calloc(1, sizeof *record + draws * sizeof record->draws[0]);
    if (record)
        record->draw_max = draws;
    return record;
}

void lh_answer_record_destroy(lh_answer_record *record) {
    if (!record)
        return;
    free(record->biases);
    free(record->tokens);
    free(record);
}

void lh_answer_record_note_sent(lh_answer_record *record, const char *chain, uint32_t epoch) {
    if (record->epoch != 0)
        return;
    record->chain = chain;
    record->epoch = epoch;
}

void lh_answer_record_note_draw(lh_answer_record *record, const char *chain,
                                const lh_row_answer *answer) {
    record->is_of_several |= chain != record->chain;
    if (record->draw_count < record->draw_max)
        record->draws[record->draw_count++] = lh_answer_draw_digest(answer);
}

size_t lh_answer_record_bytes(const lh_answer_record *record) {
    return sizeof *record + record->draw_max * sizeof record->draws[0] +
           record->token_count * sizeof *record->tokens +
           (size_t)record->request.sampling.bias_count * sizeof *record->biases;
}

/* Field by field, since a struct may have bytes that nobody sets. */
uint64_t lh_answer_draw_digest(const lh_row_answer *answer) {
    uint32_t words[5 + 2 * LH_TOP_LOGPROBS_MAX], count = 0;
    assert(answer->top_count <= LH_TOP_LOGPROBS_MAX);
    words[count++] = answer->token;
    memcpy(&words[count++], &answer->logprob, sizeof words[0]);
    words[count++] = (uint32_t)answer->digest;
    words[count++] = (uint32_t)(answer->digest >> 32);
    words[count++] = answer->top_count;
    for (uint32_t i = 0; i < answer->top_count; i++) {
        words[count++] = answer->top[i].token;
        memcpy(&words[count++], &answer->top[i].logprob, sizeof words[0]);
    }
    return XXH3_64bits(words, count * sizeof words[0]);
}
