/* Bodies that are refused before or by the JSON parser. */
#include "common/json/json_object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool parses(const char *bytes, size_t length) {
    lh_error error = {0};
    json_t *body = lh_json_object_parse(bytes, length, &error);
    if (!body) {
        assert_true(error.status == LH_ERR_MALFORMED || error.status == LH_ERR_LIMIT);
        assert_true(strlen(error.message) > 10);
    }
    json_decref(body);
    return body;
}

static void takes_objects(void **state) {
    (void)state;
    static const char *const good[] = {
        "{}", " {\"a\": [1, 2.5, \"x\", null, true]} ", "{\"\\u00e9\":\"\\ud83c\\udf89\"}",
        "{\"a\":\"[[[[{{{{\\\"]]\"}", "{\"a\":9223372036854775807,\"b\":-9223372036854775808}"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(parses(good[i], strlen(good[i])));
}

static void refuses_all_else(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "}",
                                      "[]",
                                      "null",
                                      "1",
                                      "\"a\"",
                                      "{}{}",
                                      "{} x",
                                      "{\"a\":1,}",
                                      "{'a':1}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":\"\xff\"}",
                                      "{\"a\":\"\xed\xa0\x80\"}",
                                      "{\"a\":\"\\ud800\"}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{\"a\\u0000\":1}",
                                      "{\"a\":NaN}",
                                      "{\"a\":Infinity}",
                                      "{\"a\":1e999}",
                                      "{\"a\":01}",
                                      "{\"a\":+1}",
                                      "{\"a\":.5}",
                                      "{\"a\":9223372036854775808}",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":\"",
                                      "{\"a\":\"\\",
                                      "\xef\xbb\xbf{}",
                                      "//x\n{}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parses(bad[i], strlen(bad[i])))
            fail_msg("taken: %s", bad[i]);
    assert_false(parses("{\"a\":1}\0", 8));
}

/* What JSON allows and jansson does not is said of the field, in words of ours. */
static void names_the_field_of_a_value_that_is_not_taken(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"{\"a\":1,\"seed\":9223372036854775808}", "seed", "'seed' is a number beyond 64 bits."},
        {"{\"a\":[1,{\"b\":[2,-1e999 ]}]}", "a[1].b[1]", "'a[1].b[1]' is a number beyond 64 bits."},
        {"{\"m\":[{\"x\":{}},{\"y\":0,\"content\":\"a\\u0000\"}]}", "m[1].content",
         "'m[1].content' holds the character \\u0000, which no text may have here."},
        {"{\"a\\u0000\":1}", "",
         "The body holds the character \\u0000, which no text may have here."}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char field[LH_JSON_FIELD_BYTES];
        lh_error error;
        assert_null(lh_json_object_parse_named(rows[i][0], strlen(rows[i][0]), field, &error));
        assert_int_equal(error.status, LH_ERR_MALFORMED);
        assert_string_equal(field, rows[i][1]);
        assert_string_equal(error.message, rows[i][2]);
    }
}

/* jansson knows neither line nor column of what is not there. */
static void says_that_a_body_is_empty(void **state) {
    (void)state;
    lh_error error;
    assert_null(lh_json_object_parse("", 0, &error));
    assert_int_equal(error.status, LH_ERR_MALFORMED);
    assert_string_equal(error.message, "The body is empty, where a JSON object must be.");
}

static bool parses_depth(size_t depth, char open, char close) {
    size_t length = 5 + 2 * depth + 1;
    char *text = malloc(length);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, open, depth);
    memset(text + 5 + depth, close, depth);
    text[length - 1] = '}';
    bool parsed = parses(text, length);
    free(text);
    return parsed;
}

static void bounds_the_depth(void **state) {
    (void)state;
    assert_true(parses_depth(63, '[', ']'));
    assert_false(parses_depth(64, '[', ']'));
    assert_false(parses_depth(2000000, '[', '['));
    assert_false(parses_depth(2000000, '{', '{'));
}

/* A list of `count` values, each of which is `value`. */
static bool parses_list(const char *value, size_t count) {
    size_t size = strlen(value), length = 6 + (size + 1) * count + 1;
    char *text = malloc(length);
    memcpy(text, "{\"a\":[", 6);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + 6 + (size + 1) * i, value, size);
        text[6 + (size + 1) * i + size] = ',';
    }
    memcpy(text + length - 2, "]}", 2);
    bool parsed = parses(text, length);
    free(text);
    return parsed;
}

static void bounds_the_memory(void **state) {
    (void)state;
    assert_true(parses_list("1", 2));
    assert_true(parses_list("100000", 1000000));
    assert_false(parses_list("1", 1250000));
    assert_true(parses_list("{}", 200000));
    assert_false(parses_list("{}", 500000)); /* 1.5 MB */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_objects),
        cmocka_unit_test(refuses_all_else),
        cmocka_unit_test(names_the_field_of_a_value_that_is_not_taken),
        cmocka_unit_test(says_that_a_body_is_empty),
        cmocka_unit_test(bounds_the_depth),
        cmocka_unit_test(bounds_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
