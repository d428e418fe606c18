/* Elements with a schema of their own, then any number of others. */
#include "gateway/constrain/schema_array.h"

/* Elements with a schema of their own. */
#define PREFIX_MAX 1000u
/* Numbers of elements, for each number of those that "contains" counts. */
#define COUNTED_STATES_MAX 20000u

typedef struct array_shape {
    uint32_t prefix; /* elements that some schema speaks of by their place */
    uint32_t least, most;
    bool has_items;
    const json_t *contained; /* some elements must satisfy it, so many at least; NULL: none must */
    uint32_t contained_least;
} array_shape;

static void add_contained(const lh_schema_document *document, const json_t *schema,
                          array_shape *of) {
    const json_t *contained = json_object_get(schema, "contains");
    uint32_t least = lh_schema_get_count(document, schema, "minContains", 1);
    if (!contained || least == 0 || !lh_schema_check_keywords(document, contained))
        return;
    if (of->contained && of->contained != contained)
        lh_schema_refuse(document, schema, "contains", LH_ERR_UNSUPPORTED,
                         "is not supported twice for one array");
    of->contained = contained;
    of->contained_least = least > of->contained_least ? least : of->contained_least;
}

static array_shape shape_of(const lh_schema_values *values, const lh_schema_list *all) {
    const lh_schema_document *document = values->document;
    array_shape of = {.most = LH_GRAMMAR_UNBOUNDED};
    for (size_t i = 0; i < all->count; i++) {
        const json_t *schema = all->schemas[i];
        size_t prefix = json_array_size(lh_schema_get_list(document, schema, "prefixItems"));
        uint32_t least = lh_schema_get_count(document, schema, "minItems", 0),
                 most = lh_schema_get_count(document, schema, "maxItems", LH_GRAMMAR_UNBOUNDED);
        if (prefix > PREFIX_MAX)
            lh_schema_refuse(document, schema, "prefixItems", LH_ERR_LIMIT,
                             "has more than %u elements", PREFIX_MAX);
        of.prefix = prefix > of.prefix ? (uint32_t)prefix : of.prefix;
        of.least = least > of.least ? least : of.least;
        of.most = most < of.most ? most : of.most;
        of.has_items |= json_object_get(schema, "items") != NULL;
        add_contained(document, schema, &of);
        if (of.contained && of.prefix > 0)
            lh_schema_refuse(document, schema, "contains", LH_ERR_UNSUPPORTED,
                             "is not supported together with 'prefixItems'");
    }
    return of;
}

/* The element at this place; of.prefix: of all behind the prefix. */
static lh_schema_list element(const lh_schema_list *all, uint32_t place) {
    lh_schema_list list = {.count = 0};
    for (size_t i = 0; i < all->count; i++) {
        const json_t *prefix = json_object_get(all->schemas[i], "prefixItems"),
                     *items = json_object_get(all->schemas[i], "items"),
                     *one = place < json_array_size(prefix) ? json_array_get(prefix, place) : items;
        if (one)
            lh_schema_list_add(&list, one);
    }
    return list;
}

static lh_grammar_node behind_comma(lh_grammar *grammar, lh_grammar_node node) {
    const lh_grammar_node nodes[] = {lh_grammar_text(grammar, ", "), node};
    return lh_grammar_sequence(grammar, nodes, 2);
}

/* At most `most` and at least `least` elements that are alike, `is_first`: the first of the array.
 */
static lh_grammar_node alike(lh_grammar *grammar, lh_grammar_node one, uint32_t least,
                             uint32_t most, bool is_first) {
    if (!is_first || most == 0)
        return lh_grammar_repeat(grammar, behind_comma(grammar, one), least, most);
    const lh_grammar_node nodes[] = {
        one, lh_grammar_repeat(grammar, behind_comma(grammar, one), least > 0 ? least - 1 : 0,
                               most == LH_GRAMMAR_UNBOUNDED ? most : most - 1)};
    return lh_grammar_repeat(grammar, lh_grammar_sequence(grammar, nodes, 2), least > 0, 1);
}

static uint32_t less(uint32_t count, uint32_t by) {
    return count == LH_GRAMMAR_UNBOUNDED ? count : count > by ? count - by : 0;
}

/* The elements from the last to the first: each place's rule is the element, and what may follow.
 */
