/* Thoughts and answers, told apart for every cut of a text into two pieces, and byte by byte. */
#include "gateway/text/thinking.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const lh_thinking_marks think = {"<think>", "</think>", false};

typedef struct parts {
    lh_text_buffer thought, answer;
} parts;

static void expect(const lh_text_buffer *got, const char *wanted, const char *text, size_t cut) {
    if (got->length != strlen(wanted) || memcmp(got->bytes ? got->bytes : "", wanted, got->length))
        fail_msg("\"%s\" cut at %zu: \"%.*s\" is not \"%s\"", text, cut, (int)got->length,
                 got->bytes ? got->bytes : "", wanted);
}

static void push(lh_thinking_splitter *splitter, const char *text, size_t length, parts *out) {
    assert_int_equal(
        lh_thinking_splitter_push(splitter, text, length, &out->thought, &out->answer, NULL),
        LH_OK);
}

static void finish(lh_thinking_splitter *splitter, parts *out) {
    assert_int_equal(lh_thinking_splitter_finish(splitter, &out->thought, &out->answer, NULL),
                     LH_OK);
    lh_thinking_splitter_reset(splitter);
}

static void reset(parts *out) {
    lh_text_buffer_reset(&out->thought);
    lh_text_buffer_reset(&out->answer);
}

static void check(bool is_open, const char *text, const char *thought, const char *answer) {
    size_t length = strlen(text);
    for (size_t cut = 0; cut <= length + 1; cut++) { /* the last one: byte by byte */
        lh_thinking_splitter splitter;
        parts out = {0};
        lh_thinking_splitter_init(&splitter, &think, is_open);
        for (size_t i = 0; cut > length && i < length; i++)
            push(&splitter, text + i, 1, &out);
        if (cut <= length) {
            push(&splitter, text, cut, &out);
            push(&splitter, text + cut, length - cut, &out);
        }
        finish(&splitter, &out);
        expect(&out.thought, thought, text, cut);
        expect(&out.answer, answer, text, cut);
        reset(&out);
    }
}

static void a_thought_comes_before_the_answer(void **state) {
    (void)state;
    check(false, "<think>why</think>so", "why", "so");
    check(false, "\n <think>\nwhy \n not?\n</think>\n\nso be it\n", "why \n not?", "so be it\n");
    check(false, "<think>\n\n</think>\n\nso", "", "so");
    check(true, "\nwhy</think>\n\nso", "why", "so");
    check(true, "</think>so", "", "so");
}

static void without_a_thought_all_is_the_answer(void **state) {
    (void)state;
    check(false, "so", "", "so");
    check(false, "", "", "");
    check(false, " \n", "", " \n");
    check(false, "\n\nso", "", "\n\nso");
    check(false, "<thin>k", "", "<thin>k");
    check(false, "<think", "", "<think");
    check(false, "so <think>why</think>", "", "so <think>why</think>");
    check(false, "</think>so", "", "</think>so");
}

static void what_looks_like_a_mark_is_text(void **state) {
    (void)state;
    check(true, "a </thin b </think >c</think>d</think>e", "a </thin b </think >c", "d</think>e");
    check(true, "a<</think>b", "a<", "b");
    check(true, "a</</think>b", "a</", "b");
    check(false, "<think><think>a</think>b", "<think>a", "b");
}

static void a_thought_that_does_not_end_is_one(void **state) {
    (void)state;
    check(false, "<think>why", "why", "");
    check(true, "why \n", "why", "");
    check(true, "why</thi", "why</thi", "");
    check(true, " \n", "", "");
}

static void nothing_waits_that_is_certain(void **state) {
    (void)state;
    lh_thinking_splitter splitter;
    parts out = {0};
    lh_thinking_splitter_init(&splitter, &think, true);
    push(&splitter, "why not </th", 12, &out);
    expect(&out.thought, "why not", "why not </th", 12);
    push(&splitter, "e", 1, &out);
    expect(&out.thought, "why not </the", "why not </the", 13);
    push(&splitter, "</think>\n", 9, &out);
    push(&splitter, "s", 1, &out);
    expect(&out.answer, "s", "s", 1);
    finish(&splitter, &out);
    reset(&out);
}

static void without_marks_nothing_is_told_apart(void **state) {
    (void)state;
    lh_thinking_splitter splitter;
    parts out = {0};
    lh_thinking_splitter_init(&splitter, NULL, false);
    push(&splitter, "<think>a</think>b", 17, &out);
    finish(&splitter, &out);
    expect(&out.answer, "<think>a</think>b", "", 0);
    reset(&out);
}

