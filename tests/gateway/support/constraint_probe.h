/* What a constraint allows, byte by byte and token by token. Aborts on failures that no test asks
 * for. */
#pragma once

#include "gateway/constrain/constraint.h"
#include "gateway/constrain/constraint_vocabulary.h"
#include "tests/gateway/support/small_vocabulary.h"

#include <stdbool.h>
#include <stddef.h>

/* A vocabulary of the 256 bytes, and of some longer tokens: see the source. */
typedef struct probe_vocabulary {
    lh_tokenizer *tokenizer;
    lh_constraint_vocabulary *vocabulary;
} probe_vocabulary;

probe_vocabulary probe_vocabulary_of(const small_vocabulary *file);
void probe_vocabulary_reset(probe_vocabulary *probe);

/* The constraint of a grammar, which is destroyed. */
lh_constraint *probe_constraint(lh_grammar *grammar, const lh_constraint_vocabulary *vocabulary);

/* Whether the grammar matches text[length], taken as single bytes (token i is byte i). */
bool probe_matches(lh_constraint *constraint, const char *text, size_t length);
/* Takes the bytes of a text one by one; false when one is refused. */
bool probe_take_text(lh_constraint_state *state, const char *text, size_t length);
/* Whether the mask of a state has a token. */
bool probe_allows(lh_constraint_state *state, uint32_t token);

/* Compares the mask with what lh_constraint_state_take says of every token; names the first
 * difference and aborts. */
void probe_check_mask(lh_constraint_state *state, const lh_tokenizer *tokenizer);
