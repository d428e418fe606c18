/* What clients give for a constraint, in whatever notation: a JSON Schema, a regular expression,
 * texts to choose from, a grammar, tags within free text, or calls of tools. Plain data; thread:
 * any. */
#pragma once

#include "gateway/constrain/grammar.h"
#include "gateway/constrain/text_without.h"

#include <jansson.h>
#include <stdint.h>

typedef enum lh_constraint_kind {
    LH_CONSTRAINT_OBJECT, /* any JSON object; no value */
    LH_CONSTRAINT_SCHEMA, /* a JSON Schema */
    LH_CONSTRAINT_REGEX,  /* a string: for the whole answer */
    LH_CONSTRAINT_CHOICE, /* a list of strings, of which the answer is one */
    LH_CONSTRAINT_GBNF,   /* a string */
    /* {"structures": [{"begin", "schema", "end"}], "triggers": ["..."]}: free text, in which none
     * of the triggers stands but at the beginning of a structure: its `begin`, a JSON text that
     * satisfies its schema, its `end`. */
    LH_CONSTRAINT_TAGS,
    /* {"calls": [{"name", "begin", "schema", "end"}], "before", "behind", "between"}: one of the
     * calls, and where "between" is there up to LH_TOOL_CALLS_MAX of them with it in between, and
     * a little white space behind the last one, so that the answer may end behind any of them. All
     * but the schema, and the name, by which it is refused, are lists of texts and token ids. The
     * arguments of a call with "parameters" are not written as JSON, but so (schema_written.h).
     * A call with "grammar" ({"syntax": "lark" or "regex", "definition"}) has one argument,
     * "input", a text of that grammar, in place of a schema.
     * Where calls are not all that the answer may be, one of
     *   "text": the mark that ends free text, or null where none of its tokens is text; calls may
     *           follow it
     *   "text": "", free text instead of calls, which does not begin as one does, with "{"
     *   "or":   {"kind", "value", "begin"}, the form of an answer without calls, and the parts that
     *           it begins with */
    LH_CONSTRAINT_CALLS
} lh_constraint_kind;

#define LH_CONSTRAINT_CHOICES_MAX  10000u
#define LH_CONSTRAINT_TAGS_MAX     256u
#define LH_CONSTRAINT_TRIGGERS_MAX LH_TEXT_WITHOUT_MAX

typedef struct lh_constraint_source {
    lh_constraint_kind kind;
    const json_t *value; /* the caller's */
    /* What stands before that, the caller's: {"begin", "end", "token", "behind", "answer"}, but for
     * the end all lists of texts and token ids. A thought ends with the text "end", or with "token"
     * where that is there, and goes on freely until then. The answer begins inside of one; where
     * "begin" is there, a thought may stand in it, which begins so. "behind" follows a thought, or
     * a few line feeds where it is absent. What the value says begins with "answer". NULL: it
     * begins at once. */
    const json_t *lead;
} lh_constraint_source;

/* Sets the grammar's root. What is wrong is a failure of the grammar, which sticks. */
void lh_constraint_source_add(const lh_constraint_source *source, lh_grammar *grammar);
