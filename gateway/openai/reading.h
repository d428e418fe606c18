/* What the body of a request says: parsed, checked, rendered by the chat template and tokenized, so
 * that all it needs is to be submitted. Whatever takes time and memory in the length of a body, or
 * of what was kept of another request, is done here; nothing waits, and nothing knows of
 * connections. Thread: any. */
#pragma once

#include "gateway/openai/generation.h"
#include "gateway/openai/request.h"
#include "gateway/openai/routes.h"
#include "gateway/openai/service.h"

/* What a body is read for. */
typedef enum lh_openai_reading_goal {
    LH_READING_CHAT,
    LH_READING_COMPLETIONS,
    LH_READING_RESPONSES,
    LH_READING_MESSAGES, /* Anthropic's */
    LH_READING_OLLAMA_CHAT,
    LH_READING_OLLAMA_GENERATE,
    LH_READING_OLLAMA_EMBED,
    LH_READING_OLLAMA_EMBEDDINGS,
    LH_READING_EMBEDDINGS, /* the last one that is answered */
    /* What is shown and not sent: the JSON of the answer is made while reading. */
    LH_READING_TEMPLATE,       /* of chat, the text of its prompt alone */
    LH_READING_COUNT,          /* of Anthropic's messages, how many tokens they are */
    LH_READING_RESPONSE_COUNT, /* the same of Responses' input */
    LH_READING_TOKENIZE,
    LH_READING_DETOKENIZE,
    LH_READING_OLLAMA_SHOW,
    LH_READING_TRACE /* of no body, but of what follows the path: a request's id */
} lh_openai_reading_goal;

typedef struct lh_openai_reading {
    /* Without the text of messages and prompts, which takes the most memory. */
    lh_openai_request request;
    lh_generation_prompt *prompts; /* [prompt_count], pointing into `tokens`; of chat, one */
    lh_tokens *tokens;             /* [prompt_count] */
    lh_text_buffer *echoes;        /* [prompt_count], or NULL */
    lh_constraint *constraint;     /* what its answers must be; NULL: any text */
    lh_text_buffer reply;          /* where nothing is sent: all that there is; else empty */
    size_t prompt_count;
    size_t replaced_characters; /* of the body's texts, by U+FFFD */
} lh_openai_reading;

/* Whether a route is for the reader pool, and what for. */
bool lh_openai_reading_goal_of(lh_openai_action action, lh_openai_reading_goal *goal);
/* Whether it is a body that is read. */
bool lh_openai_reading_has_body(lh_openai_reading_goal goal);
/* Whether what is read is then submitted. */
bool lh_openai_reading_is_answered(lh_openai_reading_goal goal);
/* In whose words the body is, and errors about it. */
lh_openai_endpoint lh_openai_reading_endpoint(lh_openai_reading_goal goal);

/* False: *error, whose status was 0, says what is wrong with the body. Either way
 * lh_openai_reading_reset frees what it holds. */
bool lh_openai_reading_take(lh_openai_reading *reading, const lh_openai_service *service,
                            lh_openai_reading_goal goal, const char *bytes, size_t length,
                            lh_openai_error *error);
/* The JSON Schema of the bodies that it takes, drawn by what reads them; NULL: no memory. */
json_t *lh_openai_reading_describe(const lh_openai_service *service, lh_openai_reading_goal goal);
void lh_openai_reading_reset(lh_openai_reading *reading);
