/* A request is checked before anything of it is kept. */
#include "gateway/schedule/sequence_request.h"

#include "common/protocol/step.h"

bool lh_sequence_request_has_penalty(const lh_sequence_request *request) {
    const lh_sampling *sampling = &request->sampling;
    return sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
           sampling->frequency_penalty != 0.0f;
}

lh_status lh_sequence_request_check(const lh_sequence_request *request, uint32_t context,
                                    lh_error *error) {
    if (request->prompt_tokens == 0)
        return lh_fail(error, LH_ERR_INVALID, "the prompt is empty");
    bool is_pooled = request->pooling != LH_POOLING_NONE;
    if (is_pooled && (request->max_tokens > 0 || request->scores_prompt || request->constraint))
        return lh_fail(error, LH_ERR_INVALID, "what is pooled generates nothing");
    if (is_pooled && request->prompt_tokens > LH_POOLED_ROWS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "pooling is possible up to %u tokens",
                       LH_POOLED_ROWS_MAX);
    if (request->max_tokens == 0 && !lh_sequence_request_asks_of_prompt(request))
        return lh_fail(error, LH_ERR_INVALID, "max_tokens must be at least 1");
    if ((uint64_t)request->prompt_tokens + request->max_tokens > context)
        return lh_fail(error, LH_ERR_LIMIT,
                       "%u prompt tokens and %u more are over the context of %u",
                       request->prompt_tokens, request->max_tokens, context);
    if (request->stop_token_count > LH_SEQUENCE_STOP_TOKENS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u stop tokens: at most %u are possible",
                       request->stop_token_count, LH_SEQUENCE_STOP_TOKENS_MAX);
    if (request->sampling.bias_count > LH_TOKEN_BIASES_MAX - LH_SEQUENCE_STOP_TOKENS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u logit biases: at most %u are possible",
                       request->sampling.bias_count,
                       LH_TOKEN_BIASES_MAX - LH_SEQUENCE_STOP_TOKENS_MAX);
    if (request->prompt_tops > LH_TOP_LOGPROBS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u logprobs of the prompt: at most %u are possible",
                       request->prompt_tops, LH_TOP_LOGPROBS_MAX);
    if (request->sampling.top_logprobs > LH_TOP_LOGPROBS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "top_logprobs %u: at most %u are possible",
                       request->sampling.top_logprobs, LH_TOP_LOGPROBS_MAX);
    if (lh_sequence_request_has_penalty(request) &&
        request->prompt_tokens + request->max_tokens > LH_TOKEN_COUNTS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "penalties are possible up to %u tokens",
                       LH_TOKEN_COUNTS_MAX);
    return LH_OK;
}
