/* Each state's rule: one of the characters that lead to some state, then that state's rule. */
#include "gateway/constrain/dfa_rules.h"

#include "gateway/constrain/json_character.h"

#include <stdlib.h>
#include <string.h>

typedef struct builder {
    lh_grammar *grammar;
    const lh_dfa *dfa;
    lh_grammar_rule first; /* of state 0; the others follow */
    bool is_json_text;
    /* Scratch: as many as a state has edges, and one way more. */
    lh_dfa_edge *edges;
    lh_character_range *ranges;
    lh_grammar_node *ways;
} builder;

static int by_target(const void *left, const void *right) {
    const lh_dfa_edge *a = left, *b = right;
    if (a->target != b->target)
        return a->target < b->target ? -1 : 1;
    return (a->low > b->low) - (a->low < b->low);
}

/* Takes the edges[count] of one target off the front; gives their number. */
static size_t follow(const builder *of, const lh_dfa_edge *edges, size_t count,
                     lh_grammar_node *way) {
    size_t taken = 0;
    for (; taken < count && edges[taken].target == edges[0].target; taken++)
        of->ranges[taken] = (lh_character_range){edges[taken].low, edges[taken].high};
    const lh_grammar_node nodes[] = {of->is_json_text
                                         ? lh_json_characters(of->grammar, of->ranges, taken)
                                         : lh_grammar_class(of->grammar, of->ranges, taken, false),
                                     lh_grammar_call(of->grammar, of->first + edges[0].target)};
    *way = lh_grammar_sequence(of->grammar, nodes, 2);
    return taken;
}

static void define(const builder *of, uint32_t state, uint32_t label) {
    const lh_dfa_state *from = &of->dfa->states[state];
    size_t count = 0;
    if (from->edge_count > 0)
        memcpy(of->edges, of->dfa->edges + from->first_edge, from->edge_count * sizeof *of->edges);
    qsort(of->edges, from->edge_count, sizeof *of->edges, by_target);
    for (size_t e = 0; e < from->edge_count; count++)
        e += follow(of, of->edges + e, from->edge_count - e, &of->ways[count]);
    if (from->label == label)
        of->ways[count++] = lh_grammar_empty(of->grammar);
    lh_grammar_define(of->grammar, of->first + state,
                      lh_grammar_choice(of->grammar, of->ways, count));
}

static void define_all(builder *of, uint32_t label, size_t edges_max) {
    of->edges = calloc(edges_max + 1, sizeof *of->edges);
    of->ranges = calloc(edges_max + 1, sizeof *of->ranges);
    of->ways = calloc(edges_max + 1, sizeof *of->ways);
    if (!of->edges || !of->ranges || !of->ways)
        lh_grammar_fail(of->grammar, LH_ERR_NO_MEMORY, "no memory for an automaton's rules");
    for (uint32_t s = 0; s < of->dfa->state_count && !lh_grammar_check(of->grammar, NULL); s++)
        define(of, s, label);
    free(of->ways);
    free(of->ranges);
    free(of->edges);
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
    define_all(&of, label, most);
    return lh_grammar_call(grammar, of.first);
}
