/* A stream cut at every place is the same answer; what is no stream is said. */
#include "gateway/cli/answer_events_json.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct shown {
    char text[256], thoughts[256];
} shown;

static void on_text(void *context, const char *bytes, size_t length, bool is_thought) {
    shown *s = context;
    char *to = is_thought ? s->thoughts : s->text;
    snprintf(to + strlen(to), 256 - strlen(to), "%.*s", (int)length, bytes);
}

/* In two pieces. */
static lh_status feed(lh_answer_events *events, shown *s, const char *stream, size_t cut,
                      lh_error *error) {
    *s = (shown){.text = ""};
    *events = (lh_answer_events){.on_text = on_text, .context = s};
    lh_status status = lh_answer_events_feed(events, stream, cut, error);
    if (status == LH_OK)
        status = lh_answer_events_feed(events, stream + cut, strlen(stream) - cut, error);
    return status == LH_OK ? lh_answer_events_end(events, error) : status;
}

static void an_answer_comes_in_pieces(void **state) {
    (void)state;
    static const char stream[] =
        ": a comment\r\n\r\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"Hm\"}}]}\n\n"
        "data:{\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\r\n\r\n"
        "event: x\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"}},{\"text\":\"!\"}]}\n\n"
        "data: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n";
    for (size_t cut = 0; cut <= strlen(stream); cut++) {
        lh_answer_events events;
        shown s;
        assert_int_equal(feed(&events, &s, stream, cut, NULL), LH_OK);
        assert_string_equal(s.text, "Hello!");
        assert_string_equal(s.thoughts, "Hm");
        assert_true(events.is_whole);
        assert_string_equal(events.fault, "");
        lh_answer_events_reset(&events);
    }
}

static void an_error_is_read_with_or_without_a_stream(void **state) {
    (void)state;
    static const char *const streams[] = {
        "{\"error\":{\"message\":\"no\",\"param\":\"messages\",\"code\":\"unsupported_value\"}}",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
        "data: {\"error\":{\"message\":\"no\",\"param\":null,\"code\":null}}\n\n"};
    for (size_t i = 0; i < 2; i++) {
        lh_answer_events events;
        shown s;
        assert_int_equal(feed(&events, &s, streams[i], 3, NULL), LH_OK);
        assert_string_equal(events.fault, "no");
        assert_int_equal(events.has_no_template, i == 0);
        assert_false(events.is_whole);
        lh_answer_events_reset(&events);
    }
}

static void what_cannot_be_read_is_an_error(void **state) {
    (void)state;
    static const char *const streams[] = {"data: {\"choices\":", "data: nonsense\n", "data: []\n",
                                          "{\"error\""};
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        lh_answer_events events;
        shown s;
        lh_error error;
        assert_int_equal(feed(&events, &s, streams[i], 2, &error), LH_ERR_MALFORMED);
        assert_non_null(strstr(error.message, "cannot be read"));
        lh_answer_events_reset(&events);
    }
    char *line = malloc((1u << 20) + 2);
    memset(line, 'a', (1u << 20) + 1);
    line[(1u << 20) + 1] = '\0';
    lh_answer_events events;
    shown s;
    assert_int_equal(feed(&events, &s, line, 1, NULL), LH_ERR_LIMIT);
    lh_answer_events_reset(&events);
    free(line);
}

static void odd_values_are_no_text(void **state) {
    (void)state;
    static const char stream[] =
        "data: {\"choices\":[{\"delta\":{\"content\":7}},3,{\"text\":null}]}\n"
        "data: {\"choices\":{}}\n\n<html>\n";
    lh_answer_events events;
    shown s;
    assert_int_equal(feed(&events, &s, stream, 9, NULL), LH_OK);
    assert_string_equal(s.text, "");
    assert_false(events.is_whole);
    lh_answer_events_reset(&events);
}

static void memory_may_be_short(void **state) {
    (void)state;
    static const char stream[] = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n";
    bool was_short = true;
    for (unsigned long nth = 1; was_short; nth++) {
        lh_answer_events events;
        shown s;
        failing_malloc_arm(nth);
        lh_status status = feed(&events, &s, stream, 5, NULL);
        was_short = failing_malloc_disarm();
        assert_int_equal(status, was_short ? LH_ERR_NO_MEMORY : LH_OK);
        lh_answer_events_reset(&events);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_comes_in_pieces),
        cmocka_unit_test(an_error_is_read_with_or_without_a_stream),
        cmocka_unit_test(what_cannot_be_read_is_an_error),
        cmocka_unit_test(odd_values_are_no_text),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
