/* The OpenAI-compatible API on its HTTP port. gateway/main.c opens it over a running engine:
 *
 *     lh_openai_api_config config = lh_openai_api_config_default();
 *     config.http.listen = options.listen;
 *     lh_openai_api_open(&config, engine, &model, &api, &error);
 *     ... lh_openai_api_drain(api, 30000); lh_openai_api_close(api); then the engine
 *
 * Routes: /v1/models, /v1/models/{id}, /v1/chat/completions, /v1/completions, /v1/responses,
 * /v1/responses/input_tokens, /v1/messages, /v1/messages/count_tokens, /v1/embeddings, /tokenize,
 * /detokenize, /tokenizer_info (each with and without /v1), /apply-template, /health, /livez,
 * /readyz, /version, /openapi.json, /fleet, /trace/{id}, and Ollama's under /api. Thread:
 * open, drain and close by one thread. */
#pragma once

#include "common/metrics/exposition.h"
#include "gateway/auth/authenticator.h"
#include "gateway/engine/engine.h"
#include "gateway/http/server.h"
#include "gateway/openai/parameters.h"
#include "gateway/text/served_model.h"
#include "gateway/trace/trace_store.h"

typedef struct lh_openai_api lh_openai_api;
typedef struct lh_openai_dialect lh_openai_dialect; /* dialect.h */
typedef struct lh_openai_ollama lh_openai_ollama;   /* dialect.h */

typedef struct lh_openai_api_config {
    lh_http_config http;
    lh_openai_limits limits;         /* what is the model's, and is_traced, are filled in */
    int64_t request_timeout_us;      /* from a request's headers to its last token; 0: none */
    uint32_t keep_alive_ms;          /* of silence in a stream, then a comment */
    uint32_t readers;                /* threads of each kind that read requests (reader_pool.h) */
    size_t unread_bytes_max;         /* of the bodies that wait for them; then 429 */
    uint32_t unread_max;             /* how many may wait; then 429 */
    const char *cors_origins;        /* cors.h; outlives the API; NULL: none */
    lh_authenticator *authenticator; /* who may ask; outlives the API */
    /* --logits-digest: each choice tells the digest of every token's logits */
    bool logits_digest;
    lh_trace_store *traces; /* outlives the API; NULL: nothing is traced */
    /* Of /v1/responses and /v1/messages; static. */
    const lh_openai_dialect *responses, *messages;
    const lh_openai_ollama *ollama; /* of the routes under /api; static */
    /* a second address, on which it is all served as on the first, in Ollama's manner; NULL, "":
     * none */
    const char *ollama_listen;
} lh_openai_api_config;

/* The HTTP server's defaults, 16 choices, 128 prompts, as many sequences as that makes, not strict,
 * 600 s, 15 s, 2 readers of each kind, 64 MiB in 1,024 bodies, no digests, no traces;
 * `authenticator`, `responses`, `messages` and `ollama` stay NULL. */
lh_openai_api_config lh_openai_api_config_default(void);

/* The engine and the model outlive the API. Statuses as lh_http_server_create. */
lh_status lh_openai_api_open(const lh_openai_api_config *config, lh_engine *engine,
                             const lh_served_model *model, lh_openai_api **api, lh_error *error);
uint16_t lh_openai_api_port(const lh_openai_api *api);
/* 0: it has no second address. */
uint16_t lh_openai_api_ollama_port(const lh_openai_api *api);
/* The metrics of its requests. Any thread, waits for nobody. */
void lh_openai_api_render_metrics(const lh_openai_api *api, lh_exposition *exposition);
/* Refuses new requests with 503 and waits until those in progress have ended, at most so long. */
void lh_openai_api_drain(lh_openai_api *api, uint32_t timeout_ms);
/* Ends what is still in progress. */
void lh_openai_api_close(lh_openai_api *api);
