/* Answers of rows (row_answer.h), copied one behind the other into memory that grows, for those who
 * pass them on later: whatever an answer consists of, it is kept whole. All zero: empty.
 * Thread: one at a time. */
#pragma once

#include "common/protocol/row_answer.h"

typedef struct lh_answer_store {
    uint8_t *bytes;
    size_t used, capacity;
} lh_answer_store;

/* Copies the answer; *at is where it lies. False: no memory, and nothing has changed. */
bool lh_answer_store_push(lh_answer_store *store, const lh_row_answer *answer, size_t *at);
/* Its lists are valid until the next call that changes the store. */
lh_row_answer lh_answer_store_get(const lh_answer_store *store, size_t at);
/* Forgets all answers; the memory stays. */
void lh_answer_store_clear(lh_answer_store *store);
/* Frees the memory. */
void lh_answer_store_reset(lh_answer_store *store);
