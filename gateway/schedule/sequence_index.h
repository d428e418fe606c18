/* The sequences that have not ended: found by their handles, and by whose deadline is next. It owns
 * none of them. Thread: one at a time. */
#pragma once

#include "gateway/schedule/sequence.h"

typedef struct lh_sequence_index lh_sequence_index;

/* sequences: that will be in it at most, which sizes it. */
lh_status lh_sequence_index_create(uint32_t sequences, lh_sequence_index **index, lh_error *error);
/* NULL is allowed. */
void lh_sequence_index_destroy(lh_sequence_index *index);

void lh_sequence_index_add(lh_sequence_index *index, lh_sequence *sequence);
void lh_sequence_index_remove(lh_sequence_index *index, lh_sequence *sequence);
/* NULL: none has the handle. */
lh_sequence *lh_sequence_index_find(const lh_sequence_index *index, uint64_t handle);
/* The one whose deadline is the earliest; NULL: none has one. */
lh_sequence *lh_sequence_index_next_due(const lh_sequence_index *index);
