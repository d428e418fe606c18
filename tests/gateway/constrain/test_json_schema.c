/* Each keyword of JSON Schema: texts that satisfy it are accepted, others are not, and what cannot
 * be followed is named with its place. Many random schemas: tests/truth/test_json_schema.py. */
#include "gateway/constrain/closure.h"
#include "gateway/constrain/json_schema.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/processor_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Schemas as automata. ---- */

static lh_status compile(const json_t *schema, lh_automaton **automaton, lh_error *error) {
    lh_grammar *grammar;
    lh_status status = lh_grammar_create(&grammar, error);
    if (status)
        return status;
    lh_grammar_set_root(grammar, lh_json_schema_add(grammar, schema));
    status = lh_grammar_check(grammar, error);
    if (!status)
        status = lh_automaton_create(grammar, 0, automaton, error);
    lh_grammar_destroy(grammar);
    return status;
}

static json_t *parse(const char *text) {
    json_t *schema = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!schema)
        fail_msg("not JSON: %s", text);
    return schema;
}

static bool accepts(const lh_automaton *automaton, const char *text) {
    lh_closure *closure;
    lh_stack_pool pool = {.count_max = UINT32_MAX};
    lh_places here = {0}, next = {0};
    assert_int_equal(lh_closure_create(automaton, &closure, NULL), LH_OK);
    assert_int_equal(lh_closure_begin(closure, &pool, &here, NULL), LH_OK);
    for (; *text && lh_places_is_alive(&here); text++) {
        assert_int_equal(lh_closure_step(closure, &pool, &here, (uint8_t)*text, &next, NULL),
                         LH_OK);
        lh_places swap = here;
        here = next;
        next = swap;
    }
    bool accepted = here.may_end && !*text;
    lh_places_reset(&here);
    lh_places_reset(&next);
    lh_stack_pool_reset(&pool);
    lh_closure_destroy(closure);
    return accepted;
}

static void check(const char *schema, const char *const *good, const char *const *bad) {
    json_t *parsed = parse(schema);
    lh_automaton *automaton;
    lh_error error;
    if (compile(parsed, &automaton, &error))
        fail_msg("%s: %s", schema, error.message);
    for (; *good; good++)
        if (!accepts(automaton, *good))
            fail_msg("%s does not accept %s", schema, *good);
    for (; *bad; bad++)
        if (accepts(automaton, *bad))
            fail_msg("%s accepts %s", schema, *bad);
    lh_automaton_destroy(automaton);
    json_decref(parsed);
}

static void refuse_parsed(json_t *parsed, const char *said, lh_status status, const char *message) {
    lh_automaton *automaton = NULL;
    lh_error error = {0};
    double begun_s = processor_time_s();
    assert_int_equal(compile(parsed, &automaton, &error), status);
    assert_true(processor_time_s() - begun_s < 1.0 * PROCESSOR_TIME_SCALE);
    if (!strstr(error.message, message))
        fail_msg("%s: said \"%s\", not \"%s\"", said, error.message, message);
    json_decref(parsed);
}

