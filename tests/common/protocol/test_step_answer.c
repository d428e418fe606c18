/* Answers: codes, JSON round trips, and bodies that no worker of ours wrote. */
#include "common/protocol/step_answer.h"
#include "tests/support/failing_malloc.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_round_trip(void **state) {
    (void)state;
    char *text = lh_step_answer_render("worker-b", LH_ERR_STALE, "epoch 3 is over: \"4\" now\n");
    assert_non_null(text);
    lh_step_answer answer;
    lh_step_answer_parse(502, text, strlen(text), &answer);
    assert_int_equal(answer.status, LH_ERR_STALE);
    assert_string_equal(answer.worker, "worker-b");
    assert_string_equal(answer.message, "epoch 3 is over: \"4\" now\n");
    free(text);
}

static void test_codes(void **state) {
    (void)state;
    static const struct {
        lh_status status;
        int http;
    } codes[] = {{LH_OK, 200},
                 {LH_ERR_INVALID, 400},
                 {LH_ERR_MALFORMED, 400},
                 {LH_ERR_UNSUPPORTED, 400},
                 {LH_ERR_CORRUPT, 400},
                 {LH_ERR_LIMIT, 400},
                 {LH_ERR_NOT_FOUND, 404},
                 {LH_ERR_STALE, 409},
                 {LH_ERR_BUSY, 429},
                 {LH_ERR_UNAVAILABLE, 503},
                 {LH_ERR_NO_MEMORY, 500},
                 {LH_ERR_INTERNAL, 500}};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        assert_int_equal(lh_step_answer_http_status(codes[i].status), codes[i].http);
    /* where somebody between answers, whose words are none of ours */
    static const struct {
        int http;
        lh_status status;
    } foreign[] = {{200, LH_OK},
                   {399, LH_ERR_INTERNAL},
                   {400, LH_ERR_MALFORMED},
                   {404, LH_ERR_NOT_FOUND},
                   {409, LH_ERR_STALE},
                   {429, LH_ERR_BUSY},
                   {499, LH_ERR_MALFORMED},
                   {500, LH_ERR_INTERNAL},
                   {502, LH_ERR_UNAVAILABLE},
                   {503, LH_ERR_UNAVAILABLE},
                   {504, LH_ERR_TIMEOUT}};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        lh_step_answer answer;
        lh_step_answer_parse(foreign[i].http, "{}", 2, &answer);
        assert_int_equal(answer.status, foreign[i].status);
    }
}

static void expect_name(const char *body, bool is_named, const char *worker) {
    lh_step_answer answer;
    lh_step_answer_parse(200, body, strlen(body), &answer);
    assert_int_equal(answer.status, LH_OK);
    assert_int_equal(answer.is_named, is_named);
    assert_string_equal(answer.worker, worker);
}

static void test_who_has_read_a_step_of_a_trial(void **state) {
    (void)state;
    expect_name("{\"worker\": \"attic\"}", true, "attic");
    expect_name("{\"worker\": \"\", \"more\": 1}", true, "");
    const char *others[] = {"",
                            "{}",
                            "{ }",
                            "[\"worker\"]",
                            "{\"worker\":1}",
                            "<html></html>",
                            "{\"worker\":\"not a name\"}",
                            "{\"worker\":\"attic\""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        expect_name(others[i], false, "");
}

static void test_foreign_bodies(void **state) {
    (void)state;
    const char *bodies[] = {
        "",
        "<html>Bad Gateway</html>",
        "{",
        "[]",
        "{\"error\":null}",
        "{\"error\":{\"worker\":1,\"status\":\"LH_ERR_IO\",\"message\":\"m\"}}",
        "{\"error\":{\"worker\":\"w\",\"status\":\"LH_OK\",\"message\":\"m\"}}",
        "{\"error\":{\"worker\":\"w\",\"status\":\"LH_ERR_NEW\",\"message\":\"m\"}}"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        lh_step_answer answer;
        lh_step_answer_parse(502, bodies[i], strlen(bodies[i]), &answer);
        assert_int_equal(answer.status, LH_ERR_UNAVAILABLE);
        assert_true(answer.message[0] != '\0');
    }
    char name[300] = "{\"error\":{\"worker\":\"", *end = name + strlen(name);
    memset(end, 'a', 200);
    strcpy(end + 200, "\",\"status\":\"LH_ERR_IO\",\"message\":\"m\"}}");
    lh_step_answer answer;
    lh_step_answer_parse(400, name, strlen(name), &answer);
    assert_int_equal(answer.status, LH_ERR_IO);
    assert_int_equal(strlen(answer.worker), LH_WORKER_NAME_BYTES - 1);
}

static void test_text_that_is_not_utf8_still_gives_json(void **state) {
    (void)state;
    char *text = lh_step_answer_render("w", LH_ERR_INVALID, "it said \xff");
    assert_non_null(text);
    lh_step_answer answer;
    lh_step_answer_parse(400, text, strlen(text), &answer);
    assert_int_equal(answer.status, LH_ERR_INVALID);
    assert_string_equal(answer.message, "it said \xef\xbf\xbd");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_who_has_read_a_step_of_a_trial),
        cmocka_unit_test(test_foreign_bodies),
        cmocka_unit_test(test_text_that_is_not_utf8_still_gives_json),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
