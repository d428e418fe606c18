/* Names are texts without quotes: patterns, lengths and lists of them are parts of one automaton
 * with what tells names apart otherwise. */
#include "gateway/constrain/schema_name.h"

#include "gateway/constrain/schema_string.h"

#include <stdlib.h>
#include <string.h>

static const json_t *names_of(const json_t *schema) {
    const json_t *names = json_object_get(schema, "propertyNames");
    return names && !lh_schema_is_trivial(names) ? names : NULL;
}

/* Nothing but what is followed. */
static bool is_plain(const lh_schema_document *document, const json_t *schema,
                     const json_t *names) {
    static const char *const followed[] = {"type",   "minLength", "maxLength", "pattern",
                                           "format", "enum",      "const"};
    size_t count = json_is_object(names) ? lh_schema_keywords(names) : 0;
    for (size_t i = 0; i < sizeof followed / sizeof *followed; i++)
        count -= json_object_get(names, followed[i]) != NULL;
    if (count > 0)
        lh_schema_refuse(document, schema, "propertyNames", LH_ERR_UNSUPPORTED,
                         "is followed with type, minLength, maxLength, pattern, format, enum and "
                         "const alone");
    return lh_schema_check_keywords(document, names);
}

static bool is_listed(const lh_schema_document *document, const json_t *list, const char *name) {
    bool found = !list;
    if (!lh_schema_count_work(document, list, 4 * json_array_size(list)))
        return false;
    for (size_t i = 0; i < json_array_size(list) && !found; i++) {
        const char *one = json_string_value(json_array_get(list, i));
        found = one && strcmp(one, name) == 0;
    }
    return found;
}

/* Names that are listed: of no length, where the list holds no text. */
static lh_grammar_node add_list(const json_t *list, const json_t *one, lh_grammar *grammar) {
    size_t count = one ? 1 : json_array_size(list), kept = 0;
    lh_grammar_node *ways = calloc(count + 1, sizeof *ways), node;
    if (!ways)
        return lh_grammar_fail(grammar, LH_ERR_NO_MEMORY, "no memory for a list of names");
    for (size_t i = 0; i < count; i++) {
        const json_t *name = one ? one : json_array_get(list, i);
        if (json_is_string(name))
            ways[kept++] =
                lh_grammar_literal(grammar, json_string_value(name), json_string_length(name));
    }
    node = lh_grammar_choice(grammar, ways, kept);
    free(ways);
    return node;
}

static void add_names(const lh_schema_document *document, const json_t *schema, lh_grammar *grammar,
                      lh_grammar_node *nodes, size_t max, size_t *count) {
    const json_t *names = names_of(schema);
    if (!names || !is_plain(document, schema, names))
        return;
    const json_t *one = json_object_get(names, "const"),
                 *list = lh_schema_get_list(document, names, "enum");
    bool is_void =
        json_is_false(names) || !(lh_schema_get_types(document, names) & LH_SCHEMA_STRING);
    if (*count + 2 > max)
        lh_schema_refuse(document, schema, "propertyNames", LH_ERR_LIMIT,
                         "is one of too many for one object");
    else if (is_void)
        nodes[(*count)++] = lh_grammar_choice(grammar, NULL, 0);
    else if (one || list)
        nodes[(*count)++] = add_list(list, one, grammar);
    if (!is_void && json_is_object(names))
        lh_schema_string_add_parts(document, names, grammar, nodes, max, count);
}

void lh_schema_names_add(const lh_schema_document *document, const lh_schema_list *all,
                         lh_grammar *grammar, lh_grammar_node *nodes, size_t max, size_t *count) {
    for (size_t i = 0; i < all->count && lh_schema_document_is_good(document); i++)
        add_names(document, all->schemas[i], grammar, nodes, max, count);
}

bool lh_schema_names_are_bound(const lh_schema_list *all) {
    bool are = false;
    for (size_t i = 0; i < all->count; i++)
        are |= names_of(all->schemas[i]) != NULL;
    return are;
}

bool lh_schema_name_fits(const lh_schema_document *document, const json_t *schema,
                         const char *name) {
    const json_t *names = names_of(schema);
    if (!names)
        return true;
    if (!is_plain(document, schema, names) || json_is_false(names))
        return false;
    const json_t *one = json_object_get(names, "const");
    json_t *text = json_string(name);
    bool fits = (lh_schema_get_types(document, names) & LH_SCHEMA_STRING) &&
                (!one || json_equal(one, text)) &&
                is_listed(document, lh_schema_get_list(document, names, "enum"), name) &&
                lh_schema_string_fits(document, names, text);
    json_decref(text);
    return fits;
}