static void refuse(const char *schema, lh_status status, const char *message) {
    refuse_parsed(parse(schema), schema, status, message);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_TEXTS   ((const char *const[]){NULL})

/* ---- Keywords. ---- */

static void types_are_json_s_own(void **state) {
    (void)state;
    check("{\"type\": \"null\"}", TEXTS("null"), TEXTS("nul", "true", "0", "\"\""));
    check("{\"type\": \"boolean\"}", TEXTS("true", "false"), TEXTS("null", "True", "1"));
    check("{\"type\": \"integer\"}", TEXTS("0", "-1", "123456789012345678"),
          TEXTS("-0", "01", "1.0", "1e2", "1234567890123456789", "+1"));
    check("{\"type\": \"number\"}",
          TEXTS("0", "-1.5", "1e-07", "1e+100", "0.1", "-0.0", "5e307", "1.7976931348623157e+307"),
          TEXTS("1.", ".5", "00", "1e308", "1e999", "12e5", "NaN", "- 1"));
    check("{\"type\": [\"integer\", \"null\"]}", TEXTS("7", "null"), TEXTS("7.5", "\"7\""));
    check("{\"type\": \"integer\", \"nullable\": true}", TEXTS("7", "null"), TEXTS("false"));
    check("{}", TEXTS("{}", "[]", "[1, {\"a\": [true]}]", "\"x\"", "null"),
          TEXTS("[1,2]", "{ }", "[ ]", " 1", "1 ", "[1, ]", "{\"a\" : 1}", ""));
    check("true", TEXTS("0"), TEXTS("x"));
}

static void strings_have_json_s_escapes(void **state) {
    (void)state;
    check("{\"type\": \"string\"}",
          TEXTS("\"\"", "\"\xc3\xa4\"", "\"\\u00e4\\n\\/\"", "\"\\ud83d\\ude00\"", "\"\\u0000\"",
                "\"\xf0\x9f\x98\x80\"", "\"\x7f\""),
          TEXTS("\"", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\u12\"", "\"\xff\"",
                "\"\xed\xa0\x80\"", "\"a\"\"", "'a'"));
    check("{\"minLength\": 2, \"maxLength\": 3, \"type\": \"string\"}",
          TEXTS("\"ab\"", "\"\xc3\xa4\xc3\xa4\xc3\xa4\"", "\"\\ud83d\\ude00a\"", "\"\\n\\\"\""),
          TEXTS("\"a\"", "\"abcd\"", "\"\""));
    check("{\"type\": \"string\", \"maxLength\": 0}", TEXTS("\"\""), TEXTS("\"a\""));
    check("{\"type\": \"string\", \"minLength\": 1e30}", NO_TEXTS, TEXTS("\"a\""));
}

static void patterns_are_searched_for(void **state) {
    (void)state;
    check("{\"type\": \"string\", \"pattern\": \"^a+$\"}", TEXTS("\"a\"", "\"aa\""),
          TEXTS("\"\"", "\"ab\"", "\"ba\""));
    check("{\"type\": \"string\", \"pattern\": \"b\\\"|\\\\\\\\\"}",
          TEXTS("\"xb\\\"x\"", "\"\\\\\"", "\"\\n\\\\\""), TEXTS("\"b\"", "\"\\u005c\""));
    check("{\"type\": \"string\", \"pattern\": \"b\", \"minLength\": 2, \"maxLength\": 3}",
          TEXTS("\"ab\"", "\"bb\"", "\"\\nb\\u0001\""), TEXTS("\"b\"", "\"aa\"", "\"abab\""));
    check("{\"allOf\": [{\"type\": \"string\", \"pattern\": \"a\"}, {\"pattern\": \"b\"}]}",
          TEXTS("\"ab\"", "\"bxa\""), TEXTS("\"a\"", "\"b\"", "1"));
    refuse("{\"properties\": {\"q\": {\"type\": \"string\", \"pattern\": \"a(?=b)\"}}}",
           LH_ERR_UNSUPPORTED, "#/properties/q: 'pattern'");
    refuse("{\"type\": \"string\", \"pattern\": \"(\"}", LH_ERR_INVALID, "#: 'pattern'");
    refuse("{\"type\": \"string\", \"pattern\": \"a.{20}\", \"maxLength\": 99}", LH_ERR_LIMIT,
           "#: 'pattern'");
}

static void formats_are_followed(void **state) {
    (void)state;
    static const struct {
        const char *format, *good, *bad;
    } cases[] = {
        {"date", "2024-02-29", "2023-02-29"},
        {"date", "1999-12-31", "0000-01-01"},
        {"date", "2000-02-29", "1900-02-29"},
        {"date", "2024-04-30", "2024-04-31"},
        {"time", "23:59:59.5Z", "24:00:00Z"},
        {"time", "00:00:00-01:30", "00:00:00"},
        {"date-time", "2024-01-01T00:00:00Z", "2024-01-01 00:00:00Z"},
        {"duration", "P1Y2M3DT4H5M6S", "P1Y3D"},
        {"duration", "PT5M", "P"},
        {"uuid", "123e4567-e89b-12d3-A456-426614174000", "123e4567e89b12d3a456426614174000"},
        {"email", "a.b+c@x-y.example", "a@b"},
        {"email", "a@b.c", "a..b@c.d"},
        {"hostname", "a-b.example", "-a.example"},
        {"ipv4", "255.0.10.9", "256.0.0.1"},
        {"ipv4", "0.0.0.0", "01.0.0.0"},
        {"ipv6", "2001:db8::1", "2001:db8"},
        {"ipv6", "::", ":::"},
        {"ipv6", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9"},
        {"uri", "https://a.example:80/b%20c?d=e#f", "https://a b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char schema[80], good[80], bad[80];
        snprintf(schema, sizeof schema, "{\"type\": \"string\", \"format\": \"%s\"}",
                 cases[i].format);
        snprintf(good, sizeof good, "\"%s\"", cases[i].good);
        snprintf(bad, sizeof bad, "\"%s\"", cases[i].bad);
        check(schema, TEXTS(good), TEXTS(bad));
    }
    check("{\"type\": \"string\", \"format\": \"of-our-own\"}", TEXTS("\"x\""), NO_TEXTS);
    check("{\"type\": \"string\", \"format\": \"date\", \"pattern\": \"^2\"}",
          TEXTS("\"2024-01-01\""), TEXTS("\"1999-01-01\""));
    refuse("{\"items\": {\"format\": \"json-pointer\"}}", LH_ERR_UNSUPPORTED,
           "#/items: 'format' \"json-pointer\"");
}

/* As libraries write them for addresses of the web and of mail. */
static void lengths_beside_a_format_are_kept(void **state) {
    (void)state;
    static char longest[2300], address[400];
    check("{\"type\": \"string\", \"format\": \"uri\", \"minLength\": 1, \"maxLength\": 2083}",
          TEXTS("\"https://a.example/b?c=d\""), TEXTS("\"https//a\"", "\"\""));
    check("{\"type\": \"string\", \"format\": \"email\", \"maxLength\": 320}",
          TEXTS("\"a.b@c.example\""), TEXTS("\"a.b\""));
    check("{\"type\": \"string\", \"format\": \"email\", \"maxLength\": 9}", TEXTS("\"a@bcd.efg\""),
          TEXTS("\"a@bcd.efgh\""));
    check("{\"type\": \"string\", \"format\": \"date\", \"minLength\": 10, \"maxLength\": 10}",
          TEXTS("\"2024-01-01\""), TEXTS("\"2024-1-1\""));
    snprintf(longest, sizeof longest, "\"http://a.b/%02200d\"", 0);
    check("{\"type\": \"string\", \"format\": \"uri\", \"maxLength\": 2083}", NO_TEXTS,
          TEXTS(longest));
    snprintf(address, sizeof address, "\"a@b.%0300d\"", 0);
    check("{\"type\": \"string\", \"format\": \"email\", \"maxLength\": 254}", NO_TEXTS,
          TEXTS(address));
    check("{\"type\": \"string\", \"pattern\": \"^[a-z]{2,5}$\", \"maxLength\": 100000}",
          TEXTS("\"ab\""), TEXTS("\"a\"", "\"abcdef\""));
}

static void older_drafts_are_read(void **state) {
    (void)state;
    check("{\"type\": \"integer\", \"minimum\": 1, \"exclusiveMinimum\": true, \"maximum\": 5, "
          "\"exclusiveMaximum\": false}",
          TEXTS("2", "5"), TEXTS("1", "6"));
    check("{\"type\": \"array\", \"items\": [{\"type\": \"null\"}, {\"const\": 1}], "
          "\"additionalItems\": {\"const\": 2}, \"minItems\": 3, \"maxItems\": 3}",
          TEXTS("[null, 1, 2]"), TEXTS("[null, 1, 3]", "[null, 1]"));
    check(
        "{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"const\": 1}, \"maxItems\": 2}",
        TEXTS("[1, 1]"), TEXTS("[2]"));
    check(
        "{\"type\": \"object\", \"required\": null, \"enum\": null, \"properties\": {\"required\": "
        "{\"const\": null, \"pattern\": null}}, \"additionalProperties\": false}",
        TEXTS("{}", "{\"required\": null}"), TEXTS("{\"required\": 1}"));
    check(
        "{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1, \"required\": true}, \"b\": "
        "{\"const\": 2, \"required\": false}}}",
        TEXTS("{\"a\": 1}", "{\"a\": 1, \"b\": 2}"), TEXTS("{}", "{\"b\": 2}"));
    check("{\"type\": \"string\", \"format\": \"date\", \"pattern\": \"^(?!0000)\"}",
          TEXTS("\"2024-01-01\""), TEXTS("\"x\""));
    check("{\"enum\": [null, {\"required\": null}]}", TEXTS("null", "{\"required\": null}"),
          TEXTS("{}"));
}

static void numbers_keep_to_their_bounds(void **state) {
    (void)state;
    check("{\"type\": \"integer\", \"minimum\": -3, \"maximum\": 12}", TEXTS("-3", "0", "12"),
          TEXTS("-4", "13", "120", "1.0"));
    check("{\"type\": \"number\", \"exclusiveMinimum\": 0, \"exclusiveMaximum\": 1.5}",
          TEXTS("0.1", "1", "1.49"), TEXTS("0", "0.0", "1.5", "1.50", "-1", "1e-3"));
    check("{\"type\": \"integer\", \"multipleOf\": 7, \"minimum\": 1}", TEXTS("7", "700"),
          TEXTS("0", "6", "-7"));
    check("{\"type\": \"number\", \"multipleOf\": 0.5}", TEXTS("0.5", "-3", "12.0"),
          TEXTS("0.25", "1.05"));
    check("{\"minimum\": 5}", TEXTS("5", "\"x\"", "null", "[4]"), TEXTS("4"));
    refuse("{\"properties\": {\"a/b\": {\"minimum\": \"1\"}}}", LH_ERR_INVALID,
           "#/properties/a~1b: 'minimum' must be a number");
    refuse("{\"multipleOf\": 0}", LH_ERR_INVALID, "#: 'multipleOf' must be above 0");
    refuse("{\"multipleOf\": 99999}", LH_ERR_LIMIT, "#: 'multipleOf'");
    refuse("{\"exclusiveMinimum\": \"1\"}", LH_ERR_INVALID, "'exclusiveMinimum' must be a number");
}

static void named_values_are_written_as_they_stand(void **state) {
    (void)state;
    check("{\"enum\": [1, \"a\\nb\", null, {\"x\": [0.5, true]}, 1.0]}",
          TEXTS("1", "\"a\\nb\"", "null", "{\"x\": [0.5, true]}", "1.0"),
          TEXTS("2", "{\"x\": [0.5,true]}", "{\"x\": [0.5]}", "\"a\""));
    check("{\"const\": [\"\xc3\xa4\", -7, 1e100]}", TEXTS("[\"\xc3\xa4\", -7, 1e+100]"),
          TEXTS("[]"));
    check("{\"enum\": [1, \"ab\", \"b\", null, 7, 1.5], \"type\": [\"string\", \"integer\"], "
          "\"pattern\": \"^a\", \"minimum\": 3}",
          TEXTS("\"ab\"", "7"), TEXTS("\"b\"", "1", "null", "1.5"));
    check("{\"allOf\": [{\"enum\": [1, 2, [1], {\"a\": 1}]}, {\"enum\": [2, 3, [1.0], "
          "{\"a\": 1, \"b\": 2}]}]}",
          TEXTS("2", "[1]"), TEXTS("1", "3", "{\"a\": 1}"));
    check("{\"const\": {\"a\": [1, 2]}, \"properties\": {\"a\": {\"items\": {\"maximum\": 2}}}, "
          "\"required\": [\"a\"]}",
          TEXTS("{\"a\": [1, 2]}"), NO_TEXTS);
    refuse("{\"const\": {\"a\": [1, 3]}, \"properties\": {\"a\": {\"items\": {\"maximum\": 2}}}}",
           LH_ERR_INVALID, "no text");
    refuse("{\"enum\": 7}", LH_ERR_INVALID, "#: 'enum' must be a list");
    refuse("{\"enum\": []}", LH_ERR_INVALID, "no text");
}

static void members_come_in_the_schema_s_order(void **state) {
    (void)state;
    check("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {}, "
          "\"c\": {}}, \"required\": [\"b\"]}",
          TEXTS("{\"b\": 1}", "{\"a\": 1, \"b\": 2}", "{\"a\": 1, \"b\": 2, \"c\": 3}",
                "{\"b\": 2, \"c\": 3}"),
          TEXTS("{}", "{\"a\": 1}", "{\"b\": 1, \"a\": 1}", "{\"b\": 1, \"d\": 1}",
                "{\"a\": true, \"b\": 1}", "{\"b\": 1, \"b\": 1}", "{\"b\": 1}}"));
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}}",
          TEXTS("{}", "{\"a\": 1}", "{\"b\": 1}", "{\"a\": 1, \"b\": 1}"),
          TEXTS("{\"b\": 1, \"a\": 1}", "{\"c\": 1}", "{, \"b\": 1}"));
    check("{\"type\": \"object\", \"required\": [\"q\\\"\"]}",
          TEXTS("{\"q\\\"\": 1}", "{\"q\\\"\": 1, \"more\": 1}"), TEXTS("{}", "{\"more\": 1}"));
    check("{\"type\": \"object\", \"properties\": {\"a\": false, \"b\": {}}}",
          TEXTS("{}", "{\"b\": 1}"), TEXTS("{\"a\": 1}"));
    refuse("{\"type\": \"object\", \"properties\": {\"a\": false}, \"required\": [\"a\"]}",
           LH_ERR_INVALID, "no text");
    refuse("{\"required\": [1]}", LH_ERR_INVALID, "#: 'required' must be a list of strings");
    refuse("{\"properties\": []}", LH_ERR_INVALID, "#: 'properties' must be an object");
    refuse("{\"properties\": {\"a\": 1}}", LH_ERR_INVALID, "#/properties/a: a schema must be");
}

