/* Thoughts and answers of messages with channels, for every cut of a text into two pieces, and byte
 * by byte. */
#include "gateway/text/channels.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ANALYSIS "<|channel|>analysis<|message|>"
#define FINAL    "<|channel|>final<|message|>"
#define NEXT     "<|end|><|start|>assistant"

typedef struct parts {
    lh_text_buffer thought, answer;
} parts;

static void expect(const lh_text_buffer *got, const char *wanted, const char *text, size_t cut) {
    if (got->length != strlen(wanted) || memcmp(got->bytes ? got->bytes : "", wanted, got->length))
        fail_msg("\"%s\" cut at %zu: \"%.*s\" is not \"%s\"", text, cut, (int)got->length,
                 got->bytes ? got->bytes : "", wanted);
}

static void push(lh_channel_splitter *splitter, const char *text, size_t length, parts *out) {
    assert_int_equal(
        lh_channel_splitter_push(splitter, text, length, &out->thought, &out->answer, NULL), LH_OK);
}

static void finish(lh_channel_splitter *splitter, parts *out) {
    assert_int_equal(lh_channel_splitter_finish(splitter, &out->thought, &out->answer, NULL),
                     LH_OK);
    lh_channel_splitter_reset(splitter);
}

static void reset(parts *out) {
    lh_text_buffer_reset(&out->thought);
    lh_text_buffer_reset(&out->answer);
}

static void check(bool is_open, const char *text, const char *thought, const char *answer) {
    size_t length = strlen(text);
    for (size_t cut = 0; cut <= length + 1; cut++) { /* the last one: byte by byte */
        lh_channel_splitter splitter;
        parts out = {0};
        lh_channel_splitter_init(&splitter, is_open);
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

static void what_is_analysis_is_thought(void **state) {
    (void)state;
    check(false, ANALYSIS "why" NEXT FINAL "so", "why", "so");
    check(false, ANALYSIS "why?\n" NEXT FINAL " so\n<|return|>", "why?\n", " so\n");
    check(false, ANALYSIS "why", "why", "");
    check(false, FINAL "so", "", "so");
    check(false, "<|start|>assistant" ANALYSIS "why" NEXT FINAL "so", "why", "so");
    check(true, "why" NEXT FINAL "so", "why", "so");
    check(false, ANALYSIS "why<|start|>assistant" FINAL "so", "why", "so");
}

static void messages_of_a_kind_stand_apart(void **state) {
    (void)state;
    check(false, ANALYSIS "why" NEXT ANALYSIS "how" NEXT FINAL "so", "why\n\nhow", "so");
    check(false, "<|channel|>commentary<|message|>First" NEXT ANALYSIS "why" NEXT FINAL "so", "why",
          "First\n\nso");
    check(false, ANALYSIS NEXT FINAL "so", "", "so");
}

/* Their headers say whom they are for. */
static void calls_keep_their_headers(void **state) {
    (void)state;
    check(false,
          ANALYSIS "why" NEXT
                   "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
          "why",
          "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}");
    check(false, " to=functions.f<|channel|>commentary json<|message|>{}", "",
          " to=functions.f<|channel|>commentary json<|message|>{}");
}

static void without_channels_all_is_the_answer(void **state) {
    (void)state;
    check(false, "so", "", "so");
    check(false, "", "", "");
    check(false, "<|chan", "", "<|chan");
    check(false, "<|channels", "", "<|channels");
    check(false, "a <b> c", "", "a <b> c");
    check(false, "goes on<|end|>", "", "goes on");
}

static void what_looks_like_a_mark_is_text(void **state) {
    (void)state;
    check(false, FINAL "a <|end| b <| c <|", "", "a <|end| b <| c <|");
    check(false, FINAL "a<<|end|>", "", "a<");
    check(false, FINAL "a<|message|>b<|constrain|>c", "", "abc");
}

static void a_header_without_a_message_is_no_text(void **state) {
    (void)state;
    check(false, ANALYSIS "why" NEXT "<|channel|>fin", "why", "");
    check(false, "<|channel|>", "", "");
}

/* Something is wrong with the model; its text is not lost, and memory is bounded. */
static void a_long_header_is_the_answer(void **state) {
    (void)state;
    char text[2048] = "<|channel|>";
    memset(text + 11, 'a', sizeof text - 12);
    lh_channel_splitter splitter;
    parts out = {0};
    lh_channel_splitter_init(&splitter, false);
    for (size_t i = 0; text[i]; i++)
        push(&splitter, text + i, 1, &out);
    assert_true(splitter.held.length == 0);
    finish(&splitter, &out);
    expect(&out.answer, text, "a long header", 0);
    reset(&out);
}

static void marks_are_known_by_name(void **state) {
    (void)state;
    assert_true(lh_channels_is_mark("<|channel|>", 11) && lh_channels_is_mark("<|end|>", 7));
    assert_false(lh_channels_is_mark("<|end|", 6) || lh_channels_is_mark("", 0) ||
                 lh_channels_is_mark("final", 5));
}

static void without_memory_it_says_so(void **state) {
    (void)state;
    for (size_t nth = 1; nth <= 2; nth++) {
        lh_channel_splitter splitter;
        parts out = {0};
        lh_channel_splitter_init(&splitter, true);
        failing_malloc_arm(nth);
        assert_int_equal(
            lh_channel_splitter_push(&splitter, "why", 3, &out.thought, &out.answer, NULL),
            LH_ERR_NO_MEMORY);
        assert_true(failing_malloc_disarm());
        lh_channel_splitter_reset(&splitter);
        reset(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_analysis_is_thought),
        cmocka_unit_test(messages_of_a_kind_stand_apart),
        cmocka_unit_test(calls_keep_their_headers),
        cmocka_unit_test(without_channels_all_is_the_answer),
        cmocka_unit_test(what_looks_like_a_mark_is_text),
        cmocka_unit_test(a_header_without_a_message_is_no_text),
        cmocka_unit_test(a_long_header_is_the_answer),
        cmocka_unit_test(marks_are_known_by_name),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
