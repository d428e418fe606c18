/* What form an answer must have, in the words of OpenAI, vLLM and llama.cpp. */
#include "gateway/openai/output_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ' stands for ". */
static json_t *parse(const char *text) {
    char bytes[1024];
    size_t length = strlen(text);
    assert_true(length < sizeof bytes);
    for (size_t i = 0; i <= length; i++)
        bytes[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    json_t *body = json_loads(bytes, 0, NULL);
    if (!body)
        fail_msg("not JSON: %s", text);
    return body;
}

#define TEXT  (-1) /* no form */
#define ERROR (-2)

static const struct {
    const char *body;
    int kind;          /* lh_constraint_kind, TEXT or ERROR */
    const char *value; /* of the source; of an error its param */
    const char *code;
} cases[] = {
    {"{}", TEXT, NULL, NULL},
    {"{'response_format':null,'guided_json':null,'grammar':'','json_schema':null}", TEXT, NULL,
     NULL},
    {"{'response_format':{'type':'text'}}", TEXT, NULL, NULL},
    {"{'response_format':{'type':'json_object'}}", LH_CONSTRAINT_OBJECT, NULL, NULL},
    {"{'response_format':{'type':'json_object','schema':{'a':1}}}", LH_CONSTRAINT_SCHEMA, "{'a':1}",
     NULL},
    {"{'response_format':{'type':'json_schema','json_schema':{'name':'n','schema':{'type':'null'},"
     "'strict':true,'description':'d'}}}",
     LH_CONSTRAINT_SCHEMA, "{'type':'null'}", NULL},
    {"{'response_format':{'type':'json_schema','json_schema':{'name':'n','strict':null}}}",
     LH_CONSTRAINT_OBJECT, NULL, NULL},
    {"{'response_format':{'type':'json_schema','schema':{'a':1}}}", LH_CONSTRAINT_SCHEMA, "{'a':1}",
     NULL},
    {"{'response_format':{'type':'structural_tag','structures':[],'triggers':[]}}",
     LH_CONSTRAINT_TAGS, "{'type':'structural_tag','structures':[],'triggers':[]}", NULL},
    {"{'structural_tag':{'format':{'type':'triggered_tags','triggers':['<'],'tags':[{'begin':'<a>',"
     "'content':{'type':'json_schema','json_schema':{'d':4}},'end':'</a>'}]}}}",
     LH_CONSTRAINT_TAGS,
     "{'structures':[{'begin':'<a>','schema':{'d':4},'end':'</a>'}],'triggers':['<']}", NULL},
    {"{'structured_outputs':{'structural_tag':'{\\'format\\':{\\'type\\':\\'triggered_tags\\',"
     "\\'triggers\\':[],\\'tags\\':[]}}'}}",
     LH_CONSTRAINT_TAGS, "{'structures':[],'triggers':[]}", NULL},
    {"{'guided_json':{'b':2}}", LH_CONSTRAINT_SCHEMA, "{'b':2}", NULL},
    {"{'guided_json':'{\\'b\\':2}'}", LH_CONSTRAINT_SCHEMA, "{'b':2}", NULL},
    {"{'guided_regex':'a+'}", LH_CONSTRAINT_REGEX, "'a+'", NULL},
    {"{'guided_choice':['a','b']}", LH_CONSTRAINT_CHOICE, "['a','b']", NULL},
    {"{'guided_grammar':'g'}", LH_CONSTRAINT_GBNF, "'g'", NULL},
    {"{'grammar':'g'}", LH_CONSTRAINT_GBNF, "'g'", NULL},
    {"{'json_schema':{'c':3}}", LH_CONSTRAINT_SCHEMA, "{'c':3}", NULL},
    {"{'structured_outputs':{'regex':'x'}}", LH_CONSTRAINT_REGEX, "'x'", NULL},
    {"{'structured_outputs':{'json_object':true}}", LH_CONSTRAINT_OBJECT, NULL, NULL},
    {"{'structured_outputs':{'json_object':false,'choice':['z']}}", LH_CONSTRAINT_CHOICE, "['z']",
     NULL},

    {"{'response_format':'text'}", ERROR, "response_format", "invalid_type"},
    {"{'response_format':{}}", ERROR, "response_format", "invalid_type"},
    {"{'response_format':{'type':'xml'}}", ERROR, "response_format", "invalid_value"},
    {"{'response_format':{'type':'json_schema'}}", ERROR, "response_format.json_schema",
     "missing_required_parameter"},
    {"{'response_format':{'type':'json_schema','json_schema':[]}}", ERROR,
     "response_format.json_schema", "invalid_type"},
    {"{'response_format':{'type':'json_schema','json_schema':{'schema':{}}}}", ERROR,
     "response_format.json_schema.name", "missing_required_parameter"},
    {"{'response_format':{'type':'json_schema','json_schema':{'name':'a b'}}}", ERROR,
     "response_format.json_schema.name", "invalid_value"},
    {"{'response_format':{'type':'json_schema','json_schema':{'name':'a','schema':[]}}}", ERROR,
     "response_format.json_schema.schema", "invalid_type"},
    {"{'response_format':{'type':'json_schema','json_schema':{'name':'a','strict':1}}}", ERROR,
     "response_format.json_schema.strict", "invalid_type"},
    {"{'response_format':{'type':'structural_tag','format':{'type':'const_string','value':'a'}}}",
     ERROR, "response_format.format", "unsupported_value"},
    {"{'structural_tag':{'format':{'type':'triggered_tags','triggers':['<'],'tags':[{'begin':'<a>',"
     "'content':{'type':'any_text'},'end':'</a>'}]}}}",
     ERROR, "structural_tag", "unsupported_value"},
    {"{'structural_tag':{'format':{'type':'triggered_tags','triggers':['<'],'tags':[],"
     "'at_least_one':true}}}",
     ERROR, "structural_tag", "unsupported_value"},
    {"{'guided_json':'{'}", ERROR, "guided_json", "invalid_value"},
    {"{'guided_json':[]}", ERROR, "guided_json", "invalid_type"},
    {"{'guided_regex':1}", ERROR, "guided_regex", "invalid_type"},
    {"{'guided_choice':'a'}", ERROR, "guided_choice", "invalid_type"},
    {"{'structured_outputs':{'json_object':1}}", ERROR, "structured_outputs.json_object",
     "invalid_type"},
    {"{'structured_outputs':[]}", ERROR, "structured_outputs", "invalid_type"},
    {"{'guided_json':{},'guided_regex':'a'}", ERROR, "guided_regex", "invalid_value"},
    {"{'response_format':{'type':'json_object'},'guided_json':{}}", ERROR, "guided_json",
     "invalid_value"},
};

static void check_source(const char *said, const lh_openai_output_format *format, int kind,
                         const char *value) {
    json_t *wanted;
    char list[1024];
    if (!format->is_given || (int)format->source.kind != kind)
        fail_msg("%s: given %d, kind %d", said, format->is_given, (int)format->source.kind);
    snprintf(list, sizeof list, "[%s]", value ? value : "null");
    wanted = parse(list);
    if (value ? !json_equal(json_array_get(wanted, 0), format->source.value)
              : format->source.value != NULL)
        fail_msg("%s: another value", said);
    json_decref(wanted);
}

static void forms_are_read_in_all_dialects(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *body = parse(cases[i].body);
        lh_openai_error error = {0};
        const lh_body_reader reader = {body, "", &error, NULL, NULL};
        lh_openai_output_format format;
        lh_openai_output_format_parse(&reader, &format);
        if ((cases[i].kind == ERROR) != (error.status == 400))
            fail_msg("%s: %u %s", cases[i].body, error.status, error.message);
        if (cases[i].kind == ERROR) {
            assert_string_equal(error.param, cases[i].value);
            assert_string_equal(error.code, cases[i].code);
        } else if (cases[i].kind == TEXT) {
            assert_false(format.is_given);
        } else {
            check_source(cases[i].body, &format, cases[i].kind, cases[i].value);
        }
        lh_openai_output_format_reset(&format);
        json_decref(body);
    }
}

static void what_cannot_be_compiled_is_refused_as_openai_does(void **state) {
    (void)state;
    const lh_error cause = {LH_ERR_UNSUPPORTED, "#/a: 'not' is not supported"};
    lh_openai_output_format format = {
        .is_given = true, .param = "response_format", .name = "person"};
    lh_openai_error error = {0};
    assert_false(lh_openai_output_format_refuse(&format, &cause, &error));
    assert_int_equal(error.status, 400);
    assert_string_equal(error.param, "response_format");
    assert_null(error.code);
    assert_string_equal(
        error.message, "Invalid schema for response_format 'person': #/a: 'not' is not supported.");
    format = (lh_openai_output_format){.is_given = true, .param = "guided_regex"};
    assert_false(lh_openai_output_format_refuse(&format, &cause, &error));
    assert_string_equal(error.code, "invalid_value");
    const lh_error memory = {LH_ERR_NO_MEMORY, "none"};
    assert_false(lh_openai_output_format_refuse(&format, &memory, &error));
    assert_int_equal(error.status, 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_read_in_all_dialects),
        cmocka_unit_test(what_cannot_be_compiled_is_refused_as_openai_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