static void others_follow_where_they_are_allowed(void **state) {
    (void)state;
    check("{\"type\": \"object\"}", TEXTS("{}", "{\"a\": 1, \"a\": {}}"), TEXTS("[]"));
    check("{\"type\": \"object\", \"properties\": {\"a\": {}}, \"additionalProperties\": "
          "{\"type\": \"null\"}}",
          TEXTS("{}", "{\"b\": null}", "{\"a\": 1, \"aa\": null, \"\": null, \"\\n\": null}"),
          TEXTS("{\"b\": 1}", "{\"b\": null, \"a\": 1}", "{\"\\u0061\": null}",
                "{\"a\": 1, \"a\": null}"));
    check("{\"type\": \"object\", \"additionalProperties\": false}", TEXTS("{}"),
          TEXTS("{\"a\": 1}"));
    check("{\"type\": \"object\", \"properties\": {\"id\": {}, \"x-i\": {\"minimum\": 3}}, "
          "\"patternProperties\": {\"^x-\": {\"type\": \"integer\"}, \"z$\": {\"maximum\": 9}}}",
          TEXTS("{\"x-i\": 3}", "{\"id\": true}", "{\"x-a\": 1, \"z\": null, \"x-z\": 9}"),
          TEXTS("{\"x-i\": 2}", "{\"x-i\": null}", "{\"x-z\": 10}", "{\"x-z\": null}",
                "{\"z\": 10}", "{\"other\": 1}", "{\"x-a\": \"\"}"));
    check("{\"type\": \"object\", \"properties\": {\"a\": {}}, \"unevaluatedProperties\": false}",
          TEXTS("{\"a\": 1}"), TEXTS("{\"b\": 1}"));
    refuse("{\"patternProperties\": {\"(\": {}}}", LH_ERR_INVALID, "#: 'patternProperties' \"(\"");
}

