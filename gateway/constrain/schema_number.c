/* The closest bounds of all schemas, and what is a multiple of all. */
#include "gateway/constrain/schema_number.h"

#include "gateway/constrain/decimal_language.h"
#include "gateway/constrain/dfa_rules.h"

static lh_decimal decimal_of(const json_t *number) {
    return json_is_integer(number) ? lh_decimal_of_integer(json_integer_value(number))
                                   : lh_decimal_of_double(json_real_value(number));
}

/* way: 1: the greater one of two bounds holds, as of minimum; -1: the lesser one. */
static void narrow(const lh_schema_document *document, const json_t *schema, const char *keyword,
                   int way, bool is_exclusive, lh_decimal_bound *bound) {
    const json_t *number = lh_schema_get_number(document, schema, keyword);
    if (!number)
        return;
    const lh_decimal_bound given = {true, is_exclusive, decimal_of(number)};
    int order = bound->is_given ? way * lh_decimal_compare(&given.value, &bound->value) : 1;
    if (order > 0 || (order == 0 && is_exclusive))
        *bound = given;
}

static void collect(const lh_schema_document *document, const json_t *schema,
                    lh_decimal_language *of) {
    const json_t *multiple = lh_schema_get_number(document, schema, "multipleOf");
    lh_error cause;
    narrow(document, schema, "minimum", 1, false, &of->least);
    narrow(document, schema, "exclusiveMinimum", 1, true, &of->least);
    narrow(document, schema, "maximum", -1, false, &of->most);
    narrow(document, schema, "exclusiveMaximum", -1, true, &of->most);
    if (!multiple)
        return;
    const lh_decimal decimal = decimal_of(multiple);
    if (lh_decimal_language_add_multiple(of, &decimal, &cause))
        lh_schema_refuse(document, schema, "multipleOf", cause.status, "%s", cause.message);
}

static lh_grammar_node add_language(const lh_schema_document *document, const lh_schema_list *all,
                                    const lh_decimal_language *language) {
    lh_dfa dfa = {0};
    lh_error cause;
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    if (lh_decimal_language_build(language, document->work, &dfa, &cause))
        lh_schema_refuse(document, all->schemas[0], language->multiple ? "multipleOf" : "minimum",
                         cause.status, "with the bounds beside it %s", cause.message);
    else
        node = lh_dfa_rules_add(document->grammar, &dfa, 1, false);
    lh_dfa_reset(&dfa);
    return node;
}

lh_grammar_node lh_schema_number_add(const lh_schema_document *document, const lh_json_rules *rules,
                                     const lh_schema_list *all, bool integers_only) {
    lh_decimal_language of = {.integers_only = integers_only};
    for (size_t i = 0; i < all->count; i++)
        collect(document, all->schemas[i], &of);
    if (!lh_schema_document_is_good(document))
        return LH_GRAMMAR_FAILED;
    if (!of.least.is_given && !of.most.is_given && !of.multiple)
        return lh_grammar_call(document->grammar, integers_only ? rules->integer : rules->number);
    return add_language(document, all, &of);
}

bool lh_schema_number_fits(const lh_schema_document *document, const json_t *schema,
                           const json_t *number) {
    lh_decimal_language of = {0};
    collect(document, schema, &of);
    const lh_decimal value = decimal_of(number);
    int to_least = of.least.is_given ? lh_decimal_compare(&value, &of.least.value) : 1,
        to_most = of.most.is_given ? lh_decimal_compare(&value, &of.most.value) : -1;
    if (!lh_schema_document_is_good(document) || to_least < 0 || to_most > 0 ||
        (to_least == 0 && of.least.is_exclusive) || (to_most == 0 && of.most.is_exclusive))
        return false;
    return !of.multiple || lh_decimal_is_multiple(&value, of.multiple, of.multiple_places);
}

bool lh_schema_numbers_are_equal(const json_t *a, const json_t *b) {
    const lh_decimal x = decimal_of(a), y = decimal_of(b);
    return lh_decimal_compare(&x, &y) == 0;
}
