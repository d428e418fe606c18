/* Which paths there are and what may be done with them. Reads the path as it came, undecoded but
 * for a model's or a request's id. Thread: any. */
#pragma once

#include "gateway/openai/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum lh_openai_action {
    LH_OPENAI_LIST_MODELS,
    LH_OPENAI_GET_MODEL,
    LH_OPENAI_POST_CHAT,
    LH_OPENAI_POST_COMPLETION,
    LH_OPENAI_POST_RESPONSE,
    LH_OPENAI_POST_MESSAGE, /* in Anthropic's dialect */
    LH_OPENAI_POST_EMBEDDINGS,
    LH_OPENAI_POST_COUNT,          /* /v1/messages/count_tokens */
    LH_OPENAI_POST_RESPONSE_COUNT, /* /v1/responses/input_tokens */
    LH_OPENAI_POST_TEMPLATE,       /* /apply-template */
    LH_OPENAI_POST_TOKENIZE,
    LH_OPENAI_POST_DETOKENIZE,
    LH_OPENAI_GET_TOKENIZER, /* /tokenizer_info */
    LH_OPENAI_GET_HEALTH,    /* /health and /readyz */
    LH_OPENAI_GET_LIFE,
    LH_OPENAI_GET_VERSION,
    LH_OPENAI_GET_OPENAPI,
    LH_OPENAI_GET_FLEET,
    LH_OPENAI_GET_FLEET_MAP,
    LH_OPENAI_GET_TRACE,
    LH_OPENAI_OLLAMA_POST_CHAT,
    LH_OPENAI_OLLAMA_POST_GENERATE,
    LH_OPENAI_OLLAMA_POST_EMBED,
    LH_OPENAI_OLLAMA_POST_EMBEDDINGS,
    LH_OPENAI_OLLAMA_POST_SHOW,
    LH_OPENAI_OLLAMA_GET_VERSION,
    LH_OPENAI_OLLAMA_LIST_MODELS,  /* /api/tags */
    LH_OPENAI_OLLAMA_LIST_RUNNING, /* /api/ps */
    LH_OPENAI_OLLAMA_FETCH,        /* what would get models, which is the operator's to do, */
    LH_OPENAI_OLLAMA_CHANGE,       /* and what would change them */
    LH_OPENAI_OLLAMA_GREET,        /* /, of Ollama's port */
    LH_OPENAI_TELL_FLEET_PORT,     /* a worker has come to the wrong port */
    LH_OPENAI_TELL_METHODS         /* OPTIONS */
} lh_openai_action;

typedef struct lh_openai_route {
    lh_openai_action action;
    const char *name;    /* "/v1/models/{id}": static, for the log */
    const char *methods; /* "GET, HEAD, OPTIONS": static */
    const char *rest;    /* the path behind the route's own: an id, still encoded */
    bool is_public;      /* needs no key */
    bool is_ollama;      /* its answers and errors are in Ollama's words */
    bool is_admin;       /* needs a key that may ask for it */
    uint32_t number;     /* of the route: lh_openai_route_count of one that there is not */
} lh_openai_route;

/* How many routes there are, and how the log calls each; "unknown" for the number behind the last.
 */
uint32_t lh_openai_route_count(void);
const char *lh_openai_route_name(uint32_t number);
/* The route of a number below the count, as for a path without a rest. */
lh_openai_route lh_openai_route_at(uint32_t number);

/* at_ollama: on the port that is like Ollama's, which has one route more. False: *error is 404, or
 * 405 with route->methods telling what would do. */
bool lh_openai_route_find(const char *method, const char *path, bool at_ollama,
                          lh_openai_route *route, lh_openai_error *error);

/* Decodes %XX. False: malformed, or longer than `bytes`. */
bool lh_openai_route_decode(const char *text, char *out, size_t bytes);