static void members_are_counted(void **state) {
    (void)state;
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}, \"c\": {}}, "
          "\"minProperties\": 2}",
          TEXTS("{\"a\": 1, \"c\": 1}", "{\"a\": 1, \"b\": 1, \"c\": 1}"),
          TEXTS("{}", "{\"b\": 1}"));
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, \"maxProperties\": 1}",
          TEXTS("{}", "{\"b\": 1}"), TEXTS("{\"a\": 1, \"b\": 1}"));
    check("{\"type\": \"object\", \"maxProperties\": 2, \"minProperties\": 1}",
          TEXTS("{\"x\": 1}", "{\"x\": 1, \"y\": 1}"),
          TEXTS("{}", "{\"x\": 1, \"y\": 1, \"z\": 1}"));
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, \"required\": [\"b\"], "
          "\"additionalProperties\": true, \"minProperties\": 2, \"maxProperties\": 3}",
          TEXTS("{\"a\": 1, \"b\": 1}", "{\"b\": 1, \"c\": 1}", "{\"b\": 1, \"c\": 1, \"d\": 1}"),
          TEXTS("{\"b\": 1}", "{\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1}"));
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, \"required\": [\"a\", "
          "\"b\"], \"minProperties\": 2}",
          TEXTS("{\"a\": 1, \"b\": 1}"), NO_TEXTS);
    refuse("{\"type\": \"object\", \"minProperties\": 2}", LH_ERR_UNSUPPORTED,
           "#: 'minProperties'");
    refuse("{\"minProperties\": -1}", LH_ERR_INVALID, "#: 'minProperties' must be an integer");
    refuse("{\"type\": \"object\", \"minProperties\": 3, \"maxProperties\": 2}", LH_ERR_INVALID,
           "no text");
}

