/* Calls and text, told apart for every cut of an answer into two pieces, and byte by byte. */
#include "gateway/text/tools/tool_call_parser.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_tool_format *of(const char *sign) {
    return lh_tool_format_find(sign, strlen(sign));
}

#define HERMES      of("<tool_call>")
#define MISTRAL     of("[TOOL_CALLS] tool_calls")
#define MISTRAL_11  of("[TOOL_CALLS] [ARGS]")
#define GPT_OSS     of("<|channel|> to=functions.")
#define GRANITE     of("<|tool_call|> tools")
#define LLAMA       of("<|start_header_id|> \"parameters\": ")
#define DEEPSEEK    of("<｜tool▁calls▁begin｜> ```json")
#define QWEN_CODER  of("<tool_call> <function=f> <parameter=a>")
#define DEEPSEEK_31 of("<｜tool▁calls▁begin｜><｜tool▁sep｜>")

/* The text, then each call as "index name(arguments)". */
typedef struct outcome {
    lh_text_buffer text;
    char calls[1024], ids[8][LH_RANDOM_ID_BYTES];
    uint32_t count;
    bool is_open; /* a call has begun: arguments may follow */
} outcome;

static void note(outcome *out, const char *text, size_t length) {
    size_t used = strlen(out->calls);
    assert_true(used + length < sizeof out->calls);
    memcpy(out->calls + used, text, length);
    out->calls[used + length] = '\0';
}

static void gather(lh_tool_call_parser *parser, outcome *out) {
    for (size_t i = 0; i < parser->delta_count; i++) {
        const lh_tool_call_delta *delta = &parser->deltas[i];
        char head[LH_TOOL_NAME_BYTES_MAX + 32];
        if (delta->begins) {
            snprintf(head, sizeof head, "%s%u %s(", out->is_open ? ") " : "", delta->index,
                     delta->name);
            note(out, head, strlen(head));
            assert_int_equal(delta->index, out->count);
            memcpy(out->ids[out->count++ % 8], delta->id, sizeof delta->id);
            out->is_open = true;
        } else {
            assert_int_equal(delta->index + 1, out->count);
        }
        if (delta->arguments_length)
            note(out, parser->arguments.bytes + delta->arguments_at, delta->arguments_length);
    }
    lh_tool_call_parser_drop(parser);
}

static void push(lh_tool_call_parser *parser, const char *bytes, size_t length, outcome *out) {
    assert_int_equal(lh_tool_call_parser_push(parser, bytes, length, &out->text, NULL), LH_OK);
    gather(parser, out);
}

static void expect(const outcome *out, const char *text, const char *calls, const char *answer,
                   size_t cut) {
    if (out->text.length != strlen(text) ||
        memcmp(out->text.bytes ? out->text.bytes : "", text, out->text.length) ||
        strcmp(out->calls, calls))
        fail_msg("\"%s\" cut at %zu: \"%.*s\" and \"%s\" are not \"%s\" and \"%s\"", answer, cut,
                 (int)out->text.length, out->text.bytes ? out->text.bytes : "", out->calls, text,
                 calls);
}

static void check_with(const lh_tool_format *format, const json_t *tools, const char *answer,
                       const char *text, const char *calls) {
    size_t length = strlen(answer);
    for (size_t cut = 0; cut <= length + 1; cut++) { /* the last one: byte by byte */
        lh_tool_call_parser parser;
        outcome out = {.count = 0};
        lh_tool_call_parser_init(&parser, format, LH_TOOL_CALLS_MAX);
        parser.tools = tools;
        for (size_t i = 0; cut > length && i < length; i++)
            push(&parser, answer + i, 1, &out);
        if (cut <= length) {
            push(&parser, answer, cut, &out);
            push(&parser, answer + cut, length - cut, &out);
        }
        assert_int_equal(lh_tool_call_parser_finish(&parser, false, &out.text, NULL), LH_OK);
        gather(&parser, &out);
        if (out.is_open)
            note(&out, ")", 1);
        expect(&out, text, calls, answer, cut);
        lh_tool_call_parser_reset(&parser);
        lh_text_buffer_reset(&out.text);
    }
}

static void check(const lh_tool_format *format, const char *answer, const char *text,
                  const char *calls) {
    check_with(format, NULL, answer, text, calls);
}

