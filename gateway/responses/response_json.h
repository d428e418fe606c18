/* Responses, their items, and the parts of these, as JSON. Each is the caller's; NULL: no memory.
 * Thread: any. */
#pragma once

#include "gateway/openai/answer_parts.h"
#include "gateway/openai/render.h"

/* status: "in_progress", "completed", "incomplete". */

/* "msg_...", "rs_...", "fc_..." or "ctc_...": the answer's own id with the item's place in it. */
void lh_response_item_id(const lh_openai_frame *frame, const lh_answer_part *part,
                         const json_t *kind, size_t index, char id[LH_RANDOM_ID_BYTES]);
/* What is known of the tool that a part calls (lh_openai_tools); NULL: nothing, or it calls none.
 */
const json_t *lh_response_kind(const json_t *kinds, const lh_answer_part *part);
bool lh_response_is_custom(const json_t *kind);
/* The one part that a message's or a thought's content has; with its text, or before there is any.
 * logprobs: of a message, a list that is not taken. */
json_t *lh_response_content(const lh_answer_part *part, bool with_text, const json_t *logprobs);
/* An item; logprobs as above; kind: of a call. */
json_t *lh_response_item(const lh_openai_frame *frame, const lh_answer_part *part,
                         const json_t *kind, size_t index, const char *status,
                         const json_t *logprobs);
/* The response itself. output: a list, which it takes; told: what it repeats of its request; usage,
 * error: NULL where there is none. incomplete: its length ended it. */
json_t *lh_response_object(const lh_openai_frame *frame, const json_t *told, const char *status,
                           json_t *output, const lh_token_usage *usage,
                           const lh_openai_error *error);