static void elements_are_counted(void **state) {
    (void)state;
    check("{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 1, "
          "\"maxItems\": 3}",
          TEXTS("[1]", "[1, 2, 3]"), TEXTS("[]", "[1, 2, 3, 4]", "[\"a\"]", "[1,2]", "[1 ]"));
    check("{\"type\": \"array\", \"maxItems\": 0}", TEXTS("[]"), TEXTS("[1]"));
    check("{\"type\": \"array\", \"items\": false}", TEXTS("[]"), TEXTS("[1]"));
    check("{\"type\": \"array\", \"minItems\": 2}", TEXTS("[1, [2]]", "[1, 2, 3]"), TEXTS("[1]"));
    check("{\"type\": \"array\", \"prefixItems\": [{\"type\": \"null\"}, {\"const\": 1}]}",
          TEXTS("[]", "[null]", "[null, 1]"), TEXTS("[1]", "[null, 1, 2]", "[, 1]"));
    check("{\"type\": \"array\", \"prefixItems\": [{\"type\": \"null\"}], \"items\": {\"const\": "
          "1}, \"minItems\": 2, \"maxItems\": 3}",
          TEXTS("[null, 1]", "[null, 1, 1]"), TEXTS("[null]", "[null, 1, 1, 1]", "[null, null]"));
    check("{\"type\": \"array\", \"prefixItems\": [{\"type\": \"null\"}], \"minItems\": 3}",
          TEXTS("[null, 1, \"x\"]"), TEXTS("[null]", "[null, 1]", "[1, 1, 1]"));
    check("{\"type\": \"array\", \"prefixItems\": [true, false, true]}", TEXTS("[]", "[1]"),
          TEXTS("[1, 2]", "[1, 2, 3]"));
    refuse("{\"type\": \"array\", \"minItems\": 3, \"maxItems\": 2}", LH_ERR_INVALID, "no text");
    refuse("{\"items\": 5}", LH_ERR_INVALID, "#/items: a schema must be");
}

static void alternatives_and_parts_combine(void **state) {
    (void)state;
    check("{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"integer\", \"minimum\": 5}]}",
          TEXTS("\"x\"", "5"), TEXTS("4", "null"));
    check("{\"oneOf\": [{\"const\": 1}, {\"const\": \"b\"}], \"type\": \"string\"}", TEXTS("\"b\""),
          TEXTS("1"));
    check("{\"allOf\": [{\"properties\": {\"a\": {\"type\": \"integer\"}}, \"required\": "
          "[\"a\"]}, {\"properties\": {\"b\": {}, \"a\": {\"minimum\": 3}}}], \"type\": "
          "\"object\"}",
          TEXTS("{\"a\": 3}", "{\"a\": 3, \"b\": 0}"),
          TEXTS("{\"a\": 2}", "{\"a\": 3.5}", "{\"b\": 0}"));
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {}}, \"anyOf\": "
          "[{\"required\": [\"a\"]}, {\"required\": [\"b\"]}]}",
          TEXTS("{\"a\": 1}", "{\"b\": 1}", "{\"a\": 1, \"b\": 1}"), TEXTS("{}"));
    check("{\"type\": \"object\", \"allOf\": [{\"properties\": {\"a\": {}}}, "
          "{\"properties\": {\"b\": {}}, \"additionalProperties\": false}]}",
          TEXTS("{}", "{\"b\": 1}"), TEXTS("{\"a\": 1}"));
    check("{\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"boolean\"}], \"oneOf\": [{\"const\": "
          "true}, {\"type\": \"null\"}]}",
          TEXTS("null", "true"), TEXTS("false"));
    refuse("{\"allOf\": [{\"type\": \"null\"}, {\"type\": \"string\"}]}", LH_ERR_INVALID,
           "no text");
    refuse("{\"anyOf\": {}}", LH_ERR_INVALID, "#: 'anyOf' must be a list");
}