static lh_grammar_node elements(lh_schema_values *values, const lh_schema_list *all,
                                const array_shape *of) {
    lh_grammar *grammar = values->document->grammar;
    uint32_t prefix = of->prefix < of->most ? of->prefix : of->most;
    lh_schema_list rest = element(all, of->prefix);
    bool goes_on = of->most > prefix && !lh_schema_list_is_void(&rest);
    lh_grammar_node node = goes_on
                               ? alike(grammar, lh_schema_value_of(values, &rest),
                                       less(of->least, prefix), less(of->most, prefix), prefix == 0)
                           : of->least > prefix ? lh_schema_nothing(values)
                                                : lh_grammar_empty(grammar);
    for (uint32_t place = prefix; place-- > 0;) {
        const lh_schema_list list = element(all, place);
        lh_grammar_node one = lh_schema_value_of(values, &list);
        const lh_grammar_node nodes[] = {place > 0 ? behind_comma(grammar, one) : one, node};
        lh_grammar_rule rule = lh_grammar_declare(grammar, "", 0);
        lh_grammar_define(grammar, rule,
                          lh_grammar_repeat(grammar, lh_grammar_sequence(grammar, nodes, 2),
                                            place < of->least, 1));
        node = lh_grammar_call(grammar, rule);
    }
    return node;
}

/* ---- Elements of which some are counted. ---- */

typedef struct counted {
    lh_grammar *grammar;
    const array_shape *shape;
    lh_grammar_node any, wanted;
    uint32_t numbers; /* more elements than this make no difference */
    lh_grammar_rule first;
} counted;

static lh_grammar_rule counted_rule(const counted *of, uint32_t number, uint32_t found) {
    uint32_t limited = number < of->numbers ? number : of->numbers;
    return of->first + limited * (of->shape->contained_least + 1) + found;
}

static lh_grammar_node go_on(const counted *of, lh_grammar_node one, uint32_t number,
                             uint32_t found) {
    const lh_grammar_node nodes[] = {
        number > 0 ? behind_comma(of->grammar, one) : one,
        lh_grammar_call(of->grammar, counted_rule(of, number + 1, found))};
    return lh_grammar_sequence(of->grammar, nodes, 2);
}

/* Behind `number` elements, of which `found` are counted. */
static lh_grammar_node counted_node(const counted *of, uint32_t number, uint32_t found) {
    const array_shape *shape = of->shape;
    lh_grammar_node ways[3];
    size_t count = 0;
    if (number >= shape->least && found == shape->contained_least)
        ways[count++] = lh_grammar_empty(of->grammar);
    if (number < shape->most)
        ways[count++] = go_on(of, of->any, number, found);
    if (number < shape->most && found < shape->contained_least)
        ways[count++] = go_on(of, of->wanted, number, found + 1);
    return lh_grammar_choice(of->grammar, ways, count);
}

static lh_grammar_node counted_elements(lh_schema_values *values, const lh_schema_list *all,
                                        const array_shape *shape) {
    lh_schema_list rest = element(all, 0), wanted = rest;
    counted of = {.grammar = values->document->grammar, .shape = shape};
    of.numbers = shape->most < LH_GRAMMAR_UNBOUNDED ? shape->most : shape->least;
    if (of.numbers == 0)
        of.numbers = 1;
    uint64_t states = (of.numbers + (uint64_t)1) * (shape->contained_least + (uint64_t)1);
    if (states > COUNTED_STATES_MAX || !lh_schema_list_add(&wanted, shape->contained))
        return lh_schema_refuse(values->document, all->schemas[0], "contains", LH_ERR_LIMIT,
                                "has too many elements to count");
    if (lh_schema_list_is_void(&wanted) || shape->contained_least > shape->most)
        return lh_schema_nothing(values);
    of.any = lh_schema_value_of(values, &rest);
    of.wanted = lh_schema_value_of(values, &wanted);
    for (uint64_t i = 0; i < states; i++) {
        lh_grammar_rule rule = lh_grammar_declare(of.grammar, "", 0);
        of.first = i == 0 ? rule : of.first;
    }
    for (uint32_t number = 0; number <= of.numbers; number++)
        for (uint32_t found = 0; found <= shape->contained_least; found++)
            lh_grammar_define(of.grammar, counted_rule(&of, number, found),
                              counted_node(&of, number, found));
    return lh_grammar_call(of.grammar, of.first);
}

lh_grammar_node lh_schema_array_add(lh_schema_values *values, const lh_schema_list *all) {
    lh_grammar *grammar = values->document->grammar;
    array_shape of = shape_of(values, all);
    if (!lh_schema_document_is_good(values->document))
        return LH_GRAMMAR_FAILED;
    /* What nobody mentions is not written, unless there must be so many. */
    if (of.prefix > 0 && !of.has_items && of.most > of.prefix)
        of.most = of.least > of.prefix ? of.least : of.prefix;
    if (of.least > of.most)
        return lh_schema_nothing(values);
    const lh_grammar_node nodes[] = {lh_grammar_text(grammar, "["),
                                     of.contained ? counted_elements(values, all, &of)
                                                  : elements(values, all, &of),
                                     lh_grammar_text(grammar, "]")};
    return lh_grammar_sequence(grammar, nodes, 3);
}
