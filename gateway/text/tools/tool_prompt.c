/* In the marks that most models of the field were taught. */
#include "gateway/text/tools/tool_prompt.h"

#include <stdlib.h>
#include <string.h>

static lh_status no_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a conversation");
}

static lh_status put(lh_text_buffer *text, const char *words, lh_error *error) {
    return lh_text_buffer_append(text, words, strlen(words), error);
}

/* One line: what is before, the value as JSON, and what is behind. */
static lh_status put_json(lh_text_buffer *text, const char *before, const json_t *value,
                          const char *behind, lh_error *error) {
    char *dumped = json_dumps(value, JSON_ENCODE_ANY);
    if (!dumped)
        return no_memory(error);
    lh_status status = put(text, before, error);
    if (status == LH_OK)
        status = put(text, dumped, error);
    free(dumped);
    return status == LH_OK ? put(text, behind, error) : status;
}

lh_status lh_tool_prompt_tools(const json_t *tools, lh_text_buffer *text, lh_error *error) {
    lh_status status = put(text, "You can call these functions:\n<tools>\n", error);
    for (size_t i = 0; i < json_array_size(tools) && status == LH_OK; i++)
        status = put_json(text, "", json_array_get(tools, i), "\n", error);
    return status ? status
                  : put(text,
                        "</tools>\nTo call one, write its name and arguments as JSON between "
                        "these marks, and nothing else; a pair of marks for each call:\n"
                        "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {...}}\n</tool_call>\n"
                        "What it gives then comes between <tool_response> and "
                        "</tool_response>.",
                        error);
}

lh_status lh_tool_prompt_calls(const json_t *calls, lh_text_buffer *text, lh_error *error) {
    lh_status status = LH_OK;
    for (size_t i = 0; i < json_array_size(calls) && status == LH_OK; i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        status =
            put_json(text, text->length ? "\n<tool_call>\n{\"name\": " : "<tool_call>\n{\"name\": ",
                     json_object_get(function, "name"), ", \"arguments\": ", error);
        const char *arguments = json_string_value(json_object_get(function, "arguments"));
        if (status == LH_OK)
            status = put(text, arguments && *arguments ? arguments : "{}", error);
        if (status == LH_OK)
            status = put(text, "}\n</tool_call>", error);
    }
    return status;
}

lh_status lh_tool_prompt_result(const char *content, size_t length, lh_text_buffer *text,
                                lh_error *error) {
    lh_status status = put(text, text->length ? "\n<tool_response>\n" : "<tool_response>\n", error);
    if (status == LH_OK)
        status = lh_text_buffer_append(text, content, length, error);
    return status ? status : put(text, "\n</tool_response>", error);
}