static void references_are_followed_and_may_recur(void **state) {
    (void)state;
    check("{\"$ref\": \"#/$defs/node\", \"$defs\": {\"node\": {\"type\": \"object\", "
          "\"properties\": {\"v\": {\"type\": \"integer\"}, \"next\": {\"anyOf\": [{\"$ref\": "
          "\"#/$defs/node\"}, {\"type\": \"null\"}]}}, \"required\": [\"v\", \"next\"]}}}",
          TEXTS("{\"v\": 1, \"next\": null}", "{\"v\": 1, \"next\": {\"v\": 2, \"next\": null}}"),
          TEXTS("{\"v\": 1}", "{\"v\": 1, \"next\": {\"v\": 2}}"));
    check("{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}", TEXTS("[]", "[[], [[]]]"),
          TEXTS("[1]"));
    check("{\"properties\": {\"a\": {\"$ref\": \"#/definitions/x~1y%20z\", \"maximum\": 3}}, "
          "\"type\": \"object\", \"definitions\": {\"x/y z\": {\"type\": \"integer\"}}}",
          TEXTS("{\"a\": 3}"), TEXTS("{\"a\": 4}", "{\"a\": \"\"}"));
    check("{\"anyOf\": [{\"const\": 1}, {\"$ref\": \"#/anyOf/0\"}]}", TEXTS("1"), TEXTS("2"));
    refuse("{\"$ref\": \"#\"}", LH_ERR_INVALID, "leads back to itself");
    refuse("{\"items\": {\"$ref\": \"#/$defs/a\"}, \"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\"}, "
           "\"b\": {\"allOf\": [{\"$ref\": \"#/$defs/a\"}]}}}",
           LH_ERR_INVALID, "leads back to itself");
    refuse("{\"anyOf\": [{\"type\": \"null\"}, {\"$ref\": \"#\"}]}", LH_ERR_INVALID,
           "leads back to itself");
    refuse("{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": "
           "[\"a\"]}",
           LH_ERR_INVALID, "no text");
    refuse("{\"items\": {\"$ref\": \"https://example.org/s\"}}", LH_ERR_UNSUPPORTED,
           "#/items: '$ref'");
    refuse("{\"items\": {\"$ref\": \"#anchor\"}}", LH_ERR_UNSUPPORTED, "#/items: '$ref'");
    refuse("{\"items\": {\"$ref\": \"#/$defs/none\"}}", LH_ERR_INVALID, "#/items: '$ref' names");
    refuse("{\"items\": {\"$ref\": 1}}", LH_ERR_INVALID, "#/items: '$ref' must be a string");
}

static void not_takes_types_away(void **state) {
    (void)state;
    check("{\"not\": {\"type\": [\"string\", \"number\"]}}", TEXTS("null", "true", "[1]"),
          TEXTS("\"\"", "1", "1.5"));
    check("{\"type\": [\"integer\", \"null\"], \"not\": {\"type\": \"null\"}}", TEXTS("1"),
          TEXTS("null", "1.5"));
    check("{\"anyOf\": [{\"const\": 1}, {\"const\": 2, \"not\": {}}]}", TEXTS("1"), TEXTS("2"));
    check("{\"enum\": [1, \"a\"], \"not\": {\"type\": \"number\"}}", TEXTS("\"a\""), TEXTS("1"));
    check("{\"const\": 1, \"not\": false}", TEXTS("1"), TEXTS("2"));
    refuse("{\"not\": true}", LH_ERR_INVALID, "no text");
    refuse("{\"items\": {\"not\": {\"const\": 1}}}", LH_ERR_UNSUPPORTED,
           "#/items: 'not' is not supported but for");
    refuse("{\"not\": {\"type\": \"integer\"}}", LH_ERR_UNSUPPORTED, "#: 'not'");
    refuse("{\"not\": {\"type\": \"string\", \"maxLength\": 1}}", LH_ERR_UNSUPPORTED, "#: 'not'");
}

