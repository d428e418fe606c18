/* Answers and chunks of chat and completions as JSON. Each is the caller's; NULL: no memory.
 * Thread: any. */
#pragma once

#include "gateway/openai/fields.h"
#include "gateway/openai/generation.h"

/* What all objects of one answer share. */
typedef struct lh_openai_frame {
    lh_openai_endpoint endpoint;
    const char *id;
    int64_t created;
    int64_t received_us; /* when the request's headers came, on lh_clock_us */
    const lh_served_model *model;
    bool service_tier; /* was asked for, so it is told */
    bool logprobs, digests;
    bool echoes_logprobs; /* those of an echoed prompt are told before those of the completion */
    bool prompt_logprobs; /* vLLM's field was asked for, */
    uint32_t prompt_tops; /* with so many of the best */
    const lh_thinking_marks *thinking; /* NULL: thoughts are not told apart */
    bool calls_functions;              /* a call is told in OpenAI's elder words: function_call */
    json_t *tool_kinds;                /* lh_openai_tools.kinds, the owner's; NULL: none */
    uint32_t top_logprobs;
    bool returns_ids;
    const json_t *prompt_ids; /* [prompts]: lists; NULL: not to be told */
    uint32_t choices_per_prompt;
    json_t *timing; /* NULL, but at the end of an answer that is to tell it; the owner's */
} lh_openai_frame;

/* What a choice has gathered by the end of an answer that is not streamed. */
typedef struct lh_openai_gathered {
    lh_text_buffer text, thought;
    lh_tool_call_delta *calls; /* whole, with their arguments in `arguments` */
    size_t call_count, call_capacity;
    lh_text_buffer arguments;
    json_t *logprobs, *digests, *ids; /* NULL: none yet */
    json_t *prompt_logprobs;          /* NULL: not asked for */
    lh_finish_reason reason;
    json_t *stop_reason; /* NULL: null */
} lh_openai_gathered;

void lh_openai_gathered_reset(lh_openai_gathered *gathered);
/* Adds a piece to its choice. LH_ERR_NO_MEMORY. */
lh_status lh_openai_gather(const lh_openai_frame *frame, const lh_generation_piece *piece,
                           lh_openai_gathered *gathered);
/* The whole answer. */
json_t *lh_openai_answer_json(const lh_openai_frame *frame, const lh_openai_gathered *choices,
                              uint32_t count, const lh_token_usage *usage);

/* Chunks of a stream; `usage`: NULL where it is not told. A choice's first one: the role (chat), or
 * the echoed prompt (completions). */
json_t *lh_openai_opening_json(const lh_openai_frame *frame, uint32_t choice, const char *text,
                               size_t length, const lh_token_usage *usage);
/* The echoed prompt of a choice with what is known of its tokens: the piece has them. */
json_t *lh_openai_echo_json(const lh_openai_frame *frame, const lh_generation_piece *piece,
                            const char *text, size_t length, const lh_token_usage *usage);
/* A piece that has text or tokens; its end is a chunk of its own. */
json_t *lh_openai_chunk_json(const lh_openai_frame *frame, const lh_generation_piece *piece,
                             const lh_token_usage *usage);
/* A piece of a call: its head, without arguments, or a part of its arguments. */
json_t *lh_openai_call_head_json(const lh_openai_frame *frame, uint32_t choice,
                                 const lh_tool_call_delta *call, const lh_token_usage *usage);
json_t *lh_openai_call_arguments_json(const lh_openai_frame *frame, uint32_t choice, uint32_t call,
                                      const char *arguments, size_t length,
                                      const lh_token_usage *usage);
/* The text of a call of a custom tool, whose arguments these are, in one piece. */
json_t *lh_openai_custom_input_json(const lh_openai_frame *frame, uint32_t choice, uint32_t call,
                                    const char *arguments, size_t length,
                                    const lh_token_usage *usage);
json_t *lh_openai_end_json(const lh_openai_frame *frame, const lh_generation_piece *piece,
                           const lh_token_usage *usage);
/* The chunk without choices that tells the usage and the timing. */
json_t *lh_openai_usage_json(const lh_openai_frame *frame, const lh_token_usage *usage);

/* An entry of /v1/models under one of the model's names. What is served of its context is named as
 * vLLM (max_model_len) and llama-server (meta.n_ctx) name it. */
json_t *lh_openai_model_json(const lh_served_model *model, uint32_t served_context,
                             const char *name, size_t length);
