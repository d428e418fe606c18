/* What the API is told of a conversation. */
#include "gateway/cli/transcript_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(char *body, const char *wanted) {
    assert_non_null(body);
    assert_string_equal(body, wanted);
    free(body);
}

static void a_conversation_grows_and_is_forgotten(void **state) {
    (void)state;
    const lh_answer_style style = {.system = "", .temperature = "0.5", .max_tokens = 0};
    lh_transcript *t;
    assert_int_equal(lh_transcript_create(&style, &t, NULL), LH_OK);
    lh_transcript_add(t, "user", "Hi\xff", 3, NULL);
    lh_transcript_add(t, "assistant", "\"Yes\"", 5, NULL);
    expect(lh_transcript_render_chat(t),
           "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\xef\xbf\xbd\"},{\"role\":"
           "\"assistant\",\"content\":\"\\\"Yes\\\"\"}],\"stream\":true,\"temperature\":0.5}");
    lh_transcript_set_system(t, "Be brief.", NULL);
    lh_transcript_take_back(t);
    lh_transcript_take_back(t);
    lh_transcript_add(t, "user", "Go", 2, NULL);
    for (int i = 0; i < 2; i++) /* it is not written into what was said */
        expect(lh_transcript_render_chat(t),
               "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\","
               "\"content\":\"Go\"}],\"stream\":true,\"temperature\":0.5}");
    lh_transcript_clear(t);
    lh_transcript_set_system(t, "", NULL);
    expect(lh_transcript_render_chat(t), "{\"messages\":[],\"stream\":true,\"temperature\":0.5}");
    lh_transcript_destroy(t);
}

static void a_completion_goes_on_from_the_last(void **state) {
    (void)state;
    const lh_answer_style style = {.system = "ignored", .temperature = "0", .max_tokens = 9};
    lh_transcript *t;
    assert_int_equal(lh_transcript_create(&style, &t, NULL), LH_OK);
    lh_transcript_add(t, "user", "a", 1, NULL);
    lh_transcript_add(t, "user", "b", 1, NULL);
    expect(lh_transcript_render_completion(t),
           "{\"prompt\":\"b\",\"max_tokens\":9,\"stream\":true,\"temperature\":0.0}");
    lh_transcript_destroy(t);
}

static void a_style_is_checked(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "warm", "-1", "2.5", "1x", "nan"};
    lh_error error;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const lh_answer_style style = {.system = "", .temperature = wrong[i]};
        assert_int_equal(lh_answer_style_check(&style, &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "--temperature"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_grows_and_is_forgotten),
        cmocka_unit_test(a_completion_goes_on_from_the_last),
        cmocka_unit_test(a_style_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
