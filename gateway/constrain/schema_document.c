/* Keywords are a table; places are found by looking for the schema's object in the document, which
 * happens once: for the error. */
#include "gateway/constrain/schema_document.h"

#include "gateway/constrain/dfa.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 200
#define COUNT_MAX  (LH_GRAMMAR_UNBOUNDED - 1)

/* ---- Keywords. ---- */

typedef enum keyword_use {
    HONOURED,
    REFUSED,
    REFUSED_SHAPE, /* but for true and false */
} keyword_use;

static const struct {
    const char *name;
    keyword_use use;
} keywords[] = {
    {"type", HONOURED},
    {"nullable", HONOURED},
    {"enum", HONOURED},
    {"const", HONOURED},
    {"$ref", HONOURED},
    {"allOf", HONOURED},
    {"anyOf", HONOURED},
    {"oneOf", HONOURED},
    {"properties", HONOURED},
    {"required", HONOURED},
    {"additionalProperties", HONOURED},
    {"patternProperties", HONOURED},
    {"minProperties", HONOURED},
    {"maxProperties", HONOURED},
    {"items", HONOURED},
    {"prefixItems", HONOURED},
    {"minItems", HONOURED},
    {"maxItems", HONOURED},
    {"minLength", HONOURED},
    {"maxLength", HONOURED},
    {"pattern", HONOURED},
    {"format", HONOURED},
    {"minimum", HONOURED},
    {"maximum", HONOURED},
    {"exclusiveMinimum", HONOURED},
    {"exclusiveMaximum", HONOURED},
    {"multipleOf", HONOURED},
    /* What is not mentioned is never written, so that nothing is left unevaluated. */
    {"unevaluatedProperties", REFUSED_SHAPE},
    {"unevaluatedItems", REFUSED_SHAPE},
    {"not", HONOURED},
    {"if", REFUSED},
    {"contains", HONOURED},
    {"minContains", HONOURED},
    {"maxContains", REFUSED},
    {"propertyNames", HONOURED},
    {"dependentRequired", REFUSED},
    {"dependentSchemas", REFUSED},
    {"dependencies", REFUSED},
    {"$dynamicRef", REFUSED},
    {"$recursiveRef", REFUSED},
};

#define KEYWORDS (sizeof keywords / sizeof *keywords)

static size_t find_keyword(const char *name) {
    size_t i = 0;
    while (i < KEYWORDS && strcmp(keywords[i].name, name) != 0)
        i++;
    return i;
}

static bool is_refused(keyword_use use, const json_t *value) {
    return use == REFUSED || (use == REFUSED_SHAPE && !json_is_boolean(value));
}

/* values[i]: what the schema says for keyword i, or NULL. Of a schema with thousands of members,
 * which are annotations then, not all are looked at. */
static void find_values(const json_t *schema, const json_t *values[KEYWORDS]) {
    const char *name;
    json_t *value;
    bool is_large = json_object_size(schema) > KEYWORDS;
    for (size_t i = 0; i < KEYWORDS; i++)
        values[i] = is_large ? json_object_get(schema, keywords[i].name) : NULL;
    if (is_large)
        return;
    json_object_foreach((json_t *)schema, name, value) {
        size_t i = find_keyword(name);
        if (i < KEYWORDS)
            values[i] = value;
    }
}

size_t lh_schema_keywords(const json_t *schema) {
    const json_t *values[KEYWORDS];
    size_t count = 0;
    find_values(schema, values);
    for (size_t i = 0; i < KEYWORDS; i++)
        count +=
            values[i] && (keywords[i].use == HONOURED || is_refused(keywords[i].use, values[i]));
    return count;
}

bool lh_schema_is_trivial(const json_t *schema) {
    return json_is_true(schema) || (json_is_object(schema) && lh_schema_keywords(schema) == 0);
}

bool lh_schema_check_keywords(const lh_schema_document *document, const json_t *schema) {
    const json_t *values[KEYWORDS];
    if (!json_is_object(schema) && !json_is_boolean(schema))
        lh_schema_refuse(document, schema, NULL, LH_ERR_INVALID,
                         "a schema must be an object, true or false");
    find_values(schema, values);
    for (size_t i = 0; i < KEYWORDS; i++)
        if (values[i] && is_refused(keywords[i].use, values[i]))
            lh_schema_refuse(document, schema, keywords[i].name, LH_ERR_UNSUPPORTED,
                             "is not supported");
    return lh_schema_document_is_good(document);
}

/* ---- The document. ---- */

typedef struct extent {
    size_t values, bytes, depth;
} extent;

static void measure(const json_t *value, size_t depth, extent *of) {
    const char *name;
    json_t *member;
    of->values++;
    of->bytes += json_string_length(value);
    of->depth = depth > of->depth ? depth : of->depth;
    if (of->depth > LH_SCHEMA_DEPTH_MAX)
        return;
    for (size_t i = 0; i < json_array_size(value); i++)
        measure(json_array_get(value, i), depth + 1, of);
    json_object_foreach((json_t *)value, name, member) {
        of->bytes += strlen(name);
        measure(member, depth + 1, of);
    }
}

