/* The body of POST /v1/chat/completions or /v1/completions as plain data. Thread: any. */
#pragma once

#include "gateway/openai/output_format.h"
#include "gateway/openai/parameters.h"
#include "gateway/openai/tools.h"
#include "gateway/text/chat_template.h"

/* One prompt of completions: text, or token ids. */
typedef struct lh_openai_prompt {
    const char *text; /* NULL: tokens */
    size_t length;
    uint32_t *tokens; /* malloc'd */
    size_t token_count;
} lh_openai_prompt;

typedef struct lh_openai_request {
    lh_openai_endpoint endpoint;
    json_t *body; /* what the rest points into; without its text, the stop strings */
    lh_openai_parameters parameters;
    lh_openai_output_format format;
    /* Chat. */
    lh_chat_message *messages; /* [message_count], developer shown as system */
    char **joined; /* [message_count]: content put together from parts, or NULL; NULL: none */
    json_t *made;  /* a list: what the dialect made of the body, and the rest points into */
    json_t *reply; /* all of the answer, where the model is asked nothing; NULL: it is */
    json_t *told;  /* what the answer repeats of its request; NULL: nothing */
    lh_left_out left_out;
    size_t message_count;
    lh_openai_tools tools;            /* without its text, what may be called */
    json_t *kept_tools;               /* the same, also without its text; NULL: nobody needs it */
    json_t *tool_kinds;               /* what tools.kinds points to, also without it */
    bool calls_functions;             /* a call is told in OpenAI's elder words */
    const json_t *template_arguments; /* chat_template_kwargs: an object, or NULL */
    bool has_answer_head;             /* add_generation_prompt */
    bool continues_last_message;      /* continue_final_message */
    const json_t *reasoning_effort;   /* a text, or NULL */
    bool keeps_thoughts;              /* reasoning_format none: thoughts stay in the answer */
    bool hides_thoughts;              /* thoughts are told apart, and nobody is told of them */
    /* Completions. */
    lh_openai_prompt *prompts; /* [prompt_count] */
    size_t prompt_count;
    bool echo;
    bool parses_special; /* control tokens in the texts of prompts are these, and no text */
    const char *suffix;  /* of the body: what follows the answer; NULL: nothing */
    /* Embeddings, which have prompts, too. */
    bool wants_base64;
    bool appends_eos; /* to texts */
} lh_openai_request;

/* Takes the parsed body. False: *error says what is wrong. Either way lh_openai_request_reset frees
 * what it holds. */
bool lh_openai_request_parse(json_t *body, lh_openai_endpoint endpoint,
                             const lh_openai_limits *limits, lh_openai_request *request,
                             lh_openai_error *error);
/* Prompts in their four shapes, from the field `key`, for as many choices of each as the parameters
 * say. */
void lh_openai_prompts_parse(const lh_body_reader *body, const char *key,
                             const lh_openai_limits *limits, lh_openai_request *request);
/* What no dialect's request may have beside a form of its answer. */
void lh_openai_request_check_form(const lh_body_reader *body, const lh_openai_request *request);
/* Frees messages and prompts, and all of the body that the parameters do not point into. */
void lh_openai_request_drop_text(lh_openai_request *request);
void lh_openai_request_reset(lh_openai_request *request);
