/* Grammars of Lark (lark-parser.readthedocs.io), the notation in which OpenAI's custom tools have
 * theirs. Rules and terminals with strings ("x", "x"i), regular expressions (/x/, flags i, m, s, u,
 * x only where they change nothing), ranges ("a".."z"), groups, [ ... ], ? * + ~ n ~ n..m, |,
 * aliases (-> name), priorities and the marks ? ! _ before names, of which a grammar needs nothing;
 * %import common.NAME for the usual ones, and %ignore of terminals, which may then stand between
 * any two. Not: templates, %extend, %override, %declare and imports of other files:
 * LH_ERR_UNSUPPORTED.
 *
 * Lark first cuts a text into terminals, the longest that fit; here a text is any that the rules
 * have, character by character, which is never less. */
#pragma once

#include "gateway/constrain/grammar.h"

#include <stdbool.h>
#include <stddef.h>

/* Parentheses inside one another. */
#define LH_LARK_DEPTH_MAX 100

/* The texts of the rule `start`. is_json_text: as of lh_regex_options. What is wrong is a failure
 * of the grammar (which sticks) with its line: LH_ERR_INVALID, LH_ERR_UNSUPPORTED, LH_ERR_LIMIT,
 * LH_ERR_NO_MEMORY. */
lh_grammar_node lh_lark_add(lh_grammar *grammar, const char *text, size_t length,
                            bool is_json_text);
