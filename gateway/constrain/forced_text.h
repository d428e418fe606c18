/* The one text that a grammar leaves, as tokens. Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/closure.h"
#include "gateway/constrain/constraint_vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

/* What a text must be is looked at so far ahead. */
#define LH_FORCED_BYTES_MAX 4096

typedef struct lh_forced_text {
    const lh_automaton *automaton;
    lh_closure *closure;
    const lh_constraint_vocabulary *vocabulary;
    lh_stack_pool *pool;
    lh_places *places; /* where the text begins; they move on with it */
    size_t *work;      /* what is looked at counts on there */
} lh_forced_text;

/* Whether only one byte, or one token that the grammar names, may come next. */
bool lh_forced_text_begins(const lh_automaton *automaton, const lh_places *places);

/* Writes the tokens, `max` at most, that the tokenizer divides the text into, whatever follows it.
 * LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_forced_text_tokens(const lh_forced_text *text, uint32_t *tokens, uint32_t max,
                                uint32_t *count, lh_error *error);
