/* One pattern alone is a part of the grammar as it is; where several conditions hold, or lengths
 * beside a pattern, they become one automaton. */
#include "gateway/constrain/schema_string.h"

#include "common/base/utf8.h"
#include "gateway/constrain/dfa_rules.h"
#include "gateway/constrain/grammar_length.h"
#include "gateway/constrain/regex.h"
#include "gateway/constrain/string_format.h"
#include "gateway/constrain/text_product.h"

#include <string.h>

/* Lengths are one of an automaton's parts. */
#define PATTERNS_MAX (LH_TEXT_PARTS_MAX - 1)

typedef struct pattern {
    const json_t *schema;
    const char *keyword;
    const char *text;
    size_t length;
    bool is_search;
    uint32_t repeats_max; /* as of lh_regex_options */
} pattern;

typedef struct conditions {
    pattern patterns[PATTERNS_MAX];
    size_t count;
    uint32_t least, most; /* characters */
} conditions;

static void add_pattern(const lh_schema_document *document, conditions *all, pattern one) {
    if (all->count == PATTERNS_MAX)
        lh_schema_refuse(document, one.schema, one.keyword, LH_ERR_LIMIT,
                         "is one of more than %u for one string", PATTERNS_MAX);
    else
        all->patterns[all->count++] = one;
}

static void add_format(const lh_schema_document *document, conditions *all, const json_t *schema) {
    const char *format = json_string_value(lh_schema_get_text(document, schema, "format"));
    const char *text = format ? lh_string_format_pattern(format) : NULL;
    if (text)
        add_pattern(document, all,
                    (pattern){schema, "format", text, strlen(text), .is_search = false});
    else if (format && lh_string_format_is_standard(format))
        lh_schema_refuse(document, schema, "format", LH_ERR_UNSUPPORTED,
                         "\"%.30s\" is not supported", format);
}

static void collect(const lh_schema_document *document, const json_t *schema, conditions *all) {
    uint32_t least = lh_schema_get_count(document, schema, "minLength", 0),
             most = lh_schema_get_count(document, schema, "maxLength", LH_GRAMMAR_UNBOUNDED);
    const json_t *text = lh_schema_get_text(document, schema, "pattern");
    all->least = least > all->least ? least : all->least;
    all->most = most < all->most ? most : all->most;
    if (text)
        add_pattern(document, all,
                    (pattern){schema, "pattern", json_string_value(text), json_string_length(text),
                              .is_search = true});
    add_format(document, all, schema);
}

/* The pattern as a node of `grammar`; what is wrong with it is said about its schema. */
static lh_grammar_node read_pattern(const lh_schema_document *document, const pattern *of,
                                    lh_grammar *grammar, bool is_json_text) {
    const lh_regex_options options = {of->is_search, is_json_text, of->repeats_max};
    lh_grammar_node node = lh_regex_add(grammar, of->text, of->length, options);
    lh_error cause;
    *document->work += of->length;
    if (lh_grammar_check(grammar, &cause))
        return lh_schema_refuse(document, of->schema, of->keyword, cause.status,
                                "cannot be used: %s", cause.message);
    return node;
}

/* ---- Several conditions. ---- */

static uint32_t all_parts(const void *context, uint32_t parts) {
    return parts == *(const uint32_t *)context;
}

/* Each condition as a part, of which there are PATTERNS_MAX + 1 at most. */
static uint32_t add_parts(const lh_schema_document *document, const conditions *all,
                          lh_grammar *scratch, lh_grammar_node *parts) {
    uint32_t count = 0;
    for (; count < all->count && lh_schema_document_is_good(document); count++)
        parts[count] = read_pattern(document, &all->patterns[count], scratch, false);
    if (all->least > 0 || all->most < LH_GRAMMAR_UNBOUNDED)
        parts[count++] = lh_grammar_repeat(scratch, lh_grammar_class(scratch, NULL, 0, true),
                                           all->least, all->most);
    return count;
}

void lh_schema_string_add_parts(const lh_schema_document *document, const json_t *schema,
                                lh_grammar *grammar, lh_grammar_node *nodes, size_t max,
                                size_t *count) {
    conditions all = {.most = LH_GRAMMAR_UNBOUNDED};
    collect(document, schema, &all);
    if (!lh_schema_document_is_good(document))
        return;
    if (*count + all.count + 1 > max)
        lh_schema_refuse(document, schema, NULL, LH_ERR_LIMIT,
                         "asks for more than can be told of one text");
    else if (all.least > all.most)
        nodes[(*count)++] = lh_grammar_choice(grammar, NULL, 0);
    else
        *count += add_parts(document, &all, grammar, nodes + *count);
}

/* The texts that satisfy all conditions. False: refused. */
static bool build_product(const lh_schema_document *document, const conditions *all,
                          lh_grammar *scratch, lh_dfa *dfa) {
    lh_grammar_node parts[LH_TEXT_PARTS_MAX];
    lh_error cause;
    uint32_t count = add_parts(document, all, scratch, parts);
    const uint32_t wanted = (1u << count) - 1;
    if (lh_schema_document_is_good(document) &&
        lh_text_product_build(scratch, parts, count, all_parts, &wanted, document->work, dfa,
                              &cause))
        lh_schema_refuse(document, all->patterns[0].schema, all->patterns[0].keyword, cause.status,
                         "with all that holds beside it %s", cause.message);
    return lh_schema_document_is_good(document);
}

/* With a grammar of their own, so that the document's grammar fails with the pattern's place. */
static bool build_dfa(const lh_schema_document *document, const conditions *all, lh_dfa *dfa) {
    lh_grammar *scratch;
    lh_error cause;
    if (lh_grammar_create(&scratch, &cause)) {
        lh_grammar_fail(document->grammar, cause.status, "%s", cause.message);
        return false;
    }
    bool done = build_product(document, all, scratch, dfa);
    lh_grammar_destroy(scratch);
    return done;
}