static void each_format_is_read(void **state) {
    (void)state;
    check(HERMES,
          "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>", "",
          "0 f({\"a\": [1, \"}\"]})");
    check(HERMES,
          "Let me see.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
          "<tool_call>\n{\"name\":\"g\",\"arguments\":{\"x\":1}}\n</tool_call>\n",
          "Let me see.", "0 f({}) 1 g({\"x\":1})");
    check(MISTRAL,
          "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, "
          "{\"name\": \"g\", \"arguments\": {}}]",
          "", "0 f({\"a\": 1}) 1 g({})");
    check(MISTRAL_11, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}", "",
          "0 f({\"a\": 1}) 1 g({})");
    check(GRANITE, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "",
          "0 f({\"a\": 1})");
    check(LLAMA,
          "{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", "
          "\"parameters\": {}}",
          "", "0 f({\"a\": 1}) 1 g({})");
    check(LLAMA, "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}", "",
          "0 f({})");
    check(DEEPSEEK,
          "Well.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
          "{\"a\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n"
          "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          "Well.", "0 f({\"a\": 1}) 1 g({})");
    check(DEEPSEEK_31,
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}"
          "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          "", "0 f({\"a\": 1})");
}

/* Without schemas what is JSON is JSON, and all else a text. */
static void parameters_without_json_are_read(void **state) {
    (void)state;
    check(QWEN_CODER,
          "I look.\n\n<tool_call>\n<function=f>\n<parameter=city>\nParis \"x\"\n</parameter>\n"
          "<parameter=days>\n3\n</parameter>\n<parameter=all>\nTrue\n</parameter>\n"
          "<parameter=list>\n[1, {\"a\": null}]\n</parameter>\n</function>\n</tool_call>\n"
          "<tool_call>\n<function=g>\n</function>\n</tool_call>",
          "I look.",
          "0 f({\"city\": \"Paris \\\"x\\\"\", \"days\": 3, \"all\": true, "
          "\"list\": [1, {\"a\": null}]}) 1 g({})");
    check(QWEN_CODER,
          "<tool_call>\n<function=f>\n<parameter=code>\n\nif a < b:\n    <x>\n\n</parameter>\n"
          "</function>\n</tool_call>",
          "", "0 f({\"code\": \"\\nif a < b:\\n    <x>\\n\"})");
    check(QWEN_CODER, "<tool_call>\n<function=f><parameter=a>1</parameter></function></tool_call>",
          "", "0 f({\"a\": 1})");
}

static void a_forgotten_mark_around_a_call_is_none_missed(void **state) {
    (void)state;
    check(QWEN_CODER,
          "Now.\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", "Now.",
          "0 f({\"a\": 1})");
    check(QWEN_CODER, "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</tool_call>", "",
          "0 f({\"a\": 1})");
    check(QWEN_CODER,
          "<tool_call>\n<function=f>\n<tool_call>\n<function=g>\n</function>\n</tool_call>", "",
          "0 f({}) 1 g({})");
}

/* Cut: what has come of it whole is there, and no brace ends it. */
static void parameters_that_are_cut_stay_open(void **state) {
    (void)state;
    check(QWEN_CODER, "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2",
          "", "0 f({\"a\": 1)");
    check(QWEN_CODER, "<tool_call>\n<function=", "<tool_call>\n<function=", "");
    check(QWEN_CODER, "a <tool_call> b", "a <tool_call> b", "");
}

static json_t *some_tools(void) {
    json_error_t error;
    json_t *tools = json_loads(
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
        "{\"properties\": {"
        "\"text\": {\"type\": \"string\"}, \"maybe\": {\"type\": [\"string\", \"null\"]}, "
        "\"one\": {\"enum\": [\"1\", \"2\"]}, \"number\": {\"type\": \"integer\"}}}}}]",
        0, &error);
    assert_non_null(tools);
    return tools;
}

static void schemas_say_what_is_a_text(void **state) {
    (void)state;
    static const char answer[] =
        "<tool_call>\n<function=f>\n<parameter=text>\n12\n</parameter>\n<parameter=maybe>\nnull\n"
        "</parameter>\n<parameter=one>\n1\n</parameter>\n<parameter=number>\n1\n</parameter>\n"
        "<parameter=other>\nfalse\n</parameter>\n</function>\n</tool_call>";
    json_t *tools = some_tools();
    lh_tool_call_parser parser;
    outcome out = {.count = 0};
    lh_tool_call_parser_init(&parser, QWEN_CODER, 1);
    parser.tools = tools;
    push(&parser, answer, strlen(answer), &out);
    assert_string_equal(out.calls, "0 f({\"text\": \"12\", \"maybe\": null, \"one\": \"1\", "
                                   "\"number\": 1, \"other\": false}");
    lh_tool_call_parser_reset(&parser);
    lh_text_buffer_reset(&out.text);
    json_decref(tools);
}

/* Models that were taught marks forget them, and write a call as they write code. */
static void a_call_in_a_fence_is_one(void **state) {
    (void)state;
    json_t *tools = some_tools();
    const lh_tool_format *formats[] = {HERMES, LLAMA};
    for (size_t i = 0; i < 2; i++) {
        check_with(
            formats[i], tools,
            "I call it:\n```json\n{\"name\": \"f\", \"arguments\": {\"a\": \"```\"}}\n```\nWell.",
            "I call it:Well.", "0 f({\"a\": \"```\"})");
        check_with(
            formats[i], tools,
            "So ```\n[{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}, {\"name\": "
            "\"f\", \"arguments\": {}}]\n```",
            "So", "0 f({}) 1 f({})");
        check_with(formats[i], NULL, "``` \n{\"name\": \"f\", \"arguments\": {}}\n```",
                   "``` \n{\"name\": \"f\", \"arguments\": {}}\n```", "");
    }
    static const char *const texts[] = {
        "```python\nprint(1)\n```\nThen ``` and `x` and ````",
        "```json\n{\"name\": \"other\", \"arguments\": {}}\n```\nend",
        "```json\n{\"city\": \"Bern\", \"name\": \"f\"}\n``` so",
        "```json\n{\"name\": \"f\"}\n```",
        "```json\n[1, 2]\n```",
        "```json\n```",
        "``",
        "```json",
        "```json\n{\"name\": \"f\", \"argu",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_with(HERMES, tools, texts[i], texts[i], "");
    json_decref(tools);
}

/* Nor do they write a fence around it: Qwen2.5-Coder-0.5B does so most of the time. */
static void an_answer_that_begins_with_an_object_is_a_call(void **state) {
    (void)state;
    json_t *tools = some_tools();
    check_with(HERMES, tools, "{\"name\": \"f\", \"arguments\": {\"a\": \"}\"}}", "",
               "0 f({\"a\": \"}\"})");
    check_with(HERMES, tools,
               "\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"f\", "
               "\"arguments\": {}}\nThere.",
               "There.", "0 f({}) 1 f({})");
    static const char *const texts[] = {
        "{\"name\": \"other\", \"arguments\": {}}",
        "{\"city\": \"Bern\", \"name\": \"f\"}",
        "{\"name\": \"f\"}",
        "{\"name\": \"f\", \"argu",
        "{",
        " \n",
        "So {\"name\": \"f\", \"arguments\": {}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_with(HERMES, tools, texts[i], texts[i], "");
    check_with(HERMES, NULL, "{\"name\": \"f\", \"arguments\": {}}",
               "{\"name\": \"f\", \"arguments\": {}}", "");
    json_decref(tools);
}

/* As the channels leave them (channels.h). */
static void calls_in_headers_are_read(void **state) {
    (void)state;
    check(GPT_OSS,
          "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
          "{\"a\": 1}<|call|>",
          "", "0 f({\"a\": 1})");
    check(GPT_OSS, " to=functions.f<|channel|>commentary json<|message|>{}", "", "0 f({})");
    check(GPT_OSS,
          "I look.<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>"
          "<|start|>assistant to=functions.g<|channel|>commentary<|message|>{}",
          "I look.", "0 f({}) 1 g({})");
    check(GPT_OSS, "<|start|>assistant<|channel|>final<|message|>so",
          "<|start|>assistant<|channel|>final<|message|>so", "");
    check(GPT_OSS, "<|channel|>", "<|channel|>", "");
}

static void what_only_looks_like_a_call_is_text(void **state) {
    (void)state;
    static const char *const texts[] = {
        "plain",
        "a < b, <tool_cal, and <tool",
        "<tool_call> is a mark",
        "<tool_call>{\"nam\": 1}</tool_call> then",
        "<tool_call>{\"name\": 5, \"arguments\": {}}",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}",
        "<tool_call>{\"name\": \"f\"",
        "<tool_call>\n{\"arguments\": {\"a\": 1}}\n</tool_call>",
        "<tool_call>{name: f}",
        "ends in space \n ",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check(HERMES, texts[i], texts[i], "");
    check(LLAMA, "{\"city\": \"Bern\"}", "{\"city\": \"Bern\"}", "");
    check(LLAMA, "The answer is {\"name\": \"f\", \"parameters\": {}}",
          "The answer is {\"name\": \"f\", \"parameters\": {}}", "");
    check(DEEPSEEK, "<｜tool▁calls▁begin｜>no", "<｜tool▁calls▁begin｜>no", "");
    check(NULL, "<tool_call>{\"name\":\"f\",\"arguments\":{}}",
          "<tool_call>{\"name\":\"f\",\"arguments\":{}}", "");
}

/* Where the answer was cut, the head of a call is no text. */
static void a_call_that_is_cut_leaves_no_text(void **state) {
    (void)state;
    static const char *const heads[] = {"<tool_cal", "<tool_call>", "<tool_call>\n{",
                                        "<tool_call>\n{\"name\": \"f\"",
                                        "<tool_call>\n{\"arguments\": {\"a\": 1}"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        lh_tool_call_parser parser;
        outcome out = {.count = 0};
        lh_tool_call_parser_init(&parser, HERMES, LH_TOOL_CALLS_MAX);
        push(&parser, "So: ", 4, &out);
        push(&parser, heads[i], strlen(heads[i]), &out);
        assert_int_equal(lh_tool_call_parser_finish(&parser, true, &out.text, NULL), LH_OK);
        expect(&out, "So:", "", heads[i], 0);
        lh_tool_call_parser_reset(&parser);
        lh_text_buffer_reset(&out.text);
    }
}

static void what_is_cut_and_begins_no_call_is_text(void **state) {
    (void)state;
    lh_tool_call_parser parser;
    outcome out = {.count = 0};
    lh_tool_call_parser_init(&parser, HERMES, LH_TOOL_CALLS_MAX);
    push(&parser, "if a <", 6, &out);
    assert_int_equal(lh_tool_call_parser_finish(&parser, true, &out.text, NULL), LH_OK);
    expect(&out, "if a <", "", "if a <", 0);
    lh_tool_call_parser_reset(&parser);
    lh_text_buffer_reset(&out.text);
}

/* Not even one byte of it, in formats with marks and in bare ones. */
static void one_that_had_to_come_and_is_cut_leaves_nothing(void **state) {
    (void)state;
    const struct {
        const lh_tool_format *format;
        const char *head;
    } cases[] = {{HERMES, "<"}, {HERMES, "<tool_call>"}, {LLAMA, " "}, {LLAMA, "{\"na"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_tool_call_parser parser;
        outcome out = {.count = 0};
        lh_tool_call_parser_init(&parser, cases[i].format, LH_TOOL_CALLS_MAX);
        parser.must_call = true;
        push(&parser, cases[i].head, strlen(cases[i].head), &out);
        assert_int_equal(lh_tool_call_parser_finish(&parser, true, &out.text, NULL), LH_OK);
        expect(&out, "", "", cases[i].head, 0);
        lh_tool_call_parser_reset(&parser);
        lh_text_buffer_reset(&out.text);
    }
}

static void unusual_calls_are_calls(void **state) {
    (void)state;
    check(HERMES, "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>", "",
          "0 f({\"a\": 1})");
    check(HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "",
          "0 f({\"a\": 1})");
    check(HERMES, "<tool_call>{\"name\": \"f\"}</tool_call>", "", "0 f({})");
    check(HERMES, "<tool_call>{\"id\": [1, {}], \"name\": \"f\\u00fc\", \"arguments\": {}}", "",
          "0 fü({})");
    /* cut off by the token limit */
    check(HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b", "",
          "0 f({\"a\": \"b)");
    check(HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n\nDone.", "Done.",
          "0 f({})");
}

static void ids_are_what_the_template_takes(void **state) {
    (void)state;
    lh_tool_call_parser parser;
    outcome out = {.count = 0};
    const char *answer = "[TOOL_CALLS][{\"name\":\"f\"},{\"name\":\"g\"}]";
    lh_tool_call_parser_init(&parser, MISTRAL, LH_TOOL_CALLS_MAX);
    push(&parser, answer, strlen(answer), &out);
    assert_int_equal(out.count, 2);
    assert_int_equal(strlen(out.ids[0]), 9);
    assert_string_not_equal(out.ids[0], out.ids[1]);
    lh_tool_call_parser_reset(&parser);
    answer = "<tool_call>{\"name\":\"f\"}";
    lh_tool_call_parser_init(&parser, HERMES, LH_TOOL_CALLS_MAX);
    out.count = 0;
    push(&parser, answer, strlen(answer), &out);
    assert_memory_equal(out.ids[0], "call_", 5);
    lh_tool_call_parser_reset(&parser);
    lh_text_buffer_reset(&out.text);
}

static void calls_without_end_are_bounded(void **state) {
    (void)state;
    static const char call[] = "{\"name\":\"f\"},";
    lh_tool_call_parser parser;
    lh_text_buffer text = {0};
    lh_tool_call_parser_init(&parser, MISTRAL, LH_TOOL_CALLS_MAX);
    assert_int_equal(lh_tool_call_parser_push(&parser, "[TOOL_CALLS][", 13, &text, NULL), LH_OK);
    for (uint32_t i = 0; i < LH_TOOL_CALLS_MAX + 9; i++) {
        assert_int_equal(lh_tool_call_parser_push(&parser, call, sizeof call - 1, &text, NULL),
                         LH_OK);
        lh_tool_call_parser_drop(&parser);
    }
    assert_int_equal(parser.count, LH_TOOL_CALLS_MAX);
    assert_int_equal(lh_tool_call_parser_finish(&parser, false, &text, NULL), LH_OK);
    assert_int_equal(text.length, 0);
    lh_tool_call_parser_reset(&parser);
    lh_text_buffer_reset(&text);
}

static void a_control_token_may_be_a_mark(void **state) {
    (void)state;
    assert_true(lh_tool_format_has_mark(MISTRAL, "[TOOL_CALLS]", 12));
    assert_true(lh_tool_format_has_mark(DEEPSEEK, "<｜tool▁sep｜>", strlen("<｜tool▁sep｜>")));
    assert_false(lh_tool_format_has_mark(HERMES, "<|im_end|>", 10));
    assert_false(lh_tool_format_has_mark(NULL, "<tool_call>", 11));
    assert_ptr_equal(lh_tool_format_find("", 0), lh_tool_format_generic());
}

static void fail_each(const lh_tool_format *format, const char *answer) {
    lh_status status = LH_ERR_NO_MEMORY;
    size_t n = 0;
    while (status == LH_ERR_NO_MEMORY) {
        lh_tool_call_parser parser;
        lh_text_buffer text = {0};
        lh_tool_call_parser_init(&parser, format, LH_TOOL_CALLS_MAX);
        failing_malloc_arm(++n);
        status = lh_tool_call_parser_push(&parser, answer, strlen(answer), &text, NULL);
        if (status == LH_OK)
            status = lh_tool_call_parser_finish(&parser, false, &text, NULL);
        assert_int_equal(failing_malloc_disarm(), status != LH_OK);
        lh_tool_call_parser_reset(&parser);
        lh_text_buffer_reset(&text);
    }
    assert_int_equal(status, LH_OK);
    assert_in_range(n, 4, 100);
}

static void without_memory_it_says_so(void **state) {
    (void)state;
    fail_each(HERMES, "So:\n<tool_call>{\"arguments\":{\"a\":1},\"name\":\"f\"}</tool_call>x");
    fail_each(QWEN_CODER, "So:\n<tool_call>\n<function=f>\n<parameter=a>\nb\n</parameter>\n"
                          "</function>\n</tool_call>");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_format_is_read),
        cmocka_unit_test(parameters_without_json_are_read),
        cmocka_unit_test(a_forgotten_mark_around_a_call_is_none_missed),
        cmocka_unit_test(parameters_that_are_cut_stay_open),
        cmocka_unit_test(schemas_say_what_is_a_text),
        cmocka_unit_test(calls_in_headers_are_read),
        cmocka_unit_test(what_only_looks_like_a_call_is_text),
        cmocka_unit_test(a_call_in_a_fence_is_one),
        cmocka_unit_test(an_answer_that_begins_with_an_object_is_a_call),
        cmocka_unit_test(a_call_that_is_cut_leaves_no_text),
        cmocka_unit_test(what_is_cut_and_begins_no_call_is_text),
        cmocka_unit_test(one_that_had_to_come_and_is_cut_leaves_nothing),
        cmocka_unit_test(unusual_calls_are_calls),
        cmocka_unit_test(ids_are_what_the_template_takes),
        cmocka_unit_test(calls_without_end_are_bounded),
        cmocka_unit_test(a_control_token_may_be_a_mark),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
