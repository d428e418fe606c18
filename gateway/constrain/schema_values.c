/* A hash table over lists of addresses. */
#include "gateway/constrain/schema_values.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_SIZE 65536u
#define NONE       UINT32_MAX
_Static_assert(TABLE_SIZE > 2 * LH_SCHEMA_VALUES_MAX_RULES, "half of the table stays empty");

void lh_schema_values_init(lh_schema_values *values, const lh_schema_document *document) {
    *values = (lh_schema_values){.document = document};
    lh_json_rules_add(&values->rules, document->grammar);
    values->table = malloc(TABLE_SIZE * sizeof *values->table);
    if (values->table)
        memset(values->table, 0xff, TABLE_SIZE * sizeof *values->table);
    else
        lh_grammar_fail(document->grammar, LH_ERR_NO_MEMORY, "no memory for a schema's rules");
}

void lh_schema_values_reset(lh_schema_values *values) {
    for (size_t i = 0; i < values->count; i++)
        free(values->entries[i].schemas);
    free(values->entries);
    free(values->table);
    *values = (lh_schema_values){0};
}

lh_grammar_node lh_schema_nothing(const lh_schema_values *values) {
    return lh_grammar_choice(values->document->grammar, NULL, 0);
}

/* ---- The table. ---- */

static int compare_addresses(const void *left, const void *right) {
    uintptr_t a = (uintptr_t)*(const json_t *const *)left,
              b = (uintptr_t)*(const json_t *const *)right;
    return (a > b) - (a < b);
}