static void some_elements_are_counted(void **state) {
    (void)state;
    check("{\"items\": {\"type\": \"integer\"}, \"contains\": {\"minimum\": 5}, \"type\": "
          "\"array\"}",
          TEXTS("[5]", "[1, 7, 2]", "[1, 2, 3, 9]"), TEXTS("[]", "[1, 2]", "[5, \"\"]"));
    check("{\"contains\": {\"const\": 1}, \"minContains\": 2, \"maxItems\": 3, \"minItems\": 3, "
          "\"type\": \"array\"}",
          TEXTS("[1, 1, 1]", "[1, null, 1]", "[{}, 1, 1]"),
          TEXTS("[1, 1]", "[1, 2, 3]", "[1, 1, 2, 2]"));
    check("{\"contains\": {\"const\": 1}, \"minContains\": 0, \"type\": \"array\"}",
          TEXTS("[]", "[2]"), TEXTS("{}"));
    check("{\"enum\": [[], [1], [2, 1]], \"contains\": {\"const\": 1}}", TEXTS("[1]", "[2, 1]"),
          TEXTS("[]"));
    refuse("{\"type\": \"array\", \"contains\": {}, \"maxItems\": 0}", LH_ERR_INVALID, "no text");
    refuse("{\"type\": \"array\", \"contains\": {\"const\": 1}, \"prefixItems\": [{}]}",
           LH_ERR_UNSUPPORTED, "#: 'contains' is not supported together");
    refuse("{\"type\": \"array\", \"contains\": {\"const\": 1}, \"minItems\": 100000}",
           LH_ERR_LIMIT, "#: 'contains' has too many");
}

static void names_of_members_are_bound(void **state) {
    (void)state;
    check("{\"type\": \"object\", \"propertyNames\": {\"pattern\": \"^[a-z]+$\", \"maxLength\": "
          "3}, \"additionalProperties\": {\"type\": \"null\"}}",
          TEXTS("{}", "{\"ab\": null}", "{\"abc\": null, \"x\": null}"),
          TEXTS("{\"abcd\": null}", "{\"A\": null}", "{\"\": null}"));
    check("{\"type\": \"object\", \"propertyNames\": {\"enum\": [\"a\", \"b\", 1]}}",
          TEXTS("{}", "{\"a\": 1, \"b\": []}"), TEXTS("{\"c\": 1}", "{\"1\": 1}"));
    check("{\"type\": \"object\", \"properties\": {\"a\": {}, \"bb\": {}}, \"propertyNames\": "
          "{\"maxLength\": 1}}",
          TEXTS("{}", "{\"a\": 1}"), TEXTS("{\"bb\": 1}", "{\"c\": 1}"));
    check("{\"type\": \"object\", \"propertyNames\": false}", TEXTS("{}"), TEXTS("{\"a\": 1}"));
    check("{\"type\": \"object\", \"propertyNames\": {\"enum\": [1]}}", TEXTS("{}"),
          TEXTS("{\"a\": 1}")); /* no text at all is a name */
    check("{\"type\": \"object\", \"patternProperties\": {\"^x\": {\"const\": 1}}, "
          "\"propertyNames\": {\"minLength\": 2}}",
          TEXTS("{}", "{\"xy\": 1}"), TEXTS("{\"x\": 1}", "{\"yy\": 1}"));
    check("{\"enum\": [{\"a\": 1}, {\"bc\": 1}], \"propertyNames\": {\"const\": \"a\"}}",
          TEXTS("{\"a\": 1}"), TEXTS("{\"bc\": 1}"));
    refuse("{\"type\": \"object\", \"required\": [\"bb\"], \"propertyNames\": {\"maxLength\": 1}}",
           LH_ERR_INVALID, "no text");
    refuse("{\"type\": \"object\", \"propertyNames\": {\"anyOf\": [{}]}}", LH_ERR_UNSUPPORTED,
           "#: 'propertyNames' is followed with");
}

static void what_cannot_be_followed_is_refused_by_name(void **state) {
    (void)state;
    static const char *const keywords[] = {
        "\"if\": true",
        "\"maxContains\": 1",
        "\"dependentRequired\": {}",
        "\"dependentSchemas\": {}",
        "\"dependencies\": {}",
        "\"$dynamicRef\": \"#x\"",
        "\"unevaluatedItems\": {}",
    };
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        char schema[120], message[80], name[40];
        sscanf(keywords[i], "\"%39[^\"]", name);
        snprintf(schema, sizeof schema, "{\"items\": {\"anyOf\": [true, {%s}]}}", keywords[i]);
        snprintf(message, sizeof message, "#/items/anyOf/1: '%s' is not supported", name);
        refuse(schema, LH_ERR_UNSUPPORTED, message);
    }
    check("{\"uniqueItems\": false, \"title\": \"T\", \"x-mine\": {\"not\": 1}, \"default\": 1, "
          "\"type\": \"null\", \"then\": {}, \"$schema\": \"s\", \"$id\": \"i\"}",
          TEXTS("null"), TEXTS("1"));
    refuse("{\"type\": \"strin\"}", LH_ERR_INVALID, "#: 'type' must be one of");
    refuse("{\"type\": []}", LH_ERR_INVALID, "#: 'type' must not be");
    refuse("[1]", LH_ERR_INVALID, "a schema must be an object");
    refuse("false", LH_ERR_INVALID, "no text");
}

