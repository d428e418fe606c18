/* A table of fields, and response_format, which has forms of its own. */
#include "gateway/openai/output_format.h"

#include "common/json/json_object.h"
#include "gateway/constrain/schema_draft.h"

#include <stdio.h>
#include <string.h>

#define NAME_CHARACTERS_MAX 64

/* ---- Fields that are a value. ---- */

typedef struct form {
    const char *key;
    lh_constraint_kind kind;
    bool may_be_empty; /* then it is as if it were not there */
} form;

static const form fields[] = {
    {"guided_json", LH_CONSTRAINT_SCHEMA, false},   {"guided_regex", LH_CONSTRAINT_REGEX, false},
    {"guided_choice", LH_CONSTRAINT_CHOICE, false}, {"guided_grammar", LH_CONSTRAINT_GBNF, false},
    {"grammar", LH_CONSTRAINT_GBNF, true},          {"json_schema", LH_CONSTRAINT_SCHEMA, true},
    {"structural_tag", LH_CONSTRAINT_TAGS, false},
};

/* Of structured_outputs. */
static const form members[] = {
    {"json", LH_CONSTRAINT_SCHEMA, false},         {"regex", LH_CONSTRAINT_REGEX, false},
    {"choice", LH_CONSTRAINT_CHOICE, false},       {"grammar", LH_CONSTRAINT_GBNF, false},
    {"structural_tag", LH_CONSTRAINT_TAGS, false},
};

/* A schema, or tags, may be the text of one. */
static const json_t *value_of(const lh_body_reader *body, const form *of, const json_t *value,
                              lh_openai_output_format *format) {
    lh_error cause;
    bool may_be_text = of->kind == LH_CONSTRAINT_SCHEMA || of->kind == LH_CONSTRAINT_TAGS;
    if (!may_be_text || !json_is_string(value))
        return value;
    format->own = lh_json_object_parse(json_string_value(value), json_string_length(value), &cause);
    if (!format->own && cause.status == LH_ERR_LIMIT)
        lh_body_refuse(body, of->key, "invalid_value",
                       "is a text of JSON that is too large, or nested more than %d deep.",
                       LH_JSON_DEPTH_MAX);
    else if (!format->own)
        lh_body_refuse(body, of->key, "invalid_value", "is a text that is no JSON object.");
    return format->own;
}

/* ---- Tags as xgrammar has them now. ---- */

/* Of one of the tags; NULL: it says more than is followed. */
static json_t *structure_of(const json_t *tag) {
    const json_t *content = json_object_get(tag, "content");
    const char *type = json_string_value(json_object_get(content, "type"));
    json_t *begin = json_object_get(tag, "begin"), *end = json_object_get(tag, "end"),
           *schema = json_object_get(content, "json_schema");
    bool is_followed = type && strcmp(type, "json_schema") == 0 && schema && begin && end;
    return is_followed ? json_pack("{s:O,s:O,s:O}", "begin", begin, "schema", schema, "end", end)
                       : NULL;
}

/* {"structures", "triggers"} of a format of the type "triggered_tags"; NULL: refused. */
static json_t *structures_of(const lh_body_reader *body, const char *key, const json_t *format) {
    const char *type = json_string_value(json_object_get(format, "type"));
    const json_t *tags = json_object_get(format, "tags");
    json_t *triggers = json_object_get(format, "triggers"), *structures = json_array();
    bool is_followed = type && strcmp(type, "triggered_tags") == 0 && triggers &&
                       !json_is_true(json_object_get(format, "at_least_one")) &&
                       !json_is_true(json_object_get(format, "stop_after_first"));
    for (size_t i = 0; i < json_array_size(tags) && is_followed; i++)
        is_followed = json_array_append_new(structures, structure_of(json_array_get(tags, i))) == 0;
    if (is_followed)
        return json_pack("{s:o,s:O}", "structures", structures, "triggers", triggers);
    json_decref(structures);
    lh_body_refuse(body, key, "unsupported_value",
                   "is not followed as it is: of xgrammar's 'format' the type 'triggered_tags' is, "
                   "with 'triggers' and 'tags', each of them 'begin', 'content' of the type "
                   "'json_schema' and 'end', without 'at_least_one' and 'stop_after_first'.");
    return NULL;
}

/* Gives up a value of its own for that. */
static const json_t *with_structures(const lh_body_reader *body, const char *key,
                                     const json_t *value, lh_openai_output_format *format) {
    const json_t *tags = json_object_get(value, "format");
    if (!tags)
        return value;
    json_t *made = structures_of(body, key, tags);
    json_decref(format->own);
    format->own = made;
    return made;
}

/* ---- All values. ---- */

static bool has_right_type(lh_constraint_kind kind, const json_t *value) {
    switch (kind) {
    case LH_CONSTRAINT_SCHEMA:
        return json_is_object(value) || json_is_boolean(value);
    case LH_CONSTRAINT_CHOICE:
        return json_is_array(value);
    case LH_CONSTRAINT_REGEX:
    case LH_CONSTRAINT_GBNF:
        return json_is_string(value);
    default:
        return json_is_object(value);
    }
}

