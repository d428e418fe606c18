/* Members stand in rules of their own, one for each place and, where numbers matter, for each
 * number of members before it: what is written at this place, and the rule of the next. */
#include "gateway/constrain/schema_object.h"

#include "gateway/constrain/dfa_rules.h"
#include "gateway/constrain/regex.h"
#include "gateway/constrain/schema_name.h"
#include "gateway/constrain/schema_property.h"
#include "gateway/constrain/text_product.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of names that are not named, by the patterns that match them. */
#define KINDS_MAX 64u

typedef struct object {
    lh_schema_values *values;
    lh_grammar *grammar;
    lh_schema_properties properties;
    lh_grammar_node *members; /* [count] name and value; LH_GRAMMAR_FAILED: none may be written */
    size_t required;
    uint32_t name_parts; /* those of a name's automaton, bit by bit, that all names must have */
    bool has_others;
    lh_grammar_rule other; /* a member that is not named */
    uint32_t counted_to;   /* a greater number of members makes no difference */
    lh_grammar_rule first; /* of the places' rules */
} object;

/* ---- Names that are not named. ---- */

/* Which names are whose: part 0 has all that are named. */
static uint32_t kind_of_name(const void *context, uint32_t parts) {
    const object *of = context;
    bool is_named = of->properties.count > 0 && (parts & 1);
    bool is_bad = (parts & of->name_parts) != of->name_parts;
    parts &= ~of->name_parts;
    uint32_t matched = of->properties.count > 0 ? parts >> 1 : parts;
    return is_named || is_bad || (matched == 0 && !of->properties.has_others) ? 0 : matched + 1;
}

static void read_patterns(const object *of, lh_grammar *scratch, lh_grammar_node *nodes) {
    const lh_schema_properties *properties = &of->properties;
    lh_error cause;
    for (size_t i = 0; i < properties->pattern_count; i++) {
        size_t length = strlen(properties->patterns[i]);
        nodes[i] = lh_regex_add(scratch, properties->patterns[i], length,
                                (lh_regex_options){.is_search = true});
        if (lh_grammar_check(scratch, &cause))
            lh_schema_refuse(properties->document, properties->pattern_owners[i],
                             "patternProperties", cause.status, "\"%.40s\" cannot be used: %s",
                             properties->patterns[i], cause.message);
    }
}

static lh_grammar_node all_names(const object *of, lh_grammar *scratch) {
    const lh_schema_properties *properties = &of->properties;
    lh_grammar_node *names = calloc(properties->count, sizeof *names), node;
    if (!names)
        return lh_grammar_fail(scratch, LH_ERR_NO_MEMORY, "no memory for a schema's names");
    for (size_t i = 0; i < properties->count; i++)
        names[i] = lh_grammar_text(scratch, properties->properties[i].name);
    node = lh_grammar_choice(scratch, names, properties->count);
    free(names);
    return node;
}

static void build_names(object *of, lh_grammar *scratch, lh_dfa *dfa) {
    const lh_schema_document *document = of->properties.document;
    lh_grammar_node parts[LH_TEXT_PARTS_MAX];
    size_t count = 0;
    lh_error cause;
    if (of->properties.count > 0)
        parts[count++] = all_names(of, scratch);
    read_patterns(of, scratch, parts + count);
    count += of->properties.pattern_count;
    of->name_parts = 0u - (1u << count);
    lh_schema_names_add(document, of->properties.all, scratch, parts, LH_TEXT_PARTS_MAX, &count);
    of->name_parts &= (1u << count) - 1;
    if (lh_schema_document_is_good(document) &&
        lh_text_product_build(scratch, parts, count, kind_of_name, of, document->work, dfa, &cause))
        lh_schema_refuse(document, of->properties.all->schemas[0], NULL, cause.status,
                         "to tell the names of its members %s", cause.message);
}

/* A member with a name of this kind, or LH_GRAMMAR_FAILED where there is none. */
static lh_grammar_node other_of_kind(object *of, const lh_dfa *dfa, uint32_t kind) {
    lh_schema_list all = lh_schema_properties_of(&of->properties, NULL, kind - 1);
    if (lh_schema_list_is_void(&all))
        return LH_GRAMMAR_FAILED;
    const lh_grammar_node nodes[] = {
        lh_grammar_text(of->grammar, "\""), lh_dfa_rules_add(of->grammar, dfa, kind, true),
        lh_grammar_text(of->grammar, "\": "), lh_schema_value_of(of->values, &all)};
    return lh_grammar_sequence(of->grammar, nodes, 4);
}

