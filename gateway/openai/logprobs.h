/* Log-probabilities as JSON, in chat's format and in that of completions. Thread: any. */
#pragma once

#include "gateway/openai/fields.h"
#include "gateway/openai/generation.h"

/* The "logprobs" of a choice for some of its tokens; NULL: no memory. `top`: how many alternatives
 * were asked for. */
json_t *lh_openai_logprobs(lh_openai_endpoint endpoint, const lh_tokenizer *tokenizer,
                           const lh_generation_token *tokens, size_t count, uint32_t top);
/* Those of a prompt that is echoed: the same lists as those of the completion behind it, which they
 * may be extended by. Nothing is known of the first token. */
json_t *lh_openai_echo_logprobs(const lh_tokenizer *tokenizer, const lh_prompt_scores *scores,
                                uint32_t top);
/* vLLM's `prompt_logprobs`: for each token an object by ids, null for the first one. */
json_t *lh_openai_prompt_logprobs(const lh_tokenizer *tokenizer, const lh_prompt_scores *scores,
                                  uint32_t top);
/* The digests of the tokens' logits, as 16 hex digits each. */
json_t *lh_openai_digests(const lh_generation_token *tokens, size_t count);
/* Appends what `more` lists (either of the above, which it takes) to *all (NULL: nothing yet).
 * False: no memory. */
bool lh_openai_logprobs_extend(json_t **all, json_t *more);
