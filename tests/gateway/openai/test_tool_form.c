/* What the form of a call lets a model write is what the parser of its format reads: random ways
 * through the form of each format, with its marks as control tokens and as text, whole and in
 * pieces of any size. */
#include "gateway/constrain/constraint_cache.h"
#include "gateway/openai/tool_form.h"
#include "gateway/text/tools/tool_call_parser.h"
#include "tests/gateway/support/constraint_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES     256u
#define WALKS     40
#define TEXT_MAX  20000
#define CALLS_MAX 64

/* A template of each format. */
static const char *const signs[] = {
    "<tool_call>",
    "[TOOL_CALLS] tool_calls",
    "[TOOL_CALLS] [ARGS]",
    "<|tool_call|> tools",
    "<|channel|> functions.",
    "<|start_header_id|> \"parameters\": ",
    "<｜tool▁calls▁begin｜> ```json",
    "<｜tool▁calls▁begin｜><｜tool▁sep｜>",
    "<tool_call> <function=f> <parameter=a>",
    "<seed:tool_call> <function=f> <parameter=a>",
};

/* Of one model or another: control tokens behind those of the bytes, the first ends an answer. */
static const char *const marks[] = {"<|im_end|>",
                                    "<tool_call>",
                                    "</tool_call>",
                                    "[TOOL_CALLS]",
                                    "[ARGS]",
                                    "<|tool_call|>",
                                    "<|channel|>",
                                    "<|constrain|>",
                                    "<|message|>",
                                    "<｜tool▁calls▁begin｜>",
                                    "<｜tool▁call▁begin｜>",
                                    "<｜tool▁sep｜>",
                                    "<｜tool▁call▁end｜>",
                                    "<｜tool▁calls▁end｜>"};

/* Values that look like what ends a call. */
static const char words[] =
    "[\"\",\"}\",\"]\",\"; {\",\"\\\"\",\"\\\\\",\"</tool_call>\",\"</function>\",\"[TOOL_CALLS]\","
    "\"<|call|>\",\"```\",\"<\xEF\xBD\x9Ctool\xE2\x96\x81"
    "call\xE2\x96\x81"
    "end\xEF\xBD\x9C>\"]";

static json_t *parse_json(const char *text, size_t length) {
    json_error_t error;
    json_t *value = json_loadb(text, length, JSON_DECODE_ANY, &error);
    if (!value)
        fail_msg("%.*s: %s", (int)length, text, error.text);
    return value;
}

/* Two functions. Texts of any content have no length where a model writes them without quotes. */
static json_t *tools_for(const lh_tool_format *format) {
    json_t *list = json_array();
    /* What looks like a mark in a name is none; JSON has a way to write any name. */
    const char *const names[] = {"fn_one", format->body == LH_TOOL_BODY_OBJECT
                                               ? "fn_ \"b\"\\ </tool_call>[ARGS]"
                                               : "fn_.files/read:\"\xc3\xa9\""};
    assert_true(lh_tool_format_takes_name(format, names[1]));
    assert_int_equal(lh_tool_format_takes_name(format, "a b"), format->body == LH_TOOL_BODY_OBJECT);
    for (int i = 0; i < 2; i++) {
        json_t *members = json_pack(
            "{s:{s:s,s:o},s:{s:s,s:i,s:i},s:{s:s,s:i,s:{s:s}}}", "word", "type", "string", "enum",
            parse_json(words, sizeof words - 1), "number", "type", "integer", "minimum", -9,
            "maximum", 99, "list", "type", "array", "maxItems", 2, "items", "type", "boolean");
        if (format->body != LH_TOOL_BODY_PARAMETERS)
            json_object_set_new(members, "text",
                                json_pack("{s:s,s:i}", "type", "string", "maxLength", 4));
        json_array_append_new(list, json_pack("{s:s,s:{s:s,s:{s:s,s:o,s:[s,s]}}}", "type",
                                              "function", "function", "name", names[i],
                                              "parameters", "type", "object", "properties", members,
                                              "required", "word", "number"));
    }
    return list;
}

