/* Free text in which none of some texts stands. Failures are the grammar's. Thread: the owner's. */
#pragma once

#include "gateway/constrain/grammar.h"

#define LH_TEXT_WITHOUT_MAX 31u

typedef struct lh_literal_text {
    const char *bytes;
    size_t length; /* > 0 */
} lh_literal_text;

/* count: at most LH_TEXT_WITHOUT_MAX. */
lh_grammar_node lh_text_without_add(lh_grammar *grammar, const lh_literal_text *texts,
                                    size_t count);
