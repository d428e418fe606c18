/* Charts: from an answer of GET /trace, and from bytes that are none. */
#include "gateway/trace/trace_chart_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Two chunks over two workers, 100 ms; then a decode step until 130 ms. A name that would move the
 * cursor. */
static const char trace[] =
    "{\"otherData\": {\"id\": \"cmpl-1\\u001b[2J\", \"over\": true, \"prompt_tokens\": 8, "
    "\"tokens\": 2, \"steps_dropped\": 0, \"clock_error_ms\": {\"a\": 0.25, \"b\": null}, "
    "\"timing\": {\"time_to_first_token_ms\": 100, \"prefill_ms\": 98, \"compute_ms\": 80, "
    "\"wire_ms\": 10, \"wait_ms\": 8, \"bound_ms\": 49, \"distance\": 2, \"sum_ms\": 120, "
    "\"chunk_count\": 2, \"complete\": true, \"plan\": \"2x4\", \"predicted_ms\": 90.5, "
    "\"remarks\": [\"b took 2.1 times\\u001b\", 7], "
    "\"decode\": {\"tokens\": 1, \"token_ms\": 30, \"bound_ms\": 20, \"distance\": "
    "1.5}}},\"traceEvents\": [{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 2, \"tid\": 2, "
    "\"args\": {\"name\": \"wire to b\"}},{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 2, "
    "\"tid\": 1, \"args\": {\"name\": \"compute\"}},{\"ph\": \"M\", \"name\": \"process_name\", "
    "\"pid\": 2, \"tid\": 1, \"args\": {\"name\": \"worker a\"}},{\"ph\": \"M\", \"name\": "
    "\"thread_name\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": \"request\"}},{\"ph\": \"M\", "
    "\"name\": \"process_name\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": "
    "\"gateway\"}},{\"ph\": \"X\", \"cat\": \"request\", \"name\": \"request\", \"pid\": 1, "
    "\"tid\": 1, \"ts\": 0, \"dur\": 130000, \"args\": {}},{\"ph\": \"X\", \"cat\": \"prefill\", "
    "\"name\": \"prefill\", \"pid\": 1, \"tid\": 1, \"ts\": 0, \"dur\": 100000, \"args\": "
    "{}},{\"ph\": \"X\", \"cat\": \"finish\", \"name\": \"\", \"pid\": 2, \"tid\": 1, \"ts\": 0, "
    "\"dur\": 50000, \"args\": {\"number\": 1, \"prefill\": true}},{\"ph\": \"X\", \"cat\": "
    "\"emit\", \"name\": \"\", \"pid\": 2, \"tid\": 1, \"ts\": 40000, \"dur\": 10000, \"args\": "
    "{\"number\": 1, \"prefill\": true}},{\"ph\": \"X\", \"cat\": \"finish\", \"name\": \"\", "
    "\"pid\": 2, \"tid\": 1, \"ts\": 50000, \"dur\": 25000, \"args\": {\"number\": 2, \"prefill\": "
    "true}},{\"ph\": \"X\", \"cat\": \"shard\", \"name\": \"\", \"pid\": 2, \"tid\": 2, \"ts\": "
    "50000, \"dur\": 300, \"args\": {\"number\": 1, \"prefill\": true}},{\"ph\": \"X\", \"cat\": "
    "\"nobody knows\", \"pid\": 2, \"tid\": 2, \"ts\": 1, \"dur\": 1},{\"ph\": \"X\", \"cat\": "
    "\"shard\", \"pid\": 99, \"tid\": 2, \"ts\": 1, \"dur\": 1},{\"ph\": \"b\", \"cat\": \"step\", "
    "\"id\": \"1.1\", \"pid\": 1, \"tid\": 1, \"ts\": 1}, 7, null, []]}";

static char *render(const lh_chart_style *style, char *text, size_t bytes) {
    lh_chart chart;
    lh_text_buffer out = {0};
    assert_int_equal(lh_chart_parse(trace, sizeof trace - 1, &chart, NULL), LH_OK);
    assert_int_equal(lh_chart_render(&chart, style, &out), LH_OK);
    assert_true(out.length < bytes);
    snprintf(text, bytes, "%.*s", (int)out.length, out.bytes);
    lh_chart_reset(&chart);
    lh_text_buffer_reset(&out);
    return text;
}

static void expect_line(const char *text, const char *line) {
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(text, whole))
        fail_msg("no line '%s' in\n%s", line, text);
}

