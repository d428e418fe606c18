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

/* What a client's body becomes. */
static void a_client_may_write_what_is_clear(void **state) {
    (void)state;
    static const struct {
        const char *body, *read;
        size_t replaced;
    } rows[] = {
        {"\xef\xbb\xbf{\"a\":1}", "{\"a\": 1}", 0},
        {"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}", 0},
        {"{\"a\":\"x\\u0000y\",\"b\\u0000\":1}", "{\"a\": \"x\\uFFFDy\", \"b\\uFFFD\": 1}", 2},
        {"{\"a\":\"\\ud83c \\udf89 \\ud83c\\udf89 \\ud83c\\ud83c\\udf89\"}",
         "{\"a\": \"\\uFFFD \\uFFFD \\uD83C\\uDF89 \\uFFFD\\uD83C\\uDF89\"}", 3},
        {"{\"a\":\"\xed\xa0\x80\"}", "{\"a\": \"\\uFFFD\"}", 1},
        {"{\"a\":\"\\\\u0000 \\\" \"}", "{\"a\": \"\\\\u0000 \\\" \"}", 0},
        {"{\"a\":9223372036854775808,\"b\":-9223372036854775808}",
         "{\"a\": 9.2233720368547758e18, \"b\": -9223372036854775808}", 0},
        {"{\"a\":[-123456789012345678901234567890,1e999,1E+1000]}",
         "{\"a\": [-1.2345678901234568e29, 9.9999999999999997e199, 9.9999999999999997e199]}", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lh_error error = {0};
        size_t replaced = 99;
        json_t *body =
            lh_json_object_parse_freely(rows[i].body, strlen(rows[i].body), &replaced, &error);
        if (!body)
            fail_msg("%s: %s", rows[i].body, error.message);
        char *read = json_dumps(body, JSON_ENSURE_ASCII);
        assert_string_equal(read, rows[i].read);
        assert_int_equal(replaced, rows[i].replaced);
        free(read);
        json_decref(body);
    }
}

static void of_a_clients_body_the_rest_is_refused_too(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "[]",
                                      "\xef\xbb\xbf",
                                      "{\"a\":\"\xff\"}",
                                      "{\"a\":01}",
                                      "{\"a\":\"\\u00\"}",
                                      "{\"a\":\"\\ud83c\\u",
                                      "{\"a\":\"\\",
                                      "{\"a\":\"\\u\x10\x10\x10\x10\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t replaced;
        lh_error error;
        if (lh_json_object_parse_freely(bad[i], strlen(bad[i]), &replaced, &error))
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(error.status, LH_ERR_MALFORMED);
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
    assert_true(parses_depth(511, '[', ']'));
    assert_false(parses_depth(512, '[', ']'));
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
        cmocka_unit_test(says_that_a_body_is_empty),
        cmocka_unit_test(a_client_may_write_what_is_clear),
        cmocka_unit_test(of_a_clients_body_the_rest_is_refused_too),
        cmocka_unit_test(bounds_the_depth),
        cmocka_unit_test(bounds_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