static const lh_thinking_marks *marks_of(const char *text) {
    return lh_thinking_marks_find(text, strlen(text));
}

static void a_template_tells_its_marks(void **state) {
    (void)state;
    assert_null(marks_of(""));
    assert_null(marks_of("{{ messages }} <think>"));
    assert_string_equal(marks_of("{{ m.split('</think>')[-1] }}")->open, "<think>");
    assert_string_equal(marks_of("[THINK]{{ m }}[/THINK]")->close, "[/THINK]");
    assert_string_equal(marks_of("<|START_THINKING|>a<|END_THINKING|>")->open,
                        "<|START_THINKING|>");
    assert_null(marks_of("<|assistant|>{{ m }}<|end|>")); /* Phi */
    assert_true(marks_of("'<|channel|>analysis<|message|>' in m")->are_channels);
}

static void marks_are_known_by_name(void **state) {
    (void)state;
    const lh_thinking_marks *channels = marks_of("<|channel|>analysis<|message|>");
    assert_true(lh_thinking_is_mark(&think, "<think>", 7));
    assert_true(lh_thinking_is_mark(&think, "</think>", 8));
    assert_false(lh_thinking_is_mark(&think, "<|channel|>", 11));
    assert_true(lh_thinking_is_mark(channels, "<|channel|>", 11));
    assert_false(lh_thinking_is_mark(NULL, "<think>", 7));
}

/* channels.h says what is what; here, that they are asked. */
static void channels_are_told_apart(void **state) {
    (void)state;
    lh_thinking_splitter splitter;
    parts out = {0};
    lh_thinking_splitter_init(&splitter, marks_of("<|channel|>analysis<|message|>"), false);
    push(&splitter, "<|channel|>analysis<|message|>why", 33, &out);
    assert_true(lh_thinking_splitter_is_inside(&splitter));
    push(&splitter, "<|end|><|start|>assistant<|channel|>final<|message|>so<", 55, &out);
    assert_false(lh_thinking_splitter_is_inside(&splitter));
    finish(&splitter, &out);
    expect(&out.thought, "why", "", 0);
    expect(&out.answer, "so<", "", 0);
    reset(&out);
}

static void a_prompt_tells_whether_it_ends_inside(void **state) {
    (void)state;
    assert_true(lh_thinking_is_opened(&think, "a<think>", 8));
    assert_true(lh_thinking_is_opened(&think, "a<think>\n", 9));
    assert_false(lh_thinking_is_opened(&think, "a<think>b", 9));
    assert_false(lh_thinking_is_opened(&think, "<think>\n\n</think>", 17));
    assert_false(lh_thinking_is_opened(&think, "hink>", 5));
    assert_false(lh_thinking_is_opened(NULL, "<think>", 7));
    assert_true(lh_thinking_is_open(&think, "<think>ab", 9));
    assert_false(lh_thinking_is_open(&think, "<think>a</think>b", 17));
    assert_true(lh_thinking_is_open(&think, "</think><think>", 15));
    assert_false(lh_thinking_is_open(&think, "", 0));
    assert_false(lh_thinking_is_open(NULL, "<think>", 7));
}

static void without_memory_it_says_so(void **state) {
    (void)state;
    for (size_t nth = 1; nth <= 2; nth++) {
        lh_thinking_splitter splitter;
        parts out = {0};
        lh_thinking_splitter_init(&splitter, &think, true);
        failing_malloc_arm(nth);
        assert_int_equal(
            lh_thinking_splitter_push(&splitter, "why", 3, &out.thought, &out.answer, NULL),
            LH_ERR_NO_MEMORY);
        assert_true(failing_malloc_disarm());
        lh_thinking_splitter_reset(&splitter);
        reset(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thought_comes_before_the_answer),
        cmocka_unit_test(without_a_thought_all_is_the_answer),
        cmocka_unit_test(what_looks_like_a_mark_is_text),
        cmocka_unit_test(a_thought_that_does_not_end_is_one),
        cmocka_unit_test(nothing_waits_that_is_certain),
        cmocka_unit_test(without_marks_nothing_is_told_apart),
        cmocka_unit_test(a_template_tells_its_marks),
        cmocka_unit_test(marks_are_known_by_name),
        cmocka_unit_test(channels_are_told_apart),
        cmocka_unit_test(a_prompt_tells_whether_it_ends_inside),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