lh_status lh_schema_document_open(lh_schema_document *document, const json_t *root,
                                  lh_grammar *grammar) {
    extent of = {0};
    *document = (lh_schema_document){root, grammar, lh_grammar_work(grammar)};
    measure(root, 1, &of);
    if (of.depth > LH_SCHEMA_DEPTH_MAX)
        lh_grammar_fail(grammar, LH_ERR_LIMIT, "the schema is nested more than %d deep",
                        LH_SCHEMA_DEPTH_MAX);
    else if (of.values > LH_SCHEMA_VALUES_MAX)
        lh_grammar_fail(grammar, LH_ERR_LIMIT, "the schema has more than %u values",
                        LH_SCHEMA_VALUES_MAX);
    else if (of.bytes > LH_SCHEMA_BYTES_MAX)
        lh_grammar_fail(grammar, LH_ERR_LIMIT, "the schema has more than %u bytes of text",
                        LH_SCHEMA_BYTES_MAX);
    return lh_grammar_check(grammar, NULL);
}

bool lh_schema_document_is_good(const lh_schema_document *document) {
    return lh_grammar_check(document->grammar, NULL) == LH_OK;
}

bool lh_schema_count_work(const lh_schema_document *document, const json_t *schema, size_t more) {
    lh_error cause;
    if (lh_dfa_count_work(document->work, more, &cause))
        lh_schema_refuse(document, schema, NULL, cause.status, "%s", cause.message);
    return lh_schema_document_is_good(document);
}

/* ---- Places. ---- */

typedef struct path {
    char text[PATH_BYTES];
    size_t length;
} path;

/* Cut where it is too long. */
static void add_step(path *at, const char *name) {
    at->length += at->length + 1 < sizeof at->text;
    at->text[at->length - 1] = '/';
    for (; *name && at->length + 2 < sizeof at->text; name++) {
        const char *escape = *name == '~' ? "~0" : *name == '/' ? "~1" : NULL;
        if (escape)
            at->text[at->length++] = escape[0];
        at->text[at->length++] = escape ? escape[1] : *name;
    }
    at->text[at->length] = '\0';
}

/* Whether `wanted` is `value` or within; *at goes on to it then. */
static bool find_place(const json_t *value, const json_t *wanted, path *at) {
    const char *name;
    json_t *member;
    size_t length = at->length;
    char number[24];
    if (value == wanted)
        return true;
    for (size_t i = 0; i < json_array_size(value); i++) {
        snprintf(number, sizeof number, "%zu", i);
        add_step(at, number);
        if (find_place(json_array_get(value, i), wanted, at))
            return true;
        at->length = length;
    }
    json_object_foreach((json_t *)value, name, member) {
        add_step(at, name);
        if (find_place(member, wanted, at))
            return true;
        at->length = length;
    }
    at->text[at->length] = '\0';
    return false;
}

lh_grammar_node lh_schema_refuse(const lh_schema_document *document, const json_t *schema,
                                 const char *keyword, lh_status status, const char *format, ...) {
    path at = {.text = "#", .length = 1};
    char text[160];
    va_list arguments;
    if (!lh_schema_document_is_good(document))
        return LH_GRAMMAR_FAILED;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    find_place(document->root, schema, &at);
    if (keyword)
        return lh_grammar_fail(document->grammar, status, "%s: '%.40s' %s", at.text, keyword, text);
    return lh_grammar_fail(document->grammar, status, "%s: %s", at.text, text);
}

/* ---- References. ---- */

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* One step of a JSON pointer (RFC 6901) in a URI's fragment; false: it is too long, or not well
 * formed. */
static bool read_step(const char **pointer, char *name, size_t capacity) {
    size_t length = 0;
    const char *at = *pointer;
    for (; *at && *at != '/'; at++) {
        char byte = *at;
        if (byte == '%' && hex_value(at[1]) >= 0 && hex_value(at[2]) >= 0) {
            byte = (char)(16 * hex_value(at[1]) + hex_value(at[2]));
            at += 2;
        }
        if (byte == '~' && at[1] != '0' && at[1] != '1')
            return false;
        if (byte == '~')
            byte = *++at == '0' ? '~' : '/';
        if (byte == '\0' || length + 1 == capacity)
            return false;
        name[length++] = byte;
    }
    name[length] = '\0';
    *pointer = at;
    return true;
}

static const json_t *step_into(const json_t *value, const char *name) {
    if (!json_is_array(value))
        return json_object_get(value, name);
    bool is_index = *name && strlen(name) < 8 && strspn(name, "0123456789") == strlen(name);
    return is_index ? json_array_get(value, (size_t)atol(name)) : NULL;
}