/* A pattern of which nothing is wrong. */
static bool is_pattern(const lh_schema_document *document, const pattern *of) {
    lh_grammar *scratch;
    lh_error cause;
    if (lh_grammar_create(&scratch, &cause)) {
        lh_grammar_fail(document->grammar, cause.status, "%s", cause.message);
        return false;
    }
    read_pattern(document, of, scratch, true);
    lh_grammar_destroy(scratch);
    return lh_schema_document_is_good(document);
}

/* ---- Lengths of one pattern. ---- */

/* Up to so many characters are counted exactly, in states of the automaton. */
#define COUNTED_MAX 64u
/* No repetition in a format's pattern goes on longer. */
#define REPEATS_MAX 1000u

/* Of texts of the pattern; nothing is known of one that cannot be read. */
static lh_grammar_length length_of(const lh_schema_document *document, const pattern *of) {
    lh_grammar_length length = {0, UINT64_MAX};
    lh_grammar *scratch = NULL;
    lh_error cause;
    const lh_regex_options options = {of->is_search, false, of->repeats_max};
    lh_status status = lh_grammar_create(&scratch, &cause);
    if (!status) {
        lh_grammar_node node = lh_regex_add(scratch, of->text, of->length, options);
        status = lh_grammar_check(scratch, &cause);
        length = lh_grammar_length_of(scratch, node);
    }
    if (status == LH_ERR_NO_MEMORY)
        lh_grammar_fail(document->grammar, status, "%s", cause.message);
    *document->work += of->length;
    lh_grammar_destroy(scratch);
    return length;
}

/* The longest repetitions with which no text of the pattern is too long; 0: there are none. */
static uint32_t find_repeats(const lh_schema_document *document, pattern of, uint32_t most) {
    uint32_t low = 0, high = REPEATS_MAX + 1;
    while (high - low > 1) {
        of.repeats_max = low + (high - low) / 2;
        if (length_of(document, &of).most <= most)
            low = of.repeats_max;
        else
            high = of.repeats_max;
    }
    return low;
}

/* Lengths that the one pattern keeps to by itself need not be counted. Where a format's texts may
 * be too long for a large bound, their repetitions are made shorter: an automaton that counted
 * thousands of characters in each of its states would have millions of them. */
static void fit_lengths(const lh_schema_document *document, conditions *all) {
    pattern *of = &all->patterns[0];
    lh_grammar_length length = length_of(document, of);
    bool is_long = length.least >= all->least;
    if (is_long && length.most > all->most && !of->is_search && all->most > COUNTED_MAX) {
        of->repeats_max = find_repeats(document, *of, all->most);
        length = of->repeats_max ? length_of(document, of) : length;
    }
    if (is_long && length.most <= all->most) {
        all->least = 0;
        all->most = LH_GRAMMAR_UNBOUNDED;
    }
}

/* ---- Strings. ---- */

static lh_grammar_node quote(lh_grammar *grammar, lh_grammar_node inside) {
    const lh_grammar_node nodes[] = {lh_grammar_text(grammar, "\""), inside,
                                     lh_grammar_text(grammar, "\"")};
    return lh_grammar_sequence(grammar, nodes, 3);
}

static lh_grammar_node add_product(const lh_schema_document *document, const conditions *all) {
    lh_dfa dfa = {0};
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    if (build_dfa(document, all, &dfa))
        node = quote(document->grammar, lh_dfa_rules_add(document->grammar, &dfa, 1, true));
    lh_dfa_reset(&dfa);
    return node;
}

lh_grammar_node lh_schema_string_add(const lh_schema_document *document, const lh_json_rules *rules,
                                     const lh_schema_list *all) {
    lh_grammar *grammar = document->grammar;
    conditions of = {.most = LH_GRAMMAR_UNBOUNDED};
    for (size_t i = 0; i < all->count; i++)
        collect(document, all->schemas[i], &of);
    if (!lh_schema_document_is_good(document))
        return LH_GRAMMAR_FAILED;
    if (of.least > of.most)
        return lh_grammar_choice(grammar, NULL, 0);
    if (of.count == 1)
        fit_lengths(document, &of);
    bool has_lengths = of.least > 0 || of.most < LH_GRAMMAR_UNBOUNDED;
    if (of.count == 0 && !has_lengths)
        return lh_grammar_call(grammar, rules->string);
    if (of.count == 0)
        return quote(grammar, lh_grammar_repeat(grammar, lh_grammar_call(grammar, rules->character),
                                                of.least, of.most));
    if (of.count > 1 || has_lengths)
        return add_product(document, &of);
    return is_pattern(document, &of.patterns[0])
               ? quote(grammar, read_pattern(document, &of.patterns[0], grammar, true))
               : LH_GRAMMAR_FAILED;
}

bool lh_schema_string_fits(const lh_schema_document *document, const json_t *schema,
                           const json_t *text) {
    const char *bytes = json_string_value(text);
    size_t length = json_string_length(text), characters = lh_utf8_count(bytes, length);
    conditions of = {.most = LH_GRAMMAR_UNBOUNDED};
    lh_dfa dfa = {0};
    collect(document, schema, &of);
    if (!lh_schema_document_is_good(document) || characters < of.least || characters > of.most)
        return false;
    if (of.count == 0)
        return true;
    of.least = 0;
    of.most = LH_GRAMMAR_UNBOUNDED;
    bool fits = build_dfa(document, &of, &dfa) && lh_dfa_label_of(&dfa, bytes, length);
    lh_dfa_reset(&dfa);
    return fits;
}