static size_t slot_of(const lh_schema_values *values, const lh_schema_value *wanted) {
    const json_t *const *sorted = wanted->schemas + wanted->count;
    uint64_t hash = wanted->is_clause;
    for (size_t i = 0; i < wanted->count; i++)
        hash = (hash ^ (uintptr_t)sorted[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    size_t slot = hash % TABLE_SIZE;
    for (; values->table[slot] != NONE; slot = (slot + 1) % TABLE_SIZE) {
        const lh_schema_value *value = &values->entries[values->table[slot]];
        if (value->count == wanted->count && value->is_clause == wanted->is_clause &&
            memcmp(value->schemas + value->count, sorted, value->count * sizeof *sorted) == 0)
            break;
    }
    return slot;
}

static lh_grammar_node fail(const lh_schema_values *values, const lh_schema_value *value) {
    lh_grammar *grammar = values->document->grammar;
    if (values->count == LH_SCHEMA_VALUES_MAX_RULES)
        lh_schema_refuse(values->document, value->schemas[0], NULL, LH_ERR_LIMIT,
                         "is one too many: the schema needs more than %u rules",
                         LH_SCHEMA_VALUES_MAX_RULES);
    else
        lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a schema's rules");
    free(value->schemas);
    return LH_GRAMMAR_FAILED;
}

static lh_grammar_node find(lh_schema_values *values, const lh_schema_list *all, bool is_clause) {
    lh_grammar *grammar = values->document->grammar;
    lh_schema_value value = {.count = all->count, .is_clause = is_clause};
    if (!lh_schema_document_is_good(values->document))
        return LH_GRAMMAR_FAILED;
    value.schemas = calloc(2 * all->count + 1, sizeof *value.schemas);
    if (!value.schemas)
        return fail(values, &value);
    memcpy(value.schemas, all->schemas, all->count * sizeof *value.schemas);
    memcpy(value.schemas + all->count, all->schemas, all->count * sizeof *value.schemas);
    qsort(value.schemas + all->count, all->count, sizeof *value.schemas, compare_addresses);
    size_t slot = slot_of(values, &value);
    if (values->table[slot] != NONE) {
        free(value.schemas);
        return lh_grammar_call(grammar, values->entries[values->table[slot]].rule);
    }
    if (values->count == LH_SCHEMA_VALUES_MAX_RULES ||
        !lh_growing_array_reserve(&values->entries, &values->capacity, values->count + 1,
                                  sizeof *values->entries))
        return fail(values, &value);
    value.rule = lh_grammar_declare(grammar, "", 0);
    values->table[slot] = (uint32_t)values->count;
    values->entries[values->count++] = value;
    return lh_grammar_call(grammar, value.rule);
}

/* ---- Simple ones. ---- */

/* Where "$ref" is all that a schema says, the schema that it means. NULL: refused. */
static const json_t *follow(const lh_schema_values *values, const json_t *schema) {
    const json_t *begin = schema;
    for (uint32_t i = 0; json_object_get(schema, "$ref") && lh_schema_keywords(schema) == 1; i++) {
        schema = lh_schema_check_keywords(values->document, schema)
                     ? lh_schema_resolve(values->document, schema)
                     : NULL;
        if (!schema || schema == begin || i == LH_SCHEMA_DEPTH_MAX) {
            lh_schema_refuse(values->document, begin, "$ref", LH_ERR_INVALID,
                             "leads back to itself, or too far");
            return NULL;
        }
    }
    return schema;
}

/* The shared rule of a schema that names a type and says nothing else; LH_GRAMMAR_FAILED: it is
 * none. */
static lh_grammar_rule shared_rule(const lh_schema_values *values, const json_t *schema) {
    const lh_json_rules *rules = &values->rules;
    if (!json_is_string(json_object_get(schema, "type")) || lh_schema_keywords(schema) != 1)
        return LH_GRAMMAR_FAILED;
    switch (lh_schema_get_types(values->document, schema)) {
    case LH_SCHEMA_INTEGER:
        return rules->integer;
    case LH_SCHEMA_NUMBER:
        return rules->number;
    case LH_SCHEMA_STRING:
        return rules->string;
    case LH_SCHEMA_ARRAY:
        return rules->array;
    case LH_SCHEMA_OBJECT:
        return rules->object;
    default:
        return LH_GRAMMAR_FAILED;
    }
}

static lh_grammar_node value_of(lh_schema_values *values, const lh_schema_list *all,
                                bool is_clause) {
    if (all->count == 0)
        return lh_grammar_call(values->document->grammar, values->rules.value);
    if (all->count == 1 && lh_schema_check_keywords(values->document, all->schemas[0])) {
        lh_grammar_rule shared = shared_rule(values, all->schemas[0]);
        if (shared != LH_GRAMMAR_FAILED)
            return lh_grammar_call(values->document->grammar, shared);
    }
    return find(values, all, is_clause);
}

lh_grammar_node lh_schema_clause_value_of(lh_schema_values *values, const lh_schema_list *all) {
    return value_of(values, all, true);
}

lh_grammar_node lh_schema_value_of(lh_schema_values *values, const lh_schema_list *all) {
    lh_schema_list followed = {.count = 0};
    if (lh_schema_list_is_void(all))
        return lh_schema_nothing(values);
    for (size_t i = 0; i < all->count; i++) {
        if (!lh_schema_count_work(values->document, all->schemas[i], 200))
            return LH_GRAMMAR_FAILED;
        const json_t *schema = follow(values, all->schemas[i]);
        if (!schema)
            return LH_GRAMMAR_FAILED;
        lh_schema_list_add(&followed, schema);
    }
    if (lh_schema_list_is_void(&followed))
        return lh_schema_nothing(values);
    return value_of(values, &followed, false);
}

bool lh_schema_values_next(lh_schema_values *values, lh_schema_list *all, bool *is_clause,
                           lh_grammar_rule *rule) {
    if (values->done == values->count || !lh_schema_document_is_good(values->document))
        return false;
    const lh_schema_value *value = &values->entries[values->done++];
    memcpy(all->schemas, value->schemas, value->count * sizeof *value->schemas);
    all->count = value->count;
    *is_clause = value->is_clause;
    *rule = value->rule;
    return true;
}