static probe_vocabulary vocabulary_with(size_t controls) {
    small_vocabulary file = small_vocabulary_of_bytes();
    for (size_t i = 0; i < controls; i++)
        small_vocabulary_add(&file, marks[i], 3);
    file.eos = BYTES;
    return probe_vocabulary_of(&file);
}

/* ---- An answer ---- */

typedef struct answer {
    char text[TEXT_MAX];
    size_t length;
} answer;

static uint32_t roll(uint64_t *random, uint32_t sides) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % sides;
}

static bool allows(const lh_mask *mask, uint32_t token) {
    return mask->words[token / 64] >> token % 64 & 1;
}

/* One of those that are allowed, as likely as any other. */
static uint32_t draw(uint64_t *random, const lh_mask *mask) {
    uint32_t left = 1 + roll(random, mask->allowed), at = 0;
    while ((left -= allows(mask, at)) > 0)
        at++;
    return at;
}

static size_t count_calls(const answer *out) {
    size_t count = 0;
    for (const char *at = out->text; (at = strstr(at, "fn_")); at++)
        count++;
    return count;
}

/* What the model writes goes on with the token. */
static void write_token(answer *out, const lh_tokenizer *tokenizer, uint32_t token) {
    const char *bytes = "";
    size_t length = 0;
    assert_int_equal(lh_tokenizer_token_bytes(tokenizer, token, &bytes, &length), LH_OK);
    if (length == 0) {
        bytes = marks[token - BYTES];
        length = strlen(bytes);
    }
    assert_true(out->length + length < sizeof out->text);
    memcpy(out->text + out->length, bytes, length);
    out->length += length;
    out->text[out->length] = '\0';
}

/* A model that writes a line feed behind its last call can end there, though a further call would
 * begin so. */
static void end_line(lh_constraint_state *at, const lh_tokenizer *tokenizer, answer *out) {
    assert_int_equal(lh_constraint_state_take(at, '\n', NULL), LH_OK);
    write_token(out, tokenizer, '\n');
    if (!lh_constraint_state_may_end(at))
        fail_msg("\"%s\" must go on", out->text);
}

/* A random way; where it may end with as many calls as are wanted, it does. */
static void walk(lh_constraint *constraint, const lh_tokenizer *tokenizer, size_t wanted,
                 bool ends_line, uint64_t *random, answer *out) {
    lh_constraint_state *at;
    *out = (answer){.length = 0};
    assert_int_equal(lh_constraint_state_create(constraint, &at, NULL), LH_OK);
    while (!lh_constraint_state_is_finished(at)) {
        const lh_mask *mask;
        lh_error error;
        if (lh_constraint_state_may_end(at) && count_calls(out) >= wanted)
            break;
        if (lh_constraint_state_mask(at, &mask, &error))
            fail_msg("%s: %s", out->text, error.message);
        uint32_t token = draw(random, mask);
        if (token == BYTES)
            continue;
        assert_int_equal(lh_constraint_state_take(at, token, NULL), LH_OK);
        write_token(out, tokenizer, token);
    }
    if (ends_line && !lh_constraint_state_is_finished(at))
        end_line(at, tokenizer, out);
    lh_constraint_state_destroy(at);
}

/* ---- What is read of it ---- */

typedef struct outcome {
    lh_text_buffer text;
    size_t count;
    char names[CALLS_MAX][LH_TOOL_NAME_BYTES_MAX + 1];
    lh_text_buffer arguments[CALLS_MAX];
} outcome;

static void gather(lh_tool_call_parser *parser, outcome *out) {
    for (size_t i = 0; i < parser->delta_count; i++) {
        const lh_tool_call_delta *delta = &parser->deltas[i];
        if (delta->begins) {
            assert_true(out->count < CALLS_MAX && delta->index == out->count);
            memcpy(out->names[out->count++], delta->name, sizeof delta->name);
        }
        assert_int_equal(delta->index + 1, out->count);
        if (delta->arguments_length)
            assert_int_equal(lh_text_buffer_append(&out->arguments[delta->index],
                                                   parser->arguments.bytes + delta->arguments_at,
                                                   delta->arguments_length, NULL),
                             LH_OK);
    }
    lh_tool_call_parser_drop(parser);
}