const json_t *lh_schema_resolve(const lh_schema_document *document, const json_t *schema) {
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    const json_t *at = document->root;
    char name[512];
    if (!reference)
        lh_schema_refuse(document, schema, "$ref", LH_ERR_INVALID, "must be a string");
    else if (reference[0] != '#' || (reference[1] && reference[1] != '/'))
        lh_schema_refuse(document, schema, "$ref", LH_ERR_UNSUPPORTED,
                         "is followed to places of this document only: \"#/...\", not \"%.60s\"",
                         reference);
    if (!lh_schema_document_is_good(document) ||
        !lh_schema_count_work(document, schema, 100 + strlen(reference)))
        return NULL;
    for (const char *pointer = reference + 1; *pointer && at;) {
        pointer++; /* the slash */
        at = read_step(&pointer, name, sizeof name) ? step_into(at, name) : NULL;
    }
    if (!at)
        lh_schema_refuse(document, schema, "$ref", LH_ERR_INVALID,
                         "names a place that is not there: \"%.80s\"", reference);
    return at;
}

/* ---- Values of keywords. ---- */

const json_t *lh_schema_get_list(const lh_schema_document *document, const json_t *schema,
                                 const char *keyword) {
    const json_t *value = json_object_get(schema, keyword);
    if (!value || json_is_array(value))
        return value;
    lh_schema_refuse(document, schema, keyword, LH_ERR_INVALID, "must be a list");
    return NULL;
}

const json_t *lh_schema_get_map(const lh_schema_document *document, const json_t *schema,
                                const char *keyword) {
    const json_t *value = json_object_get(schema, keyword);
    if (!value || json_is_object(value))
        return value;
    lh_schema_refuse(document, schema, keyword, LH_ERR_INVALID, "must be an object");
    return NULL;
}

const json_t *lh_schema_get_number(const lh_schema_document *document, const json_t *schema,
                                   const char *keyword) {
    const json_t *value = json_object_get(schema, keyword);
    if (!value || json_is_number(value))
        return value;
    lh_schema_refuse(document, schema, keyword, LH_ERR_INVALID, "must be a number");
    return NULL;
}

const json_t *lh_schema_get_text(const lh_schema_document *document, const json_t *schema,
                                 const char *keyword) {
    const json_t *value = json_object_get(schema, keyword);
    if (!value || json_is_string(value))
        return value;
    lh_schema_refuse(document, schema, keyword, LH_ERR_INVALID, "must be a string");
    return NULL;
}

uint32_t lh_schema_get_count(const lh_schema_document *document, const json_t *schema,
                             const char *keyword, uint32_t otherwise) {
    const json_t *value = json_object_get(schema, keyword);
    double number = json_number_value(value);
    if (!value)
        return otherwise;
    if (!json_is_number(value) || number < 0 || number != floor(number))
        lh_schema_refuse(document, schema, keyword, LH_ERR_INVALID,
                         "must be an integer that is not negative");
    /* More than anybody writes is as good as any. */
    return number < COUNT_MAX ? (uint32_t)number : COUNT_MAX;
}

static unsigned type_of(const json_t *name) {
    static const struct {
        const char *name;
        unsigned types;
    } types[] = {{"null", LH_SCHEMA_NULL},       {"boolean", LH_SCHEMA_BOOLEAN},
                 {"integer", LH_SCHEMA_INTEGER}, {"number", LH_SCHEMA_NUMBER},
                 {"string", LH_SCHEMA_STRING},   {"array", LH_SCHEMA_ARRAY},
                 {"object", LH_SCHEMA_OBJECT}};
    for (size_t i = 0; json_is_string(name) && i < sizeof types / sizeof *types; i++)
        if (strcmp(json_string_value(name), types[i].name) == 0)
            return types[i].types;
    return 0;
}

static unsigned named_types(const lh_schema_document *document, const json_t *schema) {
    const json_t *type = json_object_get(schema, "type");
    unsigned types = json_is_true(json_object_get(schema, "nullable")) ? LH_SCHEMA_NULL : 0;
    if (!type)
        return LH_SCHEMA_ANY;
    size_t count = json_is_array(type) ? json_array_size(type) : 1;
    for (size_t i = 0; i < count; i++) {
        unsigned one = type_of(json_is_array(type) ? json_array_get(type, i) : type);
        types |= one;
        if (!one)
            lh_schema_refuse(document, schema, "type", LH_ERR_INVALID,
                             "must be one of null, boolean, integer, number, string, array, "
                             "object, or a list of them");
    }
    if (count == 0)
        lh_schema_refuse(document, schema, "type", LH_ERR_INVALID, "must not be an empty list");
    return types;
}

/* What "not" takes away: it names types alone. Integers cannot be told from other numbers so. */
static unsigned excluded_types(const lh_schema_document *document, const json_t *schema) {
    const json_t *other = json_object_get(schema, "not");
    if (!other || json_is_false(other))
        return 0;
    if (lh_schema_is_trivial(other))
        return LH_SCHEMA_ANY;
    unsigned types = json_object_get(other, "type") ? named_types(document, other) : 0;
    bool is_half = (types & LH_SCHEMA_NUMBER) == LH_SCHEMA_INTEGER;
    if (types == 0 || is_half || lh_schema_keywords(other) > 1)
        lh_schema_refuse(document, schema, "not", LH_ERR_UNSUPPORTED,
                         "is not supported but for a schema of types alone, \"integer\" not "
                         "without \"number\"");
    return types;
}

unsigned lh_schema_get_types(const lh_schema_document *document, const json_t *schema) {
    return named_types(document, schema) & ~excluded_types(document, schema);
}