static void set(const lh_body_reader *body, const form *of, const json_t *value, const char *param,
                lh_openai_output_format *format) {
    if (format->is_given) {
        lh_body_refuse(body, of->key, "invalid_value",
                       "and '%s' exclude each other: an answer has one form.", format->param);
        return;
    }
    *format = (lh_openai_output_format){.is_given = true, .param = param};
    value = value_of(body, of, value, format);
    if (of->kind == LH_CONSTRAINT_TAGS)
        value = with_structures(body, of->key, value, format);
    format->source = (lh_constraint_source){.kind = of->kind, .value = value};
    if (!body->error->status && !has_right_type(of->kind, format->source.value))
        lh_body_refuse(body, of->key, "invalid_type", "must be %s.",
                       of->kind == LH_CONSTRAINT_CHOICE  ? "a list of strings"
                       : of->kind == LH_CONSTRAINT_REGEX ? "a string"
                       : of->kind == LH_CONSTRAINT_GBNF  ? "a string"
                                                         : "an object");
}

static void set_object(const lh_body_reader *body, const char *key, const char *param,
                       lh_openai_output_format *format) {
    if (format->is_given)
        lh_body_refuse(body, key, "invalid_value",
                       "and '%s' exclude each other: an answer has one form.", format->param);
    else
        *format = (lh_openai_output_format){
            .is_given = true, .param = param, .source = {.kind = LH_CONSTRAINT_OBJECT}};
}

/* An empty text of llama.cpp's fields is none; of the others it is most likely a mistake, as all
 * that it could ask for is an answer without a text. */
static bool is_given(const lh_body_reader *body, const form *of, const json_t *value) {
    bool is_empty = json_is_string(value) && json_string_length(value) == 0;
    if (is_empty && !of->may_be_empty)
        lh_body_refuse(body, of->key, "invalid_value",
                       "is empty: leave it out where the answer may be any text.");
    return value && !is_empty;
}

static void parse_structured_outputs(const lh_body_reader *body, lh_openai_output_format *format) {
    static const char param[] = "structured_outputs";
    const lh_body_reader outputs = lh_body_inside(body, param, "structured_outputs.");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *value = lh_body_field(&outputs, members[i].key);
        if (is_given(&outputs, &members[i], value))
            set(&outputs, &members[i], value, param, format);
    }
    if (lh_body_bool(&outputs, "json_object"))
        set_object(&outputs, "json_object", param, format);
}

/* ---- response_format. ---- */

static const char param[] = "response_format";

static bool is_name(const char *name) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t length = strlen(name);
    return length > 0 && length <= NAME_CHARACTERS_MAX && strspn(name, allowed) == length;
}

void lh_openai_output_format_check_strict(const lh_body_reader *of, const char *key) {
    if (lh_body_bool(of, "strict") && lh_schema_draft_is_loose(lh_body_field(of, key)))
        lh_body_refuse(
            of, key, "unsupported_value",
            "has 'uniqueItems', or a pattern that looks around: no answer can be held to "
            "that, as 'strict' asks.");
}

/* {"name", "description", "schema", "strict"}: no answer breaks its schema here, but for what a
 * grammar cannot say. */
static void parse_named_schema(const lh_body_reader *schema, const char *name_of_param,
                               lh_openai_output_format *format) {
    static const form schema_form = {"schema", LH_CONSTRAINT_SCHEMA, false};
    const char *name = lh_body_text(schema, "name", SIZE_MAX);
    const json_t *value = lh_body_field(schema, "schema");
    if (!name)
        lh_body_refuse(schema, "name", "missing_required_parameter", "is missing.");
    else if (!is_name(name))
        lh_body_refuse(schema, "name", "invalid_value", "must have 1 to %d of [a-zA-Z0-9_-].",
                       NAME_CHARACTERS_MAX);
    lh_body_text(schema, "description", SIZE_MAX);
    lh_openai_output_format_check_strict(schema, "schema");
    if (value)
        set(schema, &schema_form, value, name_of_param, format);
    else
        set_object(schema, "schema", name_of_param, format);
    format->name = name;
}

static void parse_json_schema(const lh_body_reader *body, lh_openai_output_format *format) {
    const lh_body_reader schema = {lh_body_object(body, "json_schema"),
                                   "response_format.json_schema.", body->error, NULL,
                                   body->left_out};
    if (!schema.object)
        lh_body_refuse(body, "json_schema", "missing_required_parameter", "is missing.");
    parse_named_schema(&schema, param, format);
}