static outcome read_answer(const lh_tool_format *format, const json_t *tools, const answer *from,
                           size_t piece) {
    lh_tool_call_parser parser;
    outcome out = {.count = 0};
    lh_tool_call_parser_init(&parser, format, LH_TOOL_CALLS_MAX);
    parser.tools = tools;
    for (size_t at = 0; at < from->length; at += piece) {
        size_t take = from->length - at < piece ? from->length - at : piece;
        assert_int_equal(lh_tool_call_parser_push(&parser, from->text + at, take, &out.text, NULL),
                         LH_OK);
        gather(&parser, &out);
    }
    assert_int_equal(lh_tool_call_parser_finish(&parser, false, &out.text, NULL), LH_OK);
    gather(&parser, &out);
    lh_tool_call_parser_reset(&parser);
    return out;
}

static void reset(outcome *out) {
    for (size_t i = 0; i < out->count; i++)
        lh_text_buffer_reset(&out->arguments[i]);
    lh_text_buffer_reset(&out->text);
}

static bool is_word(const json_t *word) {
    json_t *list = parse_json(words, sizeof words - 1);
    bool is = false;
    for (size_t i = 0; i < json_array_size(list); i++)
        is |= json_equal(json_array_get(list, i), word);
    json_decref(list);
    return is;
}

/* They satisfy the schema, and are what was written, where that is JSON. */
static void check_arguments(const lh_tool_format *format, const answer *from,
                            const lh_text_buffer *arguments) {
    json_t *all = parse_json(arguments->bytes, arguments->length),
           *number = json_object_get(all, "number"), *list = json_object_get(all, "list");
    if (!is_word(json_object_get(all, "word")) || !json_is_integer(number) ||
        json_integer_value(number) < -9 || json_integer_value(number) > 99 ||
        (list && json_array_size(list) > 2))
        fail_msg("%s: the arguments %.*s of \"%s\"", format->name, (int)arguments->length,
                 arguments->bytes, from->text);
    if (format->body != LH_TOOL_BODY_PARAMETERS)
        assert_non_null(memmem(from->text, from->length, arguments->bytes, arguments->length));
    json_decref(all);
}

static void check_same(const outcome *a, const outcome *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->names[i], b->names[i]);
        assert_int_equal(a->arguments[i].length, b->arguments[i].length);
        assert_memory_equal(a->arguments[i].bytes, b->arguments[i].bytes, a->arguments[i].length);
    }
}

static void check_answer(const lh_tool_format *format, const json_t *tools, const answer *from,
                         size_t calls) {
    outcome whole = read_answer(format, tools, from, from->length);
    if (whole.count != calls || whole.text.length > 0)
        fail_msg("%s: %zu calls, not %zu, and the text \"%.*s\" in \"%s\"", format->name,
                 whole.count, calls, (int)whole.text.length,
                 whole.text.bytes ? whole.text.bytes : "", from->text);
    for (size_t i = 0; i < whole.count; i++)
        check_arguments(format, from, &whole.arguments[i]);
    for (size_t piece = 1; piece < 12; piece++) {
        outcome pieces = read_answer(format, tools, from, piece);
        check_same(&whole, &pieces);
        assert_int_equal(pieces.text.length, 0);
        reset(&pieces);
    }
    reset(&whole);
}

/* ---- Each format ---- */

