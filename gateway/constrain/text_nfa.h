/* Regular parts of a grammar as one automaton over characters, with several states at once: what is
 * needed to tell the texts that several of them have in common, or that none of them has. Thread:
 * the owner's. */
#pragma once

#include "gateway/constrain/grammar.h"

/* Repetitions are copied here: a part with more is refused. */
#define LH_TEXT_NFA_STATES_MAX 100000u
/* Of all classes: 8 MiB. */
#define LH_TEXT_NFA_RANGES_MAX (1u << 20)

typedef enum lh_text_nfa_kind {
    LH_TEXT_NFA_SPLIT, /* goes on at `next` and at `other`, without a character */
    LH_TEXT_NFA_CLASS, /* a character of ranges[range_count], then `next` */
    LH_TEXT_NFA_MATCH  /* a text of part `next` ends here */
} lh_text_nfa_kind;

typedef struct lh_text_nfa_state {
    lh_text_nfa_kind kind;
    uint32_t next, other;
    uint32_t first_range, range_count;
} lh_text_nfa_state;

typedef struct lh_text_nfa {
    lh_text_nfa_state *states; /* [state_count] */
    size_t state_count, state_capacity;
    lh_character_range *ranges; /* ascending and apart within a state */
    size_t range_count, range_capacity;
} lh_text_nfa;

/* An empty one is {0}. */
void lh_text_nfa_reset(lh_text_nfa *nfa);

/* Adds the texts of a node as part number `part`; *begin is where they begin. LH_ERR_UNSUPPORTED: a
 * call, a token, or bytes that are no characters; LH_ERR_LIMIT; LH_ERR_NO_MEMORY. */
lh_status lh_text_nfa_add(lh_text_nfa *nfa, const lh_grammar *grammar, lh_grammar_node node,
                          uint32_t part, uint32_t *begin, lh_error *error);
