/* What a model answers, told apart into text and calls of tools: the same for any cut of it into
 * pieces. The first byte chooses the format, the second says how long the pieces are. */
#include "gateway/text/tools/tool_call_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(bool holds) {
    if (!holds)
        abort();
}

/* Names and arguments of all calls, in a text of their own. */
typedef struct outcome {
    lh_text_buffer text, calls;
    size_t begun; /* where the arguments of the last call begin in `calls` */
} outcome;

/* Another call follows: what was made of parameters that are no JSON is an object. */
static void check_made(const lh_tool_call_parser *parser, const outcome *out) {
    const char *arguments = out->calls.bytes ? out->calls.bytes + out->begun : "";
    size_t length = out->calls.length - out->begun;
    /* jansson takes no NUL in a name. */
    if (parser->format->body != LH_TOOL_BODY_PARAMETERS || out->calls.length == 0 ||
        memmem(arguments, length, "\\u0000", 6))
        return;
    json_t *object = json_loadb(arguments, length, JSON_ALLOW_NUL, NULL);
    require(json_is_object(object));
    json_decref(object);
}

static void note(lh_tool_call_parser *parser, outcome *out) {
    lh_text_buffer *calls = &out->calls;
    for (size_t i = 0; i < parser->delta_count; i++) {
        const lh_tool_call_delta *delta = &parser->deltas[i];
        char head[LH_TOOL_NAME_BYTES_MAX + 32];
        int length =
            delta->begins ? snprintf(head, sizeof head, "\n%u %s ", delta->index, delta->name) : 0;
        if (delta->begins)
            check_made(parser, out);
        require(delta->begins ? delta->name[0] && delta->id[0] : !delta->name[0]);
        require(lh_text_buffer_append(calls, head, (size_t)length, NULL) == LH_OK);
        out->begun = delta->begins ? calls->length : out->begun;
        if (delta->arguments_length)
            require(lh_text_buffer_append(calls, parser->arguments.bytes + delta->arguments_at,
                                          delta->arguments_length, NULL) == LH_OK);
    }
    lh_tool_call_parser_drop(parser);
}

static outcome parse(const lh_tool_format *format, const char *bytes, size_t length, size_t piece) {
    lh_tool_call_parser parser;
    outcome out = {.text = {0}};
    lh_tool_call_parser_init(&parser, format, 3);
    for (size_t at = 0; at < length; at += piece) {
        size_t take = length - at < piece ? length - at : piece;
        require(lh_tool_call_parser_push(&parser, bytes + at, take, &out.text, NULL) == LH_OK);
        note(&parser, &out);
    }
    require(lh_tool_call_parser_finish(&parser, false, &out.text, NULL) == LH_OK);
    note(&parser, &out);
    require(parser.count <= 3);
    lh_tool_call_parser_reset(&parser);
    return out;
}

static void require_same(const lh_text_buffer *a, const lh_text_buffer *b) {
    require(a->length == b->length);
    require(a->length == 0 || memcmp(a->bytes, b->bytes, a->length) == 0);
}

static void reset(outcome *out) {
    lh_text_buffer_reset(&out->text);
    lh_text_buffer_reset(&out->calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
    static const char *const signs[] = {
        "<tool_call>",
        "[TOOL_CALLS] tool_calls",
        "[TOOL_CALLS] [ARGS]",
        "<|tool_call|> tools",
        "<|channel|> to=functions.",
        "<|start_header_id|> \"parameters\": ",
        "<｜tool▁calls▁begin｜> ```json",
        "<｜tool▁calls▁begin｜><｜tool▁sep｜>",
        "<tool_call> <function=f> <parameter=a>",
        "<seed:tool_call> <function=f> <parameter=a>",
    };
    if (length < 2)
        return 0;
    const char *sign = signs[data[0] % (sizeof signs / sizeof *signs)];
    const lh_tool_format *format = lh_tool_format_find(sign, strlen(sign));
    const char *answer = (const char *)data + 2;
    length -= 2;
    outcome whole = parse(format, answer, length, length ? length : 1);
    outcome pieces = parse(format, answer, length, 1 + data[1] % 16);
    require_same(&whole.text, &pieces.text);
    require_same(&whole.calls, &pieces.calls);
    require(whole.text.length <= length);
    reset(&whole);
    reset(&pieces);
    return 0;
}
