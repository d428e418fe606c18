/* Each state's rule: one of its characters, then the rule of the state that it leads to. */
#include "gateway/constrain/dfa_rules.h"

#include "gateway/constrain/json_character.h"

#include <stdlib.h>

typedef struct builder {
    lh_grammar *grammar;
    const lh_dfa *dfa;
    lh_grammar_rule first; /* of state 0; the others follow */
    bool is_json_text;
} builder;

/* A character of the edge, and on. */
static lh_grammar_node follow(const builder *of, const lh_dfa_edge *edge) {
    const lh_character_range range = {edge->low, edge->high};
    const lh_grammar_node nodes[] = {of->is_json_text
                                         ? lh_json_characters(of->grammar, &range, 1)
                                         : lh_grammar_class(of->grammar, &range, 1, false),
                                     lh_grammar_call(of->grammar, of->first + edge->target)};
    return lh_grammar_sequence(of->grammar, nodes, 2);
}

static void define(const builder *of, uint32_t state, uint32_t label, lh_grammar_node *ways) {
    const lh_dfa_state *from = &of->dfa->states[state];
    size_t count = 0;
    for (; count < from->edge_count; count++)
        ways[count] = follow(of, &of->dfa->edges[from->first_edge + count]);
    if (from->label == label)
        ways[count++] = lh_grammar_empty(of->grammar);
    lh_grammar_define(of->grammar, of->first + state, lh_grammar_choice(of->grammar, ways, count));
}

lh_grammar_node lh_dfa_rules_add(lh_grammar *grammar, const lh_dfa *dfa, uint32_t label,
                                 bool is_json_text) {
    builder of = {.grammar = grammar, .dfa = dfa, .is_json_text = is_json_text};
    size_t most = 0;
    for (size_t s = 0; s < dfa->state_count; s++) {
        lh_grammar_rule rule = lh_grammar_declare(grammar, "", 0);
        of.first = s == 0 ? rule : of.first;
        most = dfa->states[s].edge_count > most ? dfa->states[s].edge_count : most;
    }
    if (lh_dfa_is_empty(dfa) || lh_grammar_check(grammar, NULL))
        return lh_grammar_choice(grammar, NULL, 0);
    lh_grammar_node *ways = calloc(most + 1, sizeof *ways);
    if (!ways)
        return lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for an automaton's rules");
    for (uint32_t s = 0; s < dfa->state_count; s++)
        define(&of, s, label, ways);
    free(ways);
    return lh_grammar_call(grammar, of.first);
}