static size_t kinds_of(const lh_dfa *dfa, uint32_t *kinds) {
    size_t count = 0;
    for (size_t s = 0; s < dfa->state_count; s++) {
        size_t i = 0;
        while (i < count && kinds[i] != dfa->states[s].label)
            i++;
        if (i == count && dfa->states[s].label && count < KINDS_MAX)
            kinds[count++] = dfa->states[s].label;
    }
    return count;
}

static void define_others(object *of, const lh_dfa *dfa) {
    uint32_t kinds[KINDS_MAX];
    lh_grammar_node ways[KINDS_MAX];
    size_t count = kinds_of(dfa, kinds), kept = 0;
    if (count == KINDS_MAX)
        lh_schema_refuse(of->properties.document, of->properties.all->schemas[0],
                         "patternProperties", LH_ERR_LIMIT, "tell more than %u kinds of names",
                         KINDS_MAX - 1);
    for (size_t i = 0; i < count; i++) {
        ways[kept] = other_of_kind(of, dfa, kinds[i]);
        kept += ways[kept] != LH_GRAMMAR_FAILED;
    }
    of->has_others = kept > 0;
    lh_grammar_define(of->grammar, of->other, lh_grammar_choice(of->grammar, ways, kept));
}

/* Any name, where nothing tells one from another. */
static void define_any_others(object *of) {
    lh_schema_list all = lh_schema_properties_of(&of->properties, NULL, 0);
    of->has_others = of->properties.has_others && !lh_schema_list_is_void(&all);
    const lh_grammar_node nodes[] = {
        lh_grammar_call(of->grammar, of->values->rules.string), lh_grammar_text(of->grammar, ": "),
        of->has_others ? lh_schema_value_of(of->values, &all) : lh_schema_nothing(of->values)};
    lh_grammar_define(of->grammar, of->other, lh_grammar_sequence(of->grammar, nodes, 3));
}

static bool tells_names(const object *of) {
    lh_schema_list all = lh_schema_properties_of(&of->properties, NULL, 0);
    bool may_be_any = of->properties.has_others && !lh_schema_list_is_void(&all);
    bool are_bound = lh_schema_names_are_bound(of->properties.all);
    return of->properties.pattern_count > 0 ||
           ((of->properties.count > 0 || are_bound) && may_be_any);
}

static void add_others(object *of) {
    lh_grammar *scratch;
    lh_dfa dfa = {0};
    lh_error cause;
    of->other = lh_grammar_declare(of->grammar, "", 0);
    if (!tells_names(of)) {
        define_any_others(of);
        return;
    }
    if (lh_grammar_create(&scratch, &cause)) {
        lh_grammar_fail(of->grammar, cause.status, "%s", cause.message);
        return;
    }
    build_names(of, scratch, &dfa);
    if (lh_schema_document_is_good(of->properties.document))
        define_others(of, &dfa);
    lh_dfa_reset(&dfa);
    lh_grammar_destroy(scratch);
}

/* ---- Names that are. ---- */

/* Which of the patterns match a name, bit by bit. */
static uint32_t every_part(const void *context, uint32_t parts) {
    (void)context;
    return parts + 1;
}

static bool build_patterns(const object *of, lh_dfa *dfa) {
    const lh_schema_document *document = of->properties.document;
    lh_grammar_node parts[LH_SCHEMA_PATTERNS_MAX];
    lh_grammar *scratch;
    lh_error cause;
    if (of->properties.pattern_count == 0)
        return true;
    if (lh_grammar_create(&scratch, &cause)) {
        lh_grammar_fail(of->grammar, cause.status, "%s", cause.message);
        return false;
    }
    read_patterns(of, scratch, parts);
    if (lh_schema_document_is_good(document) &&
        lh_text_product_build(scratch, parts, of->properties.pattern_count, every_part, NULL,
                              document->work, dfa, &cause))
        lh_schema_refuse(document, of->properties.all->schemas[0], "patternProperties",
                         cause.status, "%s", cause.message);
    lh_grammar_destroy(scratch);
    return lh_schema_document_is_good(document);
}

