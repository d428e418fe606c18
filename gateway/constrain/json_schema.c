/* Each list of schemas that holds for a value has a rule: a choice among its clauses, each of which
 * is a choice among the types that it allows. */
#include "gateway/constrain/json_schema.h"

#include "gateway/constrain/schema_array.h"
#include "gateway/constrain/schema_clause.h"
#include "gateway/constrain/schema_draft.h"
#include "gateway/constrain/schema_fit.h"
#include "gateway/constrain/schema_number.h"
#include "gateway/constrain/schema_object.h"
#include "gateway/constrain/schema_string.h"
#include "gateway/constrain/schema_values.h"

#include <stdlib.h>

/* ---- Values that are named. ---- */

/* The first list of values among the schemas; NULL: there is none. `one`: a value of its own. */
static const json_t *named_values(const lh_schema_document *document, const lh_schema_list *all,
                                  const json_t **one) {
    const json_t *list = NULL;
    *one = NULL;
    for (size_t i = 0; i < all->count && !*one; i++)
        *one = json_object_get(all->schemas[i], "const");
    for (size_t i = 0; i < all->count && !list; i++)
        list = lh_schema_get_list(document, all->schemas[i], "enum");
    return *one ? NULL : list;
}

static lh_grammar_node add_values(const lh_schema_document *document, const lh_schema_list *all,
                                  const json_t *list, const json_t *one) {
    size_t count = one ? 1 : json_array_size(list), kept = 0;
    lh_grammar_node *ways = calloc(count + 1, sizeof *ways), node;
    if (!ways)
        return lh_grammar_fail(document->grammar, LH_ERR_NO_MEMORY, "no memory for an enumeration");
    for (size_t i = 0; i < count; i++) {
        const json_t *value = one ? one : json_array_get(list, i);
        if (lh_schema_value_fits(document, all, list, value))
            ways[kept++] = lh_json_literal(document->grammar, value);
    }
    node = lh_grammar_choice(document->grammar, ways, kept);
    free(ways);
    return node;
}

/* ---- Values by their types. ---- */

static lh_grammar_node add_types(lh_schema_values *values, const lh_schema_list *all,
                                 unsigned types) {
    const lh_schema_document *document = values->document;
    lh_grammar *grammar = document->grammar;
    lh_grammar_node ways[8];
    size_t count = 0;
    if (types & LH_SCHEMA_OBJECT)
        ways[count++] = lh_schema_object_add(values, all);
    if (types & LH_SCHEMA_ARRAY)
        ways[count++] = lh_schema_array_add(values, all);
    if (types & LH_SCHEMA_STRING)
        ways[count++] = lh_schema_string_add(document, &values->rules, all);
    if (types & LH_SCHEMA_NUMBER)
        ways[count++] =
            lh_schema_number_add(document, &values->rules, all, !(types & LH_SCHEMA_FRACTION));
    if (types & LH_SCHEMA_BOOLEAN) {
        ways[count++] = lh_grammar_text(grammar, "true");
        ways[count++] = lh_grammar_text(grammar, "false");
    }
    if (types & LH_SCHEMA_NULL)
        ways[count++] = lh_grammar_text(grammar, "null");
    return count == 1 ? ways[0] : lh_grammar_choice(grammar, ways, count);
}

static lh_grammar_node add_clause(lh_schema_values *values, const lh_schema_list *all) {
    const lh_schema_document *document = values->document;
    const json_t *one, *list = named_values(document, all, &one);
    unsigned types = LH_SCHEMA_ANY;
    if (list || one)
        return add_values(document, all, list, one);
    for (size_t i = 0; i < all->count; i++)
        types &= lh_schema_get_types(document, all->schemas[i]);
    return add_types(values, all, types);
}

/* ---- Rules. ---- */

static lh_grammar_node add_value(lh_schema_values *values, const lh_schema_list *all) {
    lh_grammar *grammar = values->document->grammar;
    lh_schema_clauses of = {0};
    lh_grammar_node node = LH_GRAMMAR_FAILED, *ways;
    lh_schema_clauses_find(values->document, all, &of);
    ways = calloc(of.count + 1, sizeof *ways);
    if (!ways)
        lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a schema's alternatives");
    for (size_t i = 0; ways && i < of.count; i++)
        ways[i] = lh_schema_clause_value_of(values, &of.clauses[i].all);
    if (ways)
        node = of.count == 1 ? ways[0] : lh_grammar_choice(grammar, ways, of.count);
    free(ways);
    lh_schema_clauses_reset(&of);
    return node;
}

static lh_grammar_node add_root(lh_schema_values *values, const json_t *schema) {
    lh_schema_list all = {.count = 0};
    bool is_clause;
    lh_grammar_rule rule;
    if (!lh_schema_check_keywords(values->document, schema))
        return LH_GRAMMAR_FAILED;
    lh_schema_list_add(&all, schema);
    lh_grammar_node root = lh_schema_value_of(values, &all);
    while (lh_schema_values_next(values, &all, &is_clause, &rule))
        lh_grammar_define(values->document->grammar, rule,
                          is_clause ? add_clause(values, &all) : add_value(values, &all));
    return lh_schema_document_is_good(values->document) ? root : LH_GRAMMAR_FAILED;
}

static lh_grammar_node add_document(lh_grammar *grammar, const json_t *schema) {
    lh_schema_document document;
    lh_schema_values values;
    if (lh_schema_document_open(&document, schema, grammar))
        return LH_GRAMMAR_FAILED;
    lh_schema_values_init(&values, &document);
    lh_grammar_node root =
        lh_schema_document_is_good(&document) ? add_root(&values, schema) : LH_GRAMMAR_FAILED;
    lh_schema_values_reset(&values);
    return root;
}

lh_grammar_node lh_json_schema_add(lh_grammar *grammar, const json_t *schema) {
    json_t *renewed = lh_schema_draft_renew(schema);
    lh_grammar_node root =
        renewed ? add_document(grammar, renewed)
                : lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a schema");
    json_decref(renewed);
    return root;
}

lh_grammar_node lh_json_object_add(lh_grammar *grammar) {
    lh_json_rules rules;
    lh_json_rules_add(&rules, grammar);
    return lh_grammar_call(grammar, rules.object);
}
