/* Answers: codes, JSON round trips, and bodies that no worker of ours wrote. */
#include "common/protocol/step_answer.h"

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
    assert_int_equal(lh_step_answer_http_status(LH_OK), 200);
    assert_int_equal(lh_step_answer_http_status(LH_ERR_CORRUPT), 400);
    assert_int_equal(lh_step_answer_http_status(LH_ERR_STALE), 409);
    assert_int_equal(lh_step_answer_http_status(LH_ERR_BUSY), 429);
    assert_int_equal(lh_step_answer_http_status(LH_ERR_NO_MEMORY), 500);
    lh_step_answer answer;
    lh_step_answer_parse(200, "{}", 2, &answer);
    assert_int_equal(answer.status, LH_OK);
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
    return cmocka_run_group_tests(tests, NULL, NULL);
}