static lh_grammar_node member(object *of, const lh_schema_property *property, uint32_t matched) {
    const lh_schema_properties *properties = &of->properties;
    const json_t *first = properties->all->schemas[0];
    if (!lh_schema_count_work(properties->document, first, 50 * properties->all->count))
        return LH_GRAMMAR_FAILED;
    lh_schema_list all = lh_schema_properties_of(properties, property->name, matched);
    bool is_void = lh_schema_list_is_void(&all);
    for (size_t i = 0; i < properties->all->count && !is_void; i++)
        is_void =
            !lh_schema_name_fits(properties->document, properties->all->schemas[i], property->name);
    if (is_void)
        return LH_GRAMMAR_FAILED;
    const lh_grammar_node nodes[] = {lh_json_member_name(of->grammar, "", property->name),
                                     lh_schema_value_of(of->values, &all)};
    return lh_grammar_sequence(of->grammar, nodes, 2);
}

static void add_members(object *of) {
    lh_dfa dfa = {0};
    of->members = calloc(of->properties.count + 1, sizeof *of->members);
    if (!of->members)
        lh_grammar_fail(of->grammar, LH_ERR_NO_MEMORY, "no memory for an object's members");
    if (!of->members || !build_patterns(of, &dfa)) {
        lh_dfa_reset(&dfa);
        return;
    }
    for (size_t i = 0; i < of->properties.count; i++) {
        const lh_schema_property *property = &of->properties.properties[i];
        uint32_t matched = of->properties.pattern_count > 0
                               ? lh_dfa_label_of(&dfa, property->name, strlen(property->name)) - 1
                               : 0;
        of->members[i] = member(of, property, matched);
        of->required += property->is_required;
    }
    lh_dfa_reset(&dfa);
}

/* ---- Places. ---- */

static lh_grammar_node with_comma(const object *of, bool has_comma, lh_grammar_node node) {
    const lh_grammar_node nodes[] = {lh_grammar_text(of->grammar, ", "), node};
    return has_comma ? lh_grammar_sequence(of->grammar, nodes, 2) : node;
}

static uint32_t limit(const object *of, size_t number) {
    return number < of->counted_to ? (uint32_t)number : of->counted_to;
}

static lh_grammar_rule place_rule(const object *of, size_t place, size_t number) {
    return of->first + (lh_grammar_rule)(place * (of->counted_to + 1u) + limit(of, number));
}

/* Behind all that is named, `number` of which were written: so many others as the bounds allow. */
static lh_grammar_node others_behind(const object *of, uint32_t number) {
    const lh_schema_properties *bounds = &of->properties;
    uint32_t least = bounds->least > number ? bounds->least - number : 0;
    uint32_t most = bounds->most == LH_GRAMMAR_UNBOUNDED ? bounds->most
                    : bounds->most > number              ? bounds->most - number
                                                         : 0;
    if (!of->has_others)
        most = 0;
    /* Two of the same name are one. */
    if (least > most || least > 1)
        return lh_schema_nothing(of->values);
    lh_grammar_node one = lh_grammar_call(of->grammar, of->other);
    lh_grammar_node more = with_comma(of, true, one);
    if (number > 0)
        return lh_grammar_repeat(of->grammar, more, least, most);
    if (most == 0)
        return lh_grammar_empty(of->grammar);
    const lh_grammar_node nodes[] = {
        one,
        lh_grammar_repeat(of->grammar, more, 0, most == LH_GRAMMAR_UNBOUNDED ? most : most - 1)};
    return lh_grammar_repeat(of->grammar, lh_grammar_sequence(of->grammar, nodes, 2), least, 1);
}

/* The member of this place, or none. */
static lh_grammar_node place_node(const object *of, size_t place, uint32_t number) {
    lh_grammar_node ways[2];
    size_t count = 0;
    bool is_required = of->properties.properties[place].is_required;
    if (of->members[place] != LH_GRAMMAR_FAILED && number < of->properties.most) {
        const lh_grammar_node nodes[] = {
            with_comma(of, number > 0, of->members[place]),
            lh_grammar_call(of->grammar, place_rule(of, place + 1, number + 1u))};
        ways[count++] = lh_grammar_sequence(of->grammar, nodes, 2);
    }
    if (!is_required)
        ways[count++] = lh_grammar_call(of->grammar, place_rule(of, place + 1, number));
    return lh_grammar_choice(of->grammar, ways, count);
}

