/* A request's prompt as token ids, and how many more fit behind it. Thread: any. */
#pragma once

#include "gateway/openai/request.h"
#include "gateway/text/served_model.h"

/* Bytes of the model's longest token. */
size_t lh_openai_prompt_longest_token(const lh_served_model *model);
/* False, and *error as lh_openai_prompt_fit's: a text of so many bytes cannot fit, whatever its
 * tokens are. So nobody has to tokenize megabytes to learn that. */
bool lh_openai_prompt_may_fit(uint32_t context, lh_openai_endpoint endpoint, size_t text_bytes,
                              size_t longest_token_bytes, lh_openai_error *error);
/* Appends the conversation as the model's template has it. *is_thinking: the answer begins inside
 * of a thought. False: *error says why not. The caller frees tokens->ids. */
bool lh_openai_prompt_from_chat(const lh_served_model *model, const lh_openai_request *request,
                                lh_tokens *tokens, bool *is_thinking, lh_openai_error *error);
/* Appends the same conversation as text, special tokens by their names. False: *error says why not.
 */
bool lh_openai_prompt_text_of_chat(const lh_served_model *model, const lh_openai_request *request,
                                   lh_text_buffer *text, lh_openai_error *error);
/* Appends a completion's prompt: text, after the model's begin-of-sequence where it wants one and
 * the request does not decline it, or the ids as they are; where the request has a suffix, both
 * between the model's marks, so that the answer is what stands between them. False: *error says why
 * not. */
bool lh_openai_prompt_from_completion(const lh_served_model *model,
                                      const lh_openai_request *request,
                                      const lh_openai_prompt *prompt, lh_tokens *tokens,
                                      lh_openai_error *error);
/* How many tokens may be drawn behind a prompt of so many: what the request says, or what the
 * endpoint's default is, to the end of the context at most. False: the prompt leaves no room;
 * clients know that error by its wording. */
bool lh_openai_prompt_fit(uint32_t context, lh_openai_endpoint endpoint, size_t prompt_tokens,
                          const lh_openai_parameters *parameters, uint32_t *max_tokens,
                          lh_openai_error *error);
/* Appends a completion's prompt as text, for echo. LH_ERR_NO_MEMORY. */
lh_status lh_openai_prompt_text(const lh_served_model *model, const lh_openai_prompt *prompt,
                                lh_text_buffer *out);
