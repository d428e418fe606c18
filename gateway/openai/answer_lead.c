/* A model may think although its prompt does not say so, unless the prompt has a thought that is
 * over already: so templates write that none is wanted. */
#include "gateway/openai/answer_lead.h"

#include "common/json/json_text.h"
#include "gateway/openai/mark_parts.h"

#include <stdlib.h>
#include <string.h>

/* How far before the prompt's end a thought that is over may end: white space follows it. */
#define END_TOKENS 4u

const char *lh_answer_lead_header(void) {
    return "<|channel|>final<|message|>";
}

/* The token that the text is, where it is one alone; -1: it is not. */
static int64_t token_of(const lh_tokenizer *tokenizer, const char *text) {
    lh_tokens tokens = {0};
    lh_status status = lh_tokenizer_encode(tokenizer, text, strlen(text), true, &tokens, NULL);
    int64_t token = !status && tokens.count == 1 ? (int64_t)tokens.ids[0] : -1;
    free(tokens.ids);
    return token;
}

static bool ends_with(const lh_tokens *prompt, int64_t token) {
    bool found = false;
    for (size_t i = 0; i < END_TOKENS && i < prompt->count; i++)
        found |= prompt->ids[prompt->count - 1 - i] == token;
    return found;
}

json_t *lh_answer_lead_make(const lh_answer_lead *of) {
    const lh_thinking_marks *marks = of->marks;
    int64_t end = marks ? token_of(of->tokenizer, marks->close) : -1;
    bool may_think =
        marks && end >= 0 && of->has_head && (marks->are_channels || !ends_with(of->prompt, end));
    if (!marks || (!of->is_thinking && !may_think))
        return json_null();
    json_t *lead = lh_json_set(json_object(), "end", json_string(marks->close));
    if (end >= 0)
        lead = lh_json_set(lead, "token", json_integer(end));
    if (!of->is_thinking)
        lead = lh_json_set(lead, "begin", lh_openai_mark_parts(of->tokenizer, marks->open));
    if (marks->are_channels)
        lead =
            lh_json_set(lead, "behind", lh_openai_mark_parts(of->tokenizer, "<|start|>assistant"));
    if (of->has_header)
        lead = lh_json_set(lead, "answer",
                           lh_openai_mark_parts(of->tokenizer, lh_answer_lead_header()));
    return lead;
}
