/* The formats as their models' templates have them, the more particular sign first. */
#include "gateway/text/tools/tool_format.h"

#include <string.h>

static const lh_tool_format hermes = {.name = "hermes",
                                      .body = LH_TOOL_BODY_OBJECT,
                                      .open = "<tool_call>",
                                      .close = "</tool_call>",
                                      .reads_fences = true,
                                      .arguments_key = "arguments",
                                      .writing = {.before = "<tool_call>\n",
                                                  .between = "\n</tool_call>\n<tool_call>\n",
                                                  .behind = "\n</tool_call>"}};

static const lh_tool_format formats[] = {
    /* Qwen3-Coder: marks of XML's kind, a line for each of them. */
    {.name = "qwen3-coder",
     .body = LH_TOOL_BODY_PARAMETERS,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .call_open = "<function=",
     .separator = ">",
     .call_close = "</function>",
     .parameter_open = "<parameter=",
     .parameter_close = "</parameter>",
     .writing = {.before = "<tool_call>\n<function=",
                 .separator = ">\n",
                 .parameter_separator = ">\n",
                 .parameter_end = "\n</parameter>\n",
                 .end = "</function>",
                 .between = "\n</tool_call>\n<tool_call>\n<function=",
                 .behind = "\n</tool_call>"}},
    /* Seed-OSS: the same with a mark of its own, and values without lines of their own. */
    {.name = "seed-oss",
     .body = LH_TOOL_BODY_PARAMETERS,
     .open = "<seed:tool_call>",
     .close = "</seed:tool_call>",
     .call_open = "<function=",
     .separator = ">",
     .call_close = "</function>",
     .parameter_open = "<parameter=",
     .parameter_close = "</parameter>",
     .writing = {.before = "<seed:tool_call>\n<function=",
                 .separator = ">\n",
                 .parameter_separator = ">",
                 .parameter_end = "</parameter>\n",
                 .end = "</function>",
                 .between = "\n</seed:tool_call>\n<seed:tool_call>\n<function=",
                 .behind = "\n</seed:tool_call>"}},
    /* DeepSeek V3 and R1: "function", then the name, then fenced JSON. */
    {.name = "deepseek-v3",
     .body = LH_TOOL_BODY_NAMED,
     .open = "<｜tool▁calls▁begin｜>",
     .close = "<｜tool▁calls▁end｜>",
     .call_open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .separator = "\n```json\n",
     .call_close = "\n```<｜tool▁call▁end｜>",
     .writing = {.before = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                 .separator = "\n```json\n",
                 .between = "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                 .behind = "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}},
    {.name = "deepseek-v3.1",
     .body = LH_TOOL_BODY_NAMED,
     .open = "<｜tool▁calls▁begin｜>",
     .close = "<｜tool▁calls▁end｜>",
     .call_open = "<｜tool▁call▁begin｜>",
     .separator = "<｜tool▁sep｜>",
     .call_close = "<｜tool▁call▁end｜>",
     .writing = {.before = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                 .separator = "<｜tool▁sep｜>",
                 .between = "<｜tool▁call▁end｜><｜tool▁call▁begin｜>",
                 .behind = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}},
    {.name = "mistral-v11",
     .body = LH_TOOL_BODY_NAMED,
     .open = "[TOOL_CALLS]",
     .separator = "[ARGS]",
     .id_length = 9,
     .writing = {.before = "[TOOL_CALLS]",
                 .separator = "[ARGS]",
                 .between = "[TOOL_CALLS]",
                 .behind = ""}},
    {.name = "mistral",
     .body = LH_TOOL_BODY_OBJECT,
     .open = "[TOOL_CALLS]",
     .arguments_key = "arguments",
     .id_length = 9,
     .writing = {.before = "[TOOL_CALLS][", .between = ", ", .behind = "]"}},
    /* OpenAI's harmony format: the call is a message to the function. */
    {.name = "gpt-oss",
     .body = LH_TOOL_BODY_NAMED,
     .open = "to=functions.",
     .headers = {"<|start|>", "<|channel|>"},
     .separator = "<|message|>",
     .call_close = "<|call|>",
     .writing = {.before = "<|channel|>commentary to=functions.",
                 .separator = " <|constrain|>json<|message|>",
                 .behind = ""}},
    {.name = "granite",
     .body = LH_TOOL_BODY_OBJECT,
     .open = "<|tool_call|>",
     .arguments_key = "arguments",
     .writing = {.before = "<|tool_call|>[", .between = ", ", .behind = "]"}},
    {.name = "llama-3",
     .body = LH_TOOL_BODY_OBJECT,
     .open = "<|python_tag|>",
     .begins_bare = true,
     .reads_fences = true,
     .arguments_key = "parameters",
     .writing = {.before = "", .between = "; ", .behind = ""}},
};

/* What stands in a template of each format; all of them must. */
static const char *const signs[][2] = {
    {"<tool_call>", "<parameter="},
    {"<seed:tool_call>", "<parameter="},
    {"<｜tool▁calls▁begin｜>", "```json"},
    {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"},
    {"[TOOL_CALLS]", "[ARGS]"},
    {"[TOOL_CALLS]", "tool_calls"},
    {"<|channel|>", "functions."},
    {"<|tool_call|>", "tools"},
    {"<|start_header_id|>", "\"parameters\": "},
};

static bool stands(const char *text, size_t length, const char *part, size_t part_length) {
    return part_length > 0 && memmem(text, length, part, part_length) != NULL;
}

static bool has(const char *chat_template, size_t length, const char *sign) {
    return stands(chat_template, length, sign, strlen(sign));
}

const lh_tool_format *lh_tool_format_generic(void) {
    return &hermes;
}

const lh_tool_format *lh_tool_format_find(const char *chat_template, size_t length) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        bool is_hermes = i > 0 && has(chat_template, length, hermes.open);
        if (!is_hermes && has(chat_template, length, signs[i][0]) &&
            has(chat_template, length, signs[i][1]))
            return &formats[i];
    }
    return lh_tool_format_generic();
}

bool lh_tool_format_takes_name(const lh_tool_format *format, const char *name) {
    return format->body == LH_TOOL_BODY_OBJECT || !name[strcspn(name, " [<>")];
}

/* Some marks are several tokens, of which one is control. */
static bool holds(const char *mark, const char *text, size_t length) {
    return mark && stands(mark, strlen(mark), text, length);
}

bool lh_tool_format_has_mark(const lh_tool_format *format, const char *text, size_t length) {
    return format &&
           (holds(format->headers[0], text, length) || holds(format->headers[1], text, length) ||
            holds(format->open, text, length) || holds(format->close, text, length) ||
            holds(format->separator, text, length) || holds(format->call_open, text, length) ||
            holds(format->call_close, text, length));
}
