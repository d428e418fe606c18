/* Answers and chunks of chat and completions as JSON. Every function appends to a buffer.
 * LH_ERR_NO_MEMORY. Thread: any. */
#pragma once

#include "gateway/openai/fields.h"
#include "gateway/openai/generation.h"

#include <jansson.h>

/* What all objects of one answer share. */
typedef struct lh_openai_frame {
    lh_openai_endpoint endpoint;
    const char *id;
    int64_t created;
    const lh_served_model *model;
    bool service_tier; /* was asked for, so it is told */
    bool logprobs, digests;
    uint32_t top_logprobs;
    json_t *timing; /* NULL, but at the end of an answer that is to tell it; the owner's */
} lh_openai_frame;

typedef struct lh_openai_usage {
    uint64_t prompt_tokens, completion_tokens;
    uint64_t cached_tokens; /* of the prompts' */
} lh_openai_usage;

/* What a choice has gathered by the end of an answer that is not streamed. */
typedef struct lh_openai_gathered {
    lh_text_buffer text;
    json_t *logprobs, *digests; /* NULL: none yet */
    lh_finish_reason reason;
} lh_openai_gathered;

void lh_openai_gathered_reset(lh_openai_gathered *gathered);
/* Adds a piece to its choice. */
lh_status lh_openai_gather(const lh_openai_frame *frame, const lh_generation_piece *piece,
                           lh_openai_gathered *gathered);
/* The whole answer. What `choices` hold of JSON is taken. */
lh_status lh_openai_render_answer(const lh_openai_frame *frame, lh_openai_gathered *choices,
                                  uint32_t count, const lh_openai_usage *usage,
                                  lh_text_buffer *out);

/* A choice's first chunk: the role (chat), or the echoed prompt (completions). */
lh_status lh_openai_render_opening(const lh_openai_frame *frame, uint32_t choice, const char *text,
                                   size_t length, const lh_openai_usage *usage,
                                   lh_text_buffer *out);
/* A piece that has text or tokens; its end is a chunk of its own. `usage`: NULL where it is not
 * told. */
lh_status lh_openai_render_chunk(const lh_openai_frame *frame, const lh_generation_piece *piece,
                                 const lh_openai_usage *usage, lh_text_buffer *out);
lh_status lh_openai_render_end(const lh_openai_frame *frame, const lh_generation_piece *piece,
                               const lh_openai_usage *usage, lh_text_buffer *out);
/* The chunk without choices that tells the usage (NULL: not) and the timing. */
lh_status lh_openai_render_usage(const lh_openai_frame *frame, const lh_openai_usage *usage,
                                 lh_text_buffer *out);

/* An entry of /v1/models. */
json_t *lh_openai_model_object(const lh_served_model *model);
