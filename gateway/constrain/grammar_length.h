/* How many characters the texts of a node have. Thread: the grammar's owner's. */
#pragma once

#include "gateway/constrain/grammar.h"

typedef struct lh_grammar_length {
    uint64_t least, most; /* most: UINT64_MAX: there is no bound, or it is not known */
} lh_grammar_length;

/* Of a node without tokens and calls, whose length is not known; a node of very many parts is not
 * looked through, either. */
lh_grammar_length lh_grammar_length_of(const lh_grammar *grammar, lh_grammar_node node);