/* ---- Bounds. ---- */

static void schemas_have_bounds(void **state) {
    (void)state;
    json_t *deep = json_true(), *wide = json_object(), *list = json_array(), *names = json_object();
    char name[24];
    for (int i = 0; i < 1000; i++)
        deep = json_pack("{s:o}", "items", deep);
    refuse_parsed(deep, "1,000 deep", LH_ERR_LIMIT, "nested more than 512 deep");
    for (int i = 0; i < 60000; i++) {
        snprintf(name, sizeof name, "name%d", i);
        json_object_set_new(wide, name, json_object());
    }
    refuse_parsed(json_pack("{s:o}", "properties", wide), "60,000 properties", LH_ERR_LIMIT,
                  "more than 50000 values");
    for (int i = 0; i < 30; i++)
        json_array_append_new(list, json_pack("{s:i}", "minimum", i));
    refuse_parsed(json_pack("{s:[{s:O},{s:O},{s:O},{s:O}], s:o}", "allOf", "anyOf", list, "anyOf",
                            list, "anyOf", list, "anyOf", list, "items", json_incref(list)),
                  "alternatives of alternatives", LH_ERR_LIMIT, "more than 1024 alternatives");
    json_decref(list);
    for (int i = 0; i < 40; i++) {
        char next[40];
        snprintf(name, sizeof name, "d%d", i);
        snprintf(next, sizeof next, "#/$defs/d%d", i + 1);
        json_object_set_new(names, name,
                            json_pack("{s:[{s:s},{s:s}]}", "allOf", "$ref", next, "$ref", next));
    }
    json_object_set_new(names, "d40", json_pack("{s:s}", "type", "null"));
    refuse_parsed(json_pack("{s:s,s:o}", "$ref", "#/$defs/d0", "$defs", names), "doubled 40 times",
                  LH_ERR_LIMIT, "too many schemas");
}

static void missing_memory_is_an_error(void **state) {
    (void)state;
    json_t *schema = parse(
        "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#/$defs/x\"}, \"b\": "
        "{\"enum\": [1, \"y\"]}, \"c\": {\"minimum\": 3, \"maxLength\": 2, \"pattern\": \"a\"}}, "
        "\"additionalProperties\": {\"type\": \"null\"}, \"$defs\": {\"x\": {\"anyOf\": "
        "[{\"type\": "
        "\"array\"}, {\"const\": {\"k\": 1}}]}}}");
    for (size_t n = 1;; n++) {
        lh_automaton *automaton = NULL;
        failing_malloc_arm(n);
        lh_status status = compile(schema, &automaton, NULL);
        bool failed = failing_malloc_disarm();
        lh_automaton_destroy(automaton);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
    json_decref(schema);
}

static void any_object_is_one(void **state) {
    (void)state;
    lh_grammar *grammar;
    lh_automaton *automaton;
    assert_int_equal(lh_grammar_create(&grammar, NULL), LH_OK);
    lh_grammar_set_root(grammar, lh_json_object_add(grammar));
    assert_int_equal(lh_automaton_create(grammar, 0, &automaton, NULL), LH_OK);
    assert_true(accepts(automaton, "{}"));
    assert_true(accepts(automaton, "{\"a\": [{\"b\": null}], \"c\": -1.5}"));
    assert_false(accepts(automaton, "[]"));
    assert_false(accepts(automaton, "{\"a\": 1,}"));
    lh_automaton_destroy(automaton);
    lh_grammar_destroy(grammar);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_json_s_own),
        cmocka_unit_test(strings_have_json_s_escapes),
        cmocka_unit_test(patterns_are_searched_for),
        cmocka_unit_test(formats_are_followed),
        cmocka_unit_test(lengths_beside_a_format_are_kept),
        cmocka_unit_test(older_drafts_are_read),
        cmocka_unit_test(numbers_keep_to_their_bounds),
        cmocka_unit_test(named_values_are_written_as_they_stand),
        cmocka_unit_test(members_come_in_the_schema_s_order),
        cmocka_unit_test(others_follow_where_they_are_allowed),
        cmocka_unit_test(members_are_counted),
        cmocka_unit_test(elements_are_counted),
        cmocka_unit_test(alternatives_and_parts_combine),
        cmocka_unit_test(references_are_followed_and_may_recur),
        cmocka_unit_test(not_takes_types_away),
        cmocka_unit_test(some_elements_are_counted),
        cmocka_unit_test(names_of_members_are_bound),
        cmocka_unit_test(what_cannot_be_followed_is_refused_by_name),
        cmocka_unit_test(schemas_have_bounds),
        cmocka_unit_test(missing_memory_is_an_error),
        cmocka_unit_test(any_object_is_one),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
