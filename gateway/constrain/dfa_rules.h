/* A deterministic automaton over characters as part of a grammar: a rule for each state. Thread:
 * the owner's. */
#pragma once

#include "gateway/constrain/dfa.h"
#include "gateway/constrain/grammar.h"

/* The texts that have this label. is_json_text: they are the inside of a JSON string, with the
 * escapes that JSON (RFC 8259, section 7) asks for and no others. Failures stick in the grammar. */
lh_grammar_node lh_dfa_rules_add(lh_grammar *grammar, const lh_dfa *dfa, uint32_t label,
                                 bool is_json_text);