static void parse_response_format(const lh_body_reader *body, lh_openai_output_format *format) {
    static const form schema_form = {"schema", LH_CONSTRAINT_SCHEMA, false},
                      tags_form = {"format", LH_CONSTRAINT_TAGS, false};
    const json_t *value = lh_body_typed(body, param, "object", "an object with a 'type'");
    const char *type = json_string_value(json_object_get(value, "type"));
    const lh_body_reader given = {value, "response_format.", body->error, NULL, body->left_out};
    if (value && !type)
        lh_body_refuse(body, param, "invalid_type", "must be an object with a 'type'.");
    if (!type || strcmp(type, "text") == 0)
        return;
    const json_t *schema = lh_body_field(&given, "schema"); /* llama.cpp's place for it */
    if (strcmp(type, "json_object") == 0 && !schema)
        set_object(&given, "type", param, format);
    else if (schema && (strcmp(type, "json_object") == 0 || strcmp(type, "json_schema") == 0))
        set(&given, &schema_form, schema, param, format);
    else if (strcmp(type, "json_schema") == 0)
        parse_json_schema(&given, format);
    else if (strcmp(type, "structural_tag") == 0)
        set(&given, &tags_form, value, param, format);
    else
        lh_body_refuse(body, param, "invalid_value", "is of an unknown type \"%.40s\".", type);
}

/* ---- All of them. ---- */

void lh_openai_output_format_check_companions(const lh_body_reader *body, const char *of) {
    if (lh_body_bool(body, "ignore_eos"))
        lh_body_refuse(body, "ignore_eos", "unsupported_value",
                       "is not supported together with '%s': the answer ends where its form does.",
                       of);
    if (lh_body_integer(body, "min_tokens", 0, INT64_MAX, 0) > 0)
        lh_body_refuse(body, "min_tokens", "unsupported_value",
                       "is not supported together with '%s': the answer ends where its form does.",
                       of);
}

void lh_openai_output_format_parse_flat(const lh_body_reader *parent, const char *name_of_param,
                                        lh_openai_output_format *format) {
    char path[64];
    const json_t *value = lh_body_object(parent, "format");
    snprintf(path, sizeof path, "%s.", name_of_param);
    const lh_body_reader given = {value, path, parent->error, NULL, parent->left_out};
    *format = (lh_openai_output_format){0};
    const char *type = lh_body_choice(&given, "type", "text|json_object|json_schema");
    if (value && !type)
        lh_body_refuse(&given, "type", "missing_required_parameter", "is missing.");
    if (!type || strcmp(type, "text") == 0)
        return;
    if (strcmp(type, "json_object") == 0)
        set_object(&given, "type", name_of_param, format);
    else
        parse_named_schema(&given, name_of_param, format);
}

void lh_openai_output_format_parse_schema(const lh_body_reader *parent, const char *name_of_param,
                                          lh_openai_output_format *format) {
    static const form schema_form = {"schema", LH_CONSTRAINT_SCHEMA, false};
    char path[64];
    const json_t *value = lh_body_object(parent, "format");
    snprintf(path, sizeof path, "%s.", name_of_param);
    const lh_body_reader given = {value, path, parent->error, NULL, parent->left_out};
    *format = (lh_openai_output_format){0};
    if (value && !lh_body_choice(&given, "type", "json_schema"))
        lh_body_refuse(&given, "type", "missing_required_parameter", "is missing.");
    if (value && !lh_body_field(&given, "schema"))
        lh_body_refuse(&given, "schema", "missing_required_parameter", "is missing.");
    if (!parent->error->status && value)
        set(&given, &schema_form, lh_body_field(&given, "schema"), name_of_param, format);
}

void lh_openai_output_format_parse_bare(const lh_body_reader *body,
                                        lh_openai_output_format *format) {
    static const char key[] = "format", words[] = "\"json\" or a JSON Schema";
    static const form schema_form = {key, LH_CONSTRAINT_SCHEMA, false};
    const json_t *value = lh_body_typed(body, key, "string|object", words);
    const char *word = json_string_value(value);
    *format = (lh_openai_output_format){0};
    if (word && strcmp(word, "json") == 0)
        set_object(body, key, key, format);
    else if (word && *word)
        lh_body_refuse(body, key, "invalid_value", "must be %s.", words);
    else if (json_is_object(value))
        set(body, &schema_form, value, key, format);
}

void lh_openai_output_format_parse(const lh_body_reader *body, lh_openai_output_format *format) {
    *format = (lh_openai_output_format){0};
    parse_response_format(body, format);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *value = lh_body_field(body, fields[i].key);
        if (is_given(body, &fields[i], value))
            set(body, &fields[i], value, fields[i].key, format);
    }
    parse_structured_outputs(body, format);
}

void lh_openai_output_format_reset(lh_openai_output_format *format) {
    json_decref(format->own);
    *format = (lh_openai_output_format){0};
}

bool lh_openai_output_format_refuse(const lh_openai_output_format *format, const lh_error *cause,
                                    lh_openai_error *error) {
    if (cause->status != LH_ERR_INVALID && cause->status != LH_ERR_UNSUPPORTED &&
        cause->status != LH_ERR_LIMIT)
        return lh_openai_refuse_cause(error, cause);
    /* OpenAI's own words, with no code. */
    if (format->name)
        return lh_openai_refuse(error, 400, format->param, NULL,
                                "Invalid schema for %s '%.64s': %s.", format->param, format->name,
                                cause->message);
    return lh_openai_refuse(error, 400, format->param, "invalid_value", "'%s': %s.", format->param,
                            cause->message);
}
