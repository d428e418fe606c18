/* Errors as clients read them: four keys, the right status and type, nothing of the inside. */
#include "gateway/openai/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *error_object(const lh_openai_error *error) {
    lh_http_reply reply = {0};
    lh_openai_error_reply(error, &reply);
    json_t *whole = json_loadb(reply.body, reply.body_bytes, 0, NULL);
    free(reply.body);
    assert_non_null(whole);
    json_t *inner = json_incref(json_object_get(whole, "error"));
    json_decref(whole);
    assert_int_equal(json_object_size(inner), 4);
    assert_true(json_is_string(json_object_get(inner, "message")));
    assert_true(json_is_string(json_object_get(inner, "type")));
    return inner;
}

static void has_four_keys(void **state) {
    (void)state;
    lh_openai_error error;
    assert_false(lh_openai_refuse(&error, 400, "a.b", "invalid_value", "'%s' is \"%d\"", "a.b", 5));
    json_t *object = error_object(&error);
    assert_string_equal(json_string_value(json_object_get(object, "message")), "'a.b' is \"5\"");
    assert_string_equal(json_string_value(json_object_get(object, "param")), "a.b");
    assert_string_equal(json_string_value(json_object_get(object, "code")), "invalid_value");
    json_decref(object);
    lh_openai_refuse(&error, 400, NULL, NULL, "x");
    object = error_object(&error);
    assert_true(json_is_null(json_object_get(object, "param")));
    assert_true(json_is_null(json_object_get(object, "code")));
    json_decref(object);
}

static void cuts_long_messages_into_valid_json(void **state) {
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        char text[1200] = "";
        memset(text, 'a', shift);
        while (strlen(text) < 1100)
            strcat(text, "\xf0\x9f\x8e\x89");
        lh_openai_error error;
        lh_openai_refuse(&error, 400, text, NULL, "%s", text);
        json_decref(error_object(&error));
    }
}

static void knows_what_the_engine_says(void **state) {
    (void)state;
    static const struct {
        lh_status cause;
        unsigned status;
        const char *type;
    } table[] = {
        {LH_ERR_BUSY, 429, "rate_limit_error"},  {LH_ERR_UNAVAILABLE, 503, "unavailable_error"},
        {LH_ERR_TIMEOUT, 504, "server_error"},   {LH_ERR_LIMIT, 400, "invalid_request_error"},
        {LH_ERR_NO_MEMORY, 500, "server_error"}, {LH_ERR_INTERNAL, 500, "server_error"},
        {LH_ERR_IO, 500, "server_error"},        {LH_ERR_CORRUPT, 500, "server_error"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        lh_openai_error error;
        lh_openai_refuse_cause(&error, &(lh_error){table[i].cause, "at 10.0.0.1:99"});
        assert_int_equal(error.status, table[i].status);
        assert_string_equal(error.type, table[i].type);
        assert_int_equal(strstr(error.message, "10.0.0.1") != NULL, table[i].status == 400);
        lh_http_reply reply = {0};
        lh_openai_error_reply(&error, &reply);
        bool retry_after = false, futile = false;
        for (size_t k = 0; k < reply.header_count; k++) {
            retry_after |= strcmp(reply.headers[k].name, "Retry-After") == 0 &&
                           atoi(reply.headers[k].value) >= 1 && atoi(reply.headers[k].value) <= 120;
            futile |= strcmp(reply.headers[k].name, "x-should-retry") == 0;
        }
        assert_int_equal(retry_after, error.status == 429 || error.status == 503);
        assert_int_equal(futile, table[i].cause == LH_ERR_INTERNAL);
        free(reply.body);
    }
}

static void header_values_stay_on_their_line(void **state) {
    (void)state;
    lh_http_reply reply = {0};
    lh_http_reply_add(&reply, "X", "a\r\nSet-Cookie: %s", "b\n\x1f ~\x7f");
    assert_string_equal(reply.headers[0].value, "a??Set-Cookie: b?? ~?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_four_keys),
        cmocka_unit_test(cuts_long_messages_into_valid_json),
        cmocka_unit_test(knows_what_the_engine_says),
        cmocka_unit_test(header_values_stay_on_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
