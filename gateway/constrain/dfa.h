/* A deterministic automaton over characters: what the front ends make of a regular language before
 * it becomes rules. State 0 is the start. States are numbered as they are found, the edges of each
 * stand together, in ascending order and apart. Thread: the owner's. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one automaton; a language that needs more is refused. */
#define LH_DFA_STATES_MAX 50000u
#define LH_DFA_EDGES_MAX  500000u

/* Units of some 5 ns that all automata of one grammar, and what is looked up for it, may take
 * together: a sixth of a second. */
#define LH_DFA_WORK_MAX (1u << 25)

typedef struct lh_dfa_edge {
    uint32_t low, high; /* characters (code points), both included */
    uint32_t target;
} lh_dfa_edge;

typedef struct lh_dfa_state {
    uint32_t first_edge, edge_count;
    uint32_t label; /* what a text that ends here is; 0: it is not in the language */
} lh_dfa_state;

typedef struct lh_dfa {
    lh_dfa_state *states; /* [state_count] */
    size_t state_count, state_capacity;
    lh_dfa_edge *edges; /* [edge_count] */
    size_t edge_count, edge_capacity;
} lh_dfa;

/* An empty one is {0}. */
void lh_dfa_reset(lh_dfa *dfa);

/* Appends a state without edges, which takes the number state_count had. LH_ERR_LIMIT,
 * LH_ERR_NO_MEMORY. */
lh_status lh_dfa_add_state(lh_dfa *dfa, uint32_t label, lh_error *error);
/* To the last state that has edges, or a later one; joined with the edge before where the two touch
 * and lead to the same state. LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_dfa_add_edge(lh_dfa *dfa, uint32_t state, uint32_t low, uint32_t high, uint32_t target,
                          lh_error *error);

/* Adds to the work done so far. LH_ERR_LIMIT: it is too much. */
lh_status lh_dfa_count_work(size_t *work, size_t more, lh_error *error);

/* Removes states from which no text is accepted, but for the start, and joins those that accept the
 * same texts where no circle goes through them. LH_ERR_NO_MEMORY: it is as it was. */
lh_status lh_dfa_simplify(lh_dfa *dfa, lh_error *error);
/* After lh_dfa_simplify: no text is accepted. */
bool lh_dfa_is_empty(const lh_dfa *dfa);
/* The label of a text, valid UTF-8; 0: it is not accepted. */
uint32_t lh_dfa_label_of(const lh_dfa *dfa, const char *text, size_t length);
