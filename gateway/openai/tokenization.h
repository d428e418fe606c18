/* POST /tokenize and /detokenize, in vLLM's dialect and in llama.cpp's, and GET /tokenizer_info:
 * what evaluations and clients that count tokens need of the model's tokenizer, without workers.
 * Each appends its answer, compact JSON, to *reply. False: *error says what is wrong with the body.
 * Thread: any. */
#pragma once

#include "gateway/openai/service.h"

/* Of one text, or of one conversation. */
#define LH_OPENAI_TOKENIZED_BYTES_MAX (1u << 20)
/* Of the text that ids become. */
#define LH_OPENAI_DETOKENIZED_BYTES_MAX (16u << 20)

/* {"prompt"} or {"messages"} as vLLM has them, {"content"} as llama.cpp has it. Takes the body. */
bool lh_openai_tokenize(const lh_openai_service *service, const lh_openai_limits *limits,
                        json_t *body, lh_text_buffer *reply, lh_openai_error *error);
/* {"tokens"}; the answer has the text under both dialects' names. Does not take the body. */
bool lh_openai_detokenize(const lh_openai_service *service, const lh_openai_limits *limits,
                          const json_t *body, lh_text_buffer *reply, lh_openai_error *error);
/* NULL: no memory. */
json_t *lh_openai_tokenizer_json(const lh_served_model *model);
