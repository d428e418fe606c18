/* A grammar as the front ends build it (JSON Schema, regular expressions, GBNF): a graph of nodes,
 * each of which stands for a set of byte strings, and rules, which give nodes a name so that they
 * can be recursive. lh_constraint_create makes an automaton of it.
 *
 * A node is made of nodes that exist already and may be used in several places; each use is a copy
 * in the automaton, while all calls of a rule share one. What is large and used often should be a
 * rule; so should what many places have in common, as the inside of a string: masks are computed
 * once for a rule, not once for each call.
 *
 * Failures stick: the first one is remembered, functions that make nodes give LH_GRAMMAR_FAILED
 * from then on and accept it as an argument, so a front end may build all it wants and look once,
 * with lh_grammar_check. Failures: LH_ERR_LIMIT (a bound below, named), LH_ERR_NO_MEMORY,
 * LH_ERR_INVALID.
 *
 * Thread: the owner's. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds. A schema of 1 MB stays below them or is refused within milliseconds. */
#define LH_GRAMMAR_NODES_MAX (1u << 19)
#define LH_GRAMMAR_RULES_MAX (1u << 16)
/* Children of sequences and choices, ranges of classes, bytes of literals: each in all nodes. */
#define LH_GRAMMAR_PARTS_MAX (1u << 21)
/* Nodes inside one another, from a rule's node to its innermost. */
#define LH_GRAMMAR_DEPTH_MAX 256

#define LH_GRAMMAR_FAILED    UINT32_MAX
#define LH_GRAMMAR_UNBOUNDED UINT32_MAX /* a repetition without a maximum */

typedef struct lh_grammar lh_grammar;
typedef uint32_t lh_grammar_node;
typedef uint32_t lh_grammar_rule;

/* Code points, both included. */
typedef struct lh_character_range {
    uint32_t first, last;
} lh_character_range;

/* LH_ERR_NO_MEMORY. */
lh_status lh_grammar_create(lh_grammar **grammar, lh_error *error);
void lh_grammar_destroy(lh_grammar *grammar);

/* Nothing: the empty text. */
lh_grammar_node lh_grammar_empty(lh_grammar *grammar);
/* These bytes (copied), which need not be whole characters. */
lh_grammar_node lh_grammar_literal(lh_grammar *grammar, const char *bytes, size_t length);
/* The same for a C string. */
lh_grammar_node lh_grammar_text(lh_grammar *grammar, const char *text);
/* One character in UTF-8: of one of the ranges, in any order, which may overlap; or, negated, one
 * of none. Surrogates are no characters and are left out. A class may be empty: nothing matches it.
 */
lh_grammar_node lh_grammar_class(lh_grammar *grammar, const lh_character_range *ranges,
                                 size_t count, bool negated);
/* One after the other. */
lh_grammar_node lh_grammar_sequence(lh_grammar *grammar, const lh_grammar_node *nodes,
                                    size_t count);
/* One of these. None of them: nothing matches. */
lh_grammar_node lh_grammar_choice(lh_grammar *grammar, const lh_grammar_node *nodes, size_t count);
/* `min` to `max` times, max LH_GRAMMAR_UNBOUNDED or >= min (LH_ERR_INVALID else). Large numbers
 * cost nothing: they are counted, not copied. */
lh_grammar_node lh_grammar_repeat(lh_grammar *grammar, lh_grammar_node node, uint32_t min,
                                  uint32_t max);
/* This token, whatever its bytes are: the only way in which a control token is allowed. */
lh_grammar_node lh_grammar_token(lh_grammar *grammar, uint32_t token);

/* A rule that is defined later, or never where nothing calls it. Its name (copied, cut at 63 bytes)
 * is for messages and may be empty. */
lh_grammar_rule lh_grammar_declare(lh_grammar *grammar, const char *name, size_t length);
/* Once for each rule: LH_ERR_INVALID else. */
void lh_grammar_define(lh_grammar *grammar, lh_grammar_rule rule, lh_grammar_node node);
/* What the rule says. It may stand in the rule itself, but not at its front (left recursion is
 * refused by lh_constraint_create). */
lh_grammar_node lh_grammar_call(lh_grammar *grammar, lh_grammar_rule rule);

/* What the grammar as a whole matches. */
void lh_grammar_set_root(lh_grammar *grammar, lh_grammar_node node);

/* A front end's own failure: it sticks like the others, unless one stuck before. Gives
 * LH_GRAMMAR_FAILED. */
lh_grammar_node lh_grammar_fail(lh_grammar *grammar, lh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts in front of the failure that stuck, where there is one, what it was found in. */
void lh_grammar_place_failure(lh_grammar *grammar, const char *place);
/* What its front ends have worked so far, in the units of dfa.h: theirs to count. All of a request
 * that becomes one grammar shares it. */
size_t *lh_grammar_work(lh_grammar *grammar);
/* The failure that stuck, or LH_OK. */
lh_status lh_grammar_check(const lh_grammar *grammar, lh_error *error);
