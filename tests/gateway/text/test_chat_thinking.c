/* Answers and their thoughts; that Jinja renders the same, test_chat_template says. */
#include "gateway/text/chat_thinking.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect_text(lh_text got, const char *wanted) {
    assert_int_equal(got.length, strlen(wanted));
    assert_memory_equal(got.bytes, wanted, got.length);
}

static void takes_answers_apart(void **state) {
    (void)state;
    static const struct {
        const char *content, *thought, *answer;
    } cases[] = {
        {"", "", ""},
        {"\nplain\n", "", "\nplain\n"},
        {"<think>\nSo.\n</think>\n\nYes\n", "So.", "Yes\n"},
        {"<think>a</think>", "a", ""},
        {"</think>\n\n\nb", "", "b"},
        {"<think>never ends", "", "<think>never ends"},
        {"x<think>\n\na\n\n</think>b", "a", "b"},
        {"<think>a<think>b</think>c</think>d", "b", "d"},
        {"a</think>b<think>c", "a", "b<think>c"},
        {"\n\n</think>", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_chat_thinking said =
            lh_chat_thinking_split((lh_text){cases[i].content, strlen(cases[i].content)});
        expect_text(said.thought, cases[i].thought);
        expect_text(said.answer, cases[i].answer);
    }
    expect_text(lh_chat_thinking_strip((lh_text){"\n\n a\n", 5}), " a\n");
    expect_text(lh_chat_thinking_strip((lh_text){"\n", 1}), "");
}

static lh_chat_message message(const char *role, const char *content) {
    return (lh_chat_message){role, content, strlen(content)};
}

static void finds_the_last_question(void **state) {
    (void)state;
    const lh_chat_message messages[] = {
        message("system", "Rules"),
        message("user", "One"),
        /* no response without its end */
        message("assistant", "Two"),
        message("user", "<tool_response>"),
        message("assistant", "Three"),
        message("user", "<tool_response>4</tool_response>"),
        message("tool", "5"),
    };
    assert_int_equal(lh_chat_thinking_last_query(messages, 7), 3);
    assert_int_equal(lh_chat_thinking_last_query(messages, 3), 1);
    assert_int_equal(lh_chat_thinking_last_query(messages, 1), 0); /* none: the last message */
    assert_int_equal(lh_chat_thinking_last_query(messages + 4, 3), 2);
    const lh_chat_message overlap = message("user", "</tool_response>");
    assert_int_equal(lh_chat_thinking_last_query(&overlap, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_answers_apart),
        cmocka_unit_test(finds_the_last_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
