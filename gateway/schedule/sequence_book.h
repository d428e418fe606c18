/* The sequences that have not ended: found by their handles, and by whose deadline is next. It owns none of them.
 * Thread: one at a time. */
#pragma once

#include "gateway/schedule/sequence.h"

typedef struct lh_sequence_book lh_sequence_book;

/* sequences: that will be in it at most, which sizes it. */
lh_status lh_sequence_book_create(uint32_t sequences, lh_sequence_book **book, lh_error *error);
/* NULL is allowed. */
void lh_sequence_book_destroy(lh_sequence_book *book);

void lh_sequence_book_add(lh_sequence_book *book, lh_sequence *sequence);
/* One that is not in it is ignored. */
void lh_sequence_book_remove(lh_sequence_book *book, lh_sequence *sequence);
/* NULL: none has the handle. */
lh_sequence *lh_sequence_book_find(const lh_sequence_book *book, uint64_t handle);
/* The one whose deadline is the earliest; NULL: none has one. */
lh_sequence *lh_sequence_book_next_due(const lh_sequence_book *book);