/* Gives the greatest number of calls. */
static size_t walk_format(const lh_tool_format *format, const probe_vocabulary *vocabulary,
                          lh_constraint_cache *cache, bool has_one_call) {
    json_t *list = tools_for(format);
    const lh_openai_tools tools = {
        .list = list, .choice = LH_TOOL_CHOICE_REQUIRED, .has_one_call = has_one_call};
    json_t *form = lh_openai_tool_form(&tools, format, vocabulary->tokenizer, NULL, NULL);
    const lh_constraint_source source = {.kind = LH_CONSTRAINT_CALLS, .value = form};
    lh_constraint *constraint;
    lh_error error;
    uint64_t random = 1;
    size_t most = 0;
    if (lh_constraint_cache_find(cache, &source, &constraint, &error))
        fail_msg("%s: %s", format->name, error.message);
    for (size_t i = 0; i < WALKS; i++) {
        static answer out;
        walk(constraint, vocabulary->tokenizer, 1 + i % 2, !has_one_call && format->writing.between,
             &random, &out);
        size_t calls = count_calls(&out);
        most = calls > most ? calls : most;
        check_answer(format, list, &out, calls);
    }
    lh_constraint_release(constraint);
    json_decref(form);
    json_decref(list);
    return most;
}

/* With so many of the marks as control tokens. */
static void walk_all(size_t controls) {
    probe_vocabulary vocabulary = vocabulary_with(controls);
    lh_constraint_cache *cache;
    assert_int_equal(lh_constraint_cache_create(vocabulary.vocabulary, &cache, NULL), LH_OK);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const lh_tool_format *format = lh_tool_format_find(signs[i], strlen(signs[i]));
        assert_int_equal(walk_format(format, &vocabulary, cache, true), 1);
        /* gpt-oss ends its turn behind a call. */
        size_t most = walk_format(format, &vocabulary, cache, false);
        assert_true(format->writing.between ? most >= 2 : most == 1);
    }
    lh_constraint_cache_destroy(cache);
    probe_vocabulary_reset(&vocabulary);
}

/* A tool that takes a text of its own grammar, in each format. */
static void a_grammar_of_ones_own_is_kept(void **state) {
    (void)state;
    probe_vocabulary vocabulary = vocabulary_with(sizeof marks / sizeof *marks);
    lh_constraint_cache *cache;
    assert_int_equal(lh_constraint_cache_create(vocabulary.vocabulary, &cache, NULL), LH_OK);
    json_t *list = json_pack("[{s:s,s:{s:s}}]", "type", "function", "function", "name", "fn_one"),
           *kinds = json_pack("{s:{s:s,s:{s:s,s:s}}}", "fn_one", "type", "custom", "grammar",
                              "syntax", "lark", "definition",
                              "start: line+\nline: /[ab\"\\\\]/ LF\n%import common.LF");
    const lh_openai_tools tools = {
        .list = list, .choice = LH_TOOL_CHOICE_REQUIRED, .has_one_call = true, .kinds = kinds};
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        static answer out;
        const lh_tool_format *format = lh_tool_format_find(signs[i], strlen(signs[i]));
        json_t *form = lh_openai_tool_form(&tools, format, vocabulary.tokenizer, NULL, NULL);
        const lh_constraint_source source = {.kind = LH_CONSTRAINT_CALLS, .value = form};
        lh_constraint *constraint;
        assert_int_equal(lh_constraint_cache_find(cache, &source, &constraint, NULL), LH_OK);
        walk(constraint, vocabulary.tokenizer, 1, false, &random, &out);
        outcome read = read_answer(format, list, &out, out.length);
        assert_int_equal(read.count, 1);
        json_t *arguments = parse_json(read.arguments[0].bytes, read.arguments[0].length);
        const char *input = json_string_value(json_object_get(arguments, "input"));
        if (!input || !*input || strspn(input, "ab\"\\\n") != strlen(input))
            fail_msg("%s: \"%s\" of \"%s\"", format->name, input, out.text);
        json_decref(arguments);
        reset(&read);
        lh_constraint_release(constraint);
        json_decref(form);
    }
    json_decref(list);
    json_decref(kinds);
    lh_constraint_cache_destroy(cache);
    probe_vocabulary_reset(&vocabulary);
}

static void marks_may_be_control_tokens(void **state) {
    (void)state;
    walk_all(sizeof marks / sizeof *marks);
}

static void marks_may_be_text(void **state) {
    (void)state;
    walk_all(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_may_be_control_tokens),
        cmocka_unit_test(marks_may_be_text),
        cmocka_unit_test(a_grammar_of_ones_own_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
