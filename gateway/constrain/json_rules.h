/* What JSON (RFC 8259) is in a grammar: the rules of its values, as this gateway has them written.
 *
 * Between the tokens stands what Python's json.dumps puts there: ", " and ": ", nothing else. So a
 * text never goes on with spaces for ever, and what stands between two values is known in advance:
 * it takes no step of the model. An object's members may have the same name twice.
 *
 * Numbers are bounded, so that every one of them is a finite double or fits 64 bits, and none goes
 * on for ever: integers of at most 18 digits, or of one digit with an exponent up to 307; at most
 * 17 digits behind the point. Strings may have all escapes, those of surrogates in pairs only. */
#pragma once

#include "gateway/constrain/grammar.h"

#include <jansson.h>

typedef struct lh_json_rules {
    lh_grammar *grammar;
    lh_grammar_rule value, object, array, string, number, integer;
    lh_grammar_rule character; /* one character of a string, perhaps escaped */
} lh_json_rules;

/* Adds the rules. Failures stick in the grammar. */
void lh_json_rules_add(lh_json_rules *rules, lh_grammar *grammar);

/* This value and no other, with members in its own order. */
lh_grammar_node lh_json_literal(lh_grammar *grammar, const json_t *value);
/* The name of a member and what is behind it, up to its value; `before` comes first. */
lh_grammar_node lh_json_member_name(lh_grammar *grammar, const char *before, const char *name);
