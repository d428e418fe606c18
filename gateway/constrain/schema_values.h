/* The rules of a schema's grammar: one for each list of schemas that holds for some value, made
 * when the first asks for it, and a queue of those whose rule is still to be said. So recursion
 * ends, and no function calls itself for a schema within a schema. Thread: the owner's. */
#pragma once

#include "gateway/constrain/json_rules.h"
#include "gateway/constrain/schema_document.h"
#include "gateway/constrain/schema_list.h"

#define LH_SCHEMA_VALUES_MAX_RULES 20000u

typedef struct lh_schema_value {
    const json_t **schemas; /* [count], then the same [count] by their address */
    size_t count;
    bool is_clause;
    lh_grammar_rule rule;
} lh_schema_value;

typedef struct lh_schema_values {
    const lh_schema_document *document;
    lh_json_rules rules;
    lh_schema_value *entries; /* [count], in the order in which they were asked for */
    size_t count, capacity;
    size_t done;     /* taken out of the queue */
    uint32_t *table; /* by schemas; UINT32_MAX: empty */
} lh_schema_values;

/* LH_ERR_NO_MEMORY sticks in the grammar. Either way the caller resets it. */
void lh_schema_values_init(lh_schema_values *values, const lh_schema_document *document);
void lh_schema_values_reset(lh_schema_values *values);

/* A value for which all of these hold. */
lh_grammar_node lh_schema_value_of(lh_schema_values *values, const lh_schema_list *all);
/* The same for a list that is a clause's (schema_clause.h): of its schemas, "$ref", "allOf",
 * "anyOf" and "oneOf" are of no account. */
lh_grammar_node lh_schema_clause_value_of(lh_schema_values *values, const lh_schema_list *all);

/* The next in the queue; false: all rules have been said, or one has failed. */
bool lh_schema_values_next(lh_schema_values *values, lh_schema_list *all, bool *is_clause,
                           lh_grammar_rule *rule);

/* What no text matches. */
lh_grammar_node lh_schema_nothing(const lh_schema_values *values);