static lh_grammar_node add_places(object *of) {
    size_t count = of->properties.count, states = (count + 1) * (of->counted_to + 1u);
    if (states > LH_SCHEMA_MEMBER_STATES_MAX)
        return lh_schema_refuse(of->properties.document, of->properties.all->schemas[0], NULL,
                                LH_ERR_LIMIT, "has too many properties for its bounds of them");
    for (size_t i = 0; i < states; i++) {
        lh_grammar_rule rule = lh_grammar_declare(of->grammar, "", 0);
        of->first = i == 0 ? rule : of->first;
    }
    for (size_t place = 0; place <= count; place++)
        for (uint32_t number = 0; number <= of->counted_to; number++)
            lh_grammar_define(of->grammar, place_rule(of, place, number),
                              place < count ? place_node(of, place, number)
                                            : others_behind(of, number));
    return lh_grammar_call(of->grammar, of->first);
}

/* Where some member is required and numbers do not matter, the others need no rules: those before
 * the first required one bring the comma behind them, those after it the one before. */
static lh_grammar_node add_row(object *of) {
    size_t count = of->properties.count, kept = 0;
    lh_grammar_node *row = calloc(count + 1, sizeof *row), node;
    bool has_required = false;
    if (!row)
        return lh_grammar_fail(of->grammar, LH_ERR_NO_MEMORY, "no memory for an object's members");
    for (size_t i = 0; i < count; i++) {
        bool is_required = of->properties.properties[i].is_required;
        const lh_grammar_node behind[] = {of->members[i], lh_grammar_text(of->grammar, ", ")};
        if (of->members[i] == LH_GRAMMAR_FAILED)
            continue;
        node = has_required || is_required ? with_comma(of, has_required, of->members[i])
                                           : lh_grammar_sequence(of->grammar, behind, 2);
        row[kept++] = lh_grammar_repeat(of->grammar, node, is_required, 1);
        has_required |= is_required;
    }
    row[kept++] = others_behind(of, (uint32_t)of->required);
    node = lh_grammar_sequence(of->grammar, row, kept);
    free(row);
    return node;
}

static bool is_possible(const object *of) {
    for (size_t i = 0; i < of->properties.count; i++)
        if (of->properties.properties[i].is_required && of->members[i] == LH_GRAMMAR_FAILED)
            return false;
    return of->required <= of->properties.most && of->properties.least <= of->properties.most;
}

static lh_grammar_node add_inside(object *of) {
    const lh_schema_properties *properties = &of->properties;
    if (!is_possible(of))
        return lh_schema_nothing(of->values);
    if (properties->least > properties->count + of->has_others && of->has_others)
        return lh_schema_refuse(properties->document, properties->all->schemas[0], "minProperties",
                                LH_ERR_UNSUPPORTED,
                                "above the number of named properties and one is not supported");
    if (of->required > 0 && properties->least <= of->required &&
        properties->most == LH_GRAMMAR_UNBOUNDED)
        return add_row(of);
    of->counted_to = properties->most < LH_GRAMMAR_UNBOUNDED ? properties->most : properties->least;
    if (of->counted_to < 1)
        of->counted_to = 1;
    if (of->counted_to > properties->count + 1)
        of->counted_to = (uint32_t)properties->count + 1;
    return add_places(of);
}

lh_grammar_node lh_schema_object_add(lh_schema_values *values, const lh_schema_list *all) {
    const lh_schema_document *document = values->document;
    object of = {.values = values, .grammar = document->grammar};
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    lh_schema_properties_find(document, all, &of.properties);
    if (lh_schema_document_is_good(document))
        add_members(&of);
    if (lh_schema_document_is_good(document))
        add_others(&of);
    if (lh_schema_document_is_good(document)) {
        const lh_grammar_node nodes[] = {lh_grammar_text(of.grammar, "{"), add_inside(&of),
                                         lh_grammar_text(of.grammar, "}")};
        node = lh_grammar_sequence(of.grammar, nodes, 3);
    }
    free(of.members);
    lh_schema_properties_reset(&of.properties);
    return node;
}