static void test_the_prompt(void **state) {
    (void)state;
    char text[4096];
    const lh_chart_style style = {.width = 65};
    render(&style, text, sizeof text);
    assert_int_equal(strncmp(text, "cmpl-1?[2J: 8 prompt tokens in 2 chunks, 2 tokens\n", 50), 0);
    expect_line(text, "     ms  |0                       |50                        busy");
    expect_line(text, "gateway  pppppppppppppppppppppppppppppppppppppppppppppppppp 100 %");
    expect_line(text, "      a  11111111111111111111111112222222222222............  75 %");
    expect_line(text, "    > b  .........................'........................   0 %");
    expect_line(text, "first token after 100.0 ms; the prompt took 98.0 = 80.0 compute + 10.0 wire "
                      "alone + 8.0 wait");
    expect_line(text,
                "bound 49.0 ms, so 2.00 times the bound; one after the other it would be 120.0 ms");
    expect_line(text, "plan 2x4, predicted to take 90.5 ms");
    expect_line(text, "b took 2.1 times?");
    expect_line(text, "1 further tokens: 30.0 ms each, bound 20.0 ms, so 1.50 times the bound");
    expect_line(text, "clocks are aligned within 0.25 ms");
    for (const char *at = text; *at; at++)
        assert_true(*at == '\n' || (*at >= ' ' && *at <= '~'));
}

static void test_the_whole_in_colours(void **state) {
    (void)state;
    char text[8192];
    const lh_chart_style style = {.width = 10, .whole = true, .colours = true}; /* too narrow: 60 */
    render(&style, text, sizeof text);
    assert_non_null(strstr(text, "\033[30;46m11111111111111111\033[0m"));
    assert_null(strstr(text, "\033[2J"));
    assert_non_null(strstr(text, "  77 %\n")); /* the phases of the gateway, of 130 ms */
}

static void test_long_names_are_cut(void **state) {
    (void)state;
    lh_chart_row row = {.label = "0123456789012345678901234567890123456789"};
    const lh_chart chart = {.end_us = 1000, .rows = &row, .row_count = 1};
    const lh_chart_style style = {.width = 60};
    lh_text_buffer out = {0};
    assert_int_equal(lh_chart_render(&chart, &style, &out), LH_OK);
    assert_int_equal(lh_text_buffer_append(&out, "", 1, NULL), LH_OK);
    expect_line(out.bytes, "012345678901234567890123456789  ......................   0 %");
    lh_text_buffer_reset(&out);
}

static void test_what_is_no_trace(void **state) {
    (void)state;
    static const char *const others[] = {"",
                                         "{}",
                                         "[]",
                                         "null",
                                         "<html>",
                                         "{\"traceEvents\": {}, \"otherData\": {}}",
                                         "{\"traceEvents\": [], \"otherData\": 7}"};
    lh_chart chart;
    lh_error error;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(lh_chart_parse(others[i], strlen(others[i]), &chart, &error),
                         LH_ERR_MALFORMED);
        assert_true(error.message[0] != '\0');
    }
    for (size_t cut = 0; cut < sizeof trace - 1; cut += 7)
        assert_int_equal(lh_chart_parse(trace, cut, &chart, NULL), LH_ERR_MALFORMED);
}

/* Numbers that no gateway of ours would tell. */
static void test_wild_numbers(void **state) {
    (void)state;
    static const char wild[] =
        "{\"otherData\": {\"timing\": {\"time_to_first_token_ms\": -1e300, \"chunk_count\": -5, "
        "\"decode\": []}}, \"traceEvents\": [{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": "
        "1e300, \"tid\": -1e300, \"args\": []},{\"ph\": \"X\", \"cat\": \"shard\", \"pid\": 0, "
        "\"tid\": 0, \"ts\": -1e14, \"dur\": 9e14, \"args\": {\"number\": 4294967294}},{\"ph\": "
        "\"X\", \"cat\": \"shard\", \"pid\": 0, \"tid\": 0, \"ts\": 9e14, \"dur\": -9e14, "
        "\"args\": {\"number\": 1}}]}";
    lh_chart chart;
    lh_text_buffer out = {0};
    const lh_chart_style style = {.width = 1000, .whole = true};
    assert_int_equal(lh_chart_parse(wild, sizeof wild - 1, &chart, NULL), LH_OK);
    assert_int_equal(lh_chart_render(&chart, &style, &out), LH_OK);
    lh_chart_reset(&chart);
    lh_text_buffer_reset(&out);
    static const char empty[] = "{\"otherData\": {}, \"traceEvents\": []}";
    assert_int_equal(lh_chart_parse(empty, sizeof empty - 1, &chart, NULL), LH_OK);
    assert_int_equal(lh_chart_render(&chart, &style, &out), LH_OK);
    assert_non_null(memmem(out.bytes, out.length, "nothing has happened yet", 24));
    lh_chart_reset(&chart);
    lh_text_buffer_reset(&out);
}

static void test_errors(void **state) {
    (void)state;
    char text[32];
    static const char error[] =
        "{\"error\": {\"message\": \"no\\u0007 such \\u00e9 thing, and a text that is longer\"}}";
    lh_chart_parse_error(error, sizeof error - 1, text, sizeof text);
    assert_string_equal(text, "no? such ?? thing, and a text t");
    lh_chart_parse_error("<html>", 6, text, sizeof text);
    assert_string_equal(text, "");
    lh_chart_parse_error(NULL, 0, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_prompt),         cmocka_unit_test(test_the_whole_in_colours),
        cmocka_unit_test(test_long_names_are_cut), cmocka_unit_test(test_what_is_no_trace),
        cmocka_unit_test(test_wild_numbers),       cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
