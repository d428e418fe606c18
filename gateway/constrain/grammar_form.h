/* How a grammar is kept, for those who read it. */
#pragma once

#include "gateway/constrain/grammar.h"

#define LH_GRAMMAR_NAME_BYTES 64 /* of a rule, with the terminator */

typedef enum lh_grammar_kind {
    LH_GRAMMAR_LITERAL,  /* `part`: bytes, perhaps none */
    LH_GRAMMAR_CLASS,    /* `part`: ranges, ascending, apart from each other, no surrogates */
    LH_GRAMMAR_SEQUENCE, /* `part`: children */
    LH_GRAMMAR_CHOICE,   /* `part`: children */
    LH_GRAMMAR_REPEAT,   /* `value`: the child; min, max */
    LH_GRAMMAR_TOKEN,    /* `value` */
    LH_GRAMMAR_CALL      /* `value`: the rule */
} lh_grammar_kind;

typedef struct lh_grammar_form {
    lh_grammar_kind kind;
    uint32_t depth;      /* nodes inside one another, > 0 */
    size_t first, count; /* of the parts */
    uint32_t value;
    uint32_t min, max;
} lh_grammar_form;

typedef struct lh_grammar_rule_form {
    char name[LH_GRAMMAR_NAME_BYTES]; /* valid UTF-8 if what was given was */
    lh_grammar_node node;             /* LH_GRAMMAR_FAILED: not defined */
} lh_grammar_rule_form;

struct lh_grammar {
    lh_grammar_form *forms;
    lh_grammar_rule_form *rules;
    lh_grammar_node *children;
    lh_character_range *ranges;
    char *bytes;
    size_t form_count, form_capacity, rule_count, rule_capacity, child_count, child_capacity,
        range_count, range_capacity, byte_count, byte_capacity;
    lh_grammar_node root; /* LH_GRAMMAR_FAILED: none */
    size_t work;
    lh_error failure; /* LH_OK: none */
};
