/* Messages, their blocks, and errors as JSON. Each is the caller's; NULL: no memory. Thread: any.
 */
#pragma once

#include "gateway/openai/answer_parts.h"
#include "gateway/openai/error.h"
#include "gateway/openai/render.h"

/* A block with its text, or before there is any. Arguments that are no JSON object, since they were
 * cut, say, stand under "INVALID_JSON", as Anthropic has it. */
json_t *lh_anthropic_block(const lh_answer_part *part, bool with_text);
/* content: a list, which it takes; stop_reason, which it takes; stop_sequence: NULL: null. */
json_t *lh_anthropic_message(const lh_openai_frame *frame, json_t *content, json_t *stop_reason,
                             json_t *stop_sequence, const lh_token_usage *usage);
/* An entry of the list of models. */
json_t *lh_anthropic_model(const lh_served_model *model, const char *name, size_t length);
/* The list of such entries, which it takes; all of them: there are no further pages. */
json_t *lh_anthropic_models(json_t *entries);
json_t *lh_anthropic_usage(const lh_token_usage *usage);
/* Why choice's last piece ended it; is_to_the_end: it could be as long as the context has room. */
const char *lh_anthropic_stop_reason(const lh_generation_piece *last, bool is_to_the_end);
json_t *lh_anthropic_error(const lh_openai_error *error, const char *request_id);
